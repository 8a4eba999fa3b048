"""The shape of `VTASKS_SCHEDULE`; `scheduling.entries` reads it."""

import math
from datetime import timedelta
from typing import Any

CRON = "cron"
INTERVAL = "interval"

SCHEDULE_ENTRY_KEYS = frozenset(
    (
        *("task", "schedule", "args", "kwargs", "queue", "priority", "timezone"),
        *("jitter", "catch_up", "overlap", "run_on_start", "enabled", "description"),
    )
)
"""What an entry may say."""


def classify_schedule(schedule: Any) -> str | None:
    """CRON for text, INTERVAL for positive seconds or a positive timedelta, None for what is no schedule."""
    if isinstance(schedule, str):
        return CRON
    if isinstance(schedule, timedelta):
        schedule = schedule.total_seconds()
    if isinstance(schedule, bool) or not isinstance(schedule, int | float):
        return None
    return INTERVAL if math.isfinite(schedule) and schedule > 0 else None

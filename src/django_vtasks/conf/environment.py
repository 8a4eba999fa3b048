"""The `settings` object: a Django setting, else the environment variable of the same name, else the default."""

import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings as django_settings
from django.core.signals import setting_changed

logger = logging.getLogger(__name__)

PREFIX = "VTASKS_"

DEFAULTS: Mapping[str, Any] = {
    # The 3.2 line.
    "VTASKS_QUEUES": ["default"],
    "VTASKS_CONCURRENCY": 20,
    "VTASKS_RUN_SCHEDULER": True,
    "VTASKS_SCHEDULE": {},
    "VTASKS_DLQ_CAP": 1000,
    "VTASKS_VALKEY_PREFIX": "{vt}",
    "VTASKS_METRICS_PORT": None,
    "VTASKS_HEALTH_CHECK_FILE": None,
    "VTASKS_WORKER_ID": None,
    "VTASKS_BACKEND": "default",
    "VTASKS_MAX_RESCUES": 0,
    "VTASKS_HEARTBEAT_INTERVAL": 5,
    "VTASKS_RESCUE_INTERVAL": 30,
    "VTASKS_SHUTDOWN_CANCEL_GRACE": None,
    "VTASKS_TASK_CONTEXT": None,
    # Ours.
    "VTASKS_RESULT_TTL": None,
    "VTASKS_SHUTDOWN_TIMEOUT": 30.0,
    "VTASKS_MAX_JOB_BYTES": 10 * 1024 * 1024,
    "VTASKS_LEASE_SECONDS": None,
    "VTASKS_QUEUE_ORDER": "fair",
    "VTASKS_HEALTH_PORT": None,
    "VTASKS_MAX_ATTEMPTS": 1,
    "VTASKS_BACKOFF": "exponential",
    "VTASKS_TASK_TIMEOUT": None,
    "VTASKS_SCHEDULE_TIMEZONE": "UTC",
    "VTASKS_LOOP_BLOCK_THRESHOLD": 1.0,
    "VTASKS_MAX_ABANDONED_THREADS": 100,
    "VTASKS_DLQ_MAX_AGE": None,
}
"""Every setting and its default. `docs/reference` says what each means."""

ENV_TYPES: Mapping[str, type] = {
    "VTASKS_QUEUES": list,
    "VTASKS_CONCURRENCY": int,
    "VTASKS_RUN_SCHEDULER": bool,
    "VTASKS_SCHEDULE": dict,
    "VTASKS_DLQ_CAP": int,
    "VTASKS_VALKEY_PREFIX": str,
    "VTASKS_METRICS_PORT": int,
    "VTASKS_HEALTH_CHECK_FILE": str,
    "VTASKS_WORKER_ID": str,
    "VTASKS_BACKEND": str,
    "VTASKS_MAX_RESCUES": int,
    "VTASKS_HEARTBEAT_INTERVAL": float,
    "VTASKS_RESCUE_INTERVAL": float,
    "VTASKS_SHUTDOWN_CANCEL_GRACE": float,
    "VTASKS_TASK_CONTEXT": str,
    "VTASKS_RESULT_TTL": float,
    "VTASKS_SHUTDOWN_TIMEOUT": float,
    "VTASKS_MAX_JOB_BYTES": int,
    "VTASKS_LEASE_SECONDS": float,
    "VTASKS_QUEUE_ORDER": str,
    "VTASKS_HEALTH_PORT": int,
    "VTASKS_MAX_ATTEMPTS": int,
    "VTASKS_BACKOFF": str,
    "VTASKS_TASK_TIMEOUT": float,
    "VTASKS_SCHEDULE_TIMEZONE": str,
    "VTASKS_LOOP_BLOCK_THRESHOLD": float,
    "VTASKS_MAX_ABANDONED_THREADS": int,
    "VTASKS_DLQ_MAX_AGE": float,
}
"""What the text of an environment variable becomes."""

_TRUE = frozenset(("1", "true", "yes"))


class Settings:
    """Attributes named `VTASKS_...`; any other name raises AttributeError.

    A value is kept after it was first read and forgotten when a test overrides a setting. `generation` changes with
    every such override, so that what was computed from settings can tell that it is stale.
    """

    generation: int

    def __init__(self) -> None:
        self.generation = 0
        setting_changed.connect(self._forget, weak=False, dispatch_uid="django_vtasks.conf")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith(PREFIX):
            raise AttributeError(f"there is no setting {name!r}: the settings of this package start with {PREFIX}")
        value = self._read(name)
        if name == "VTASKS_VALKEY_PREFIX" and value and not value.endswith(":"):
            value += ":"
        self.__dict__[name] = value
        return value

    def is_given(self, name: str) -> bool:
        """Whether the project or the environment sets this one, so that it is not a default."""
        return getattr(django_settings, name, None) is not None or name in os.environ

    def _read(self, name: str) -> Any:
        value = getattr(django_settings, name, None)
        if value is not None:
            return value
        default = DEFAULTS.get(name)
        text = os.environ.get(name)
        return default if text is None else _from_text(name, text, default)

    def _forget(self, *, setting: str, **_kwargs: Any) -> None:
        self.generation += 1
        if setting.startswith(PREFIX):
            self.__dict__.pop(setting, None)


def _from_text(name: str, text: str, default: Any) -> Any:
    kind = ENV_TYPES.get(name, str)
    if kind is bool:
        return text.strip().lower() in _TRUE
    try:
        return _READERS.get(kind, str)(text)
    except ValueError as error:
        logger.warning("The environment variable %s is ignored, %r stays: %s", name, default, error)
        return default


def _list(text: str) -> Any:
    if text.lstrip().startswith(("[", "{")):
        return json.loads(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _mapping(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is needed, not {type(value).__name__}")  # noqa: TRY004 - handled as text
    return value


_READERS: Mapping[type, Callable[[str], Any]] = {int: int, float: float, list: _list, dict: _mapping}

settings = Settings()
"""The settings of this package."""

"""The scenarios by name. Each module registers its own when it is imported."""

from __future__ import annotations

from gauntlet.scenarios import (
    blocked,
    clocks,
    deaths,
    freezes,
    fulldisk,
    hostnames,
    identity,
    limits,
    networks,
    schedules,
    servers,
    stops,
    workload,
)
from gauntlet.scenarios.registry import SCENARIOS, Scenario

__all__ = [
    "SCENARIOS",
    "Scenario",
    "blocked",
    "clocks",
    "deaths",
    "freezes",
    "fulldisk",
    "hostnames",
    "identity",
    "limits",
    "networks",
    "schedules",
    "servers",
    "stops",
    "workload",
]

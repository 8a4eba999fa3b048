"""The scenarios by name. Each module registers its own when it is imported."""

from __future__ import annotations

from gauntlet.scenarios import blocked, deaths, freezes, identity
from gauntlet.scenarios.registry import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "Scenario", "blocked", "deaths", "freezes", "identity"]

"""How a function becomes a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gauntlet.stage import Stage

EVERYWHERE = ("valkey", "postgres", "sqlite")
SERVED = ("valkey", "postgres")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scenario: what is played, on which stores, with which Django settings beside the usual ones."""

    name: str
    play: Callable[[Stage], None]
    stores: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """The first line of its docstring."""
        return (self.play.__doc__ or "").partition("\n")[0]


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str, *, stores: tuple[str, ...] = EVERYWHERE, settings: Mapping[str, Any] | None = None
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a function as a scenario."""

    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        SCENARIOS[name] = Scenario(name=name, play=play, stores=stores, settings=settings or {})
        return play

    return register

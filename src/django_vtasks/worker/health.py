"""Whether the worker gets anywhere: judged by when each of its services last came round."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .service import Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Subsystem:
    """One service: seconds since it last came round and since it lost the store, and what is wrong (None: nothing)."""

    name: str
    age: float
    down_for: float | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The state of a worker. Alive means that its services turn; ready, that the store answers as well."""

    subsystems: tuple[Subsystem, ...]
    stopping: bool

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not any(subsystem.problem for subsystem in self.subsystems)

    @property
    def ready(self) -> bool:
        """Whether it takes jobs at this moment."""
        return self.healthy and not self.stopping and not any(s.down_for is not None for s in self.subsystems)

    def as_json(self) -> dict[str, object]:
        """The report for a probe: durations in seconds."""
        return {
            "healthy": self.healthy,
            "ready": self.ready,
            "stopping": self.stopping,
            "subsystems": {
                subsystem.name: {
                    "age": round(subsystem.age, 3),
                    "down_for": None if subsystem.down_for is None else round(subsystem.down_for, 3),
                    "problem": subsystem.problem,
                }
                for subsystem in self.subsystems
            },
        }


class Health:
    """Judges the paces of a run; may be asked from any thread."""

    def __init__(self, paces: Iterable[Pace], stopping: Callable[[], bool] = bool) -> None:
        self._paces = paces
        self._stopping = stopping

    def report(self) -> Report:
        """The state at this moment."""
        now = time.monotonic()
        subsystems = tuple(_judged(pace, now) for pace in tuple(self._paces))
        return Report(subsystems=subsystems, stopping=self._stopping())


def _judged(pace: Pace, now: float) -> Subsystem:
    age = now - pace.turned_at
    down_since = pace.down_since
    down_for = None if down_since is None else now - down_since
    problem = None
    if pace.crashed is not None:
        problem = f"crashed: {pace.crashed}"
    elif down_for is not None and down_for > pace.patience:
        problem = f"the store cannot be used for {down_for:.0f} s"
    elif age > pace.patience + pace.expected:
        problem = f"did not come round for {age:.0f} s"
    return Subsystem(name=pace.name, age=age, down_for=down_for, problem=problem)

"""Demand: so many jobs of each line that wait or run, kept up from a thread while they are worked off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gauntlet.feed import Call
from gauntlet.ledger import Ledger, Run
from gauntlet.stage import Stage
from gauntlet.waiting import PATIENCE, until

EVERY = 0.05


@dataclass(slots=True, kw_only=True)
class Line:
    """Jobs of one sort: what enqueues one, how long each runs, and how many are wanted at a time."""

    kind: str
    enqueue: Callable[[str, float], Any]
    seconds: float
    depth: int = 0
    accepted: int = 0
    done: set[str] = field(default_factory=set)

    @property
    def open(self) -> int:
        """How many wait or run."""
        return self.accepted - len(self.done)


class Demand:
    """Keeps every line at its depth from `start` to `stop`. What is accepted is judged by the stage."""

    def __init__(self, stage: Stage, lines: dict[str, Line]) -> None:
        self.lines = lines
        self._stage = stage
        self._ledger = Ledger(stage.ledger.path)
        self._stop = threading.Event()
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="demand", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def want(self, name: str, depth: int) -> None:
        """Change the depth of a line; returns when that many wait or run."""
        line = self.lines[name]
        grows, line.depth = depth >= line.open, depth
        until(lambda: self._crash or (line.open >= depth if grows else line.open <= depth), f"{depth} {name} jobs")

    def stop(self) -> None:
        """Enqueue no more."""
        self._stop.set()
        self._thread.join(60 * PATIENCE)
        if self._crash is not None:
            raise self._crash

    def _run(self) -> None:
        from django.db import connections

        try:
            while not self._stop.wait(EVERY):
                self._count()
                for name, line in self.lines.items():
                    for _ in range(line.depth - line.open):
                        self._enqueue(name, line)
        except BaseException as error:
            self._crash = error
        finally:
            connections.close_all()

    def _enqueue(self, name: str, line: Line) -> None:
        label = f"{name}-{line.accepted}"
        job_id = str(line.enqueue(label, line.seconds).id)
        line.accepted += 1
        self._stage.enqueued[job_id] = Call(label=label, kind=line.kind, seconds=line.seconds)

    def _count(self) -> None:
        for run in self._ledger.ended():
            if line := self.lines.get(line_of(run)):
                line.done.add(run.job_id)


def line_of(run: Run) -> str:
    """The line of a run."""
    return run.label.rpartition("-")[0]

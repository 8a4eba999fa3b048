"""Runs as processes: what is needed once per store, one run, and its report."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gauntlet.homes import HOMES
from gauntlet.waiting import LENGTH, PATIENCE

ROOT = Path(__file__).resolve().parents[1]
LONGEST_RUN = 420.0
"""Seconds that a run takes at most, beside the length of a scenario that has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How one run went. `verdict` is passed, failed, vacuous, unavailable or broken."""

    scenario: str
    store: str
    seed: int
    verdict: str
    problems: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the product stood the test."""
        return self.verdict == "passed"

    def __str__(self) -> str:
        facts = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in self.facts.items())
        line = (
            f"{self.scenario:<12} {self.store:<9} seed {self.seed:<3} {self.verdict:<8} {self.seconds:5.1f} s  {facts}"
        )
        return "\n    ".join([line, *self.problems[:12], *(["..."] if len(self.problems) > 12 else [])])


class Templates:
    """Makes what all runs of a store share, once, in a folder that is gone afterwards."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gauntlet-template-", dir="/tmp")
        self._made: dict[str, Path | None] = {}

    def of(self, store: str) -> Path | None:
        """The template of a store."""
        if store not in self._made:
            self._made[store] = HOMES[store].make_template(Path(self._folder.name))
        return self._made[store]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self._folder.cleanup()


def run(
    scenario: str,
    store: str,
    seed: int,
    *,
    short: bool = False,
    seconds: float | None = None,
    template: Path | None = None,
    keep: Path | None = None,
) -> Report:
    """Run one scenario in a process of its own."""
    command = [sys.executable, "-m", "gauntlet.one", scenario, store, str(seed)]
    command += ["--short"] if short else []
    command += ["--seconds", str(seconds)] if seconds is not None else []
    command += ["--template", str(template)] if template else []
    command += ["--keep", str(keep / f"{scenario}-{store}-{seed}")] if keep else []
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        printed, errors = process.communicate(timeout=(LONGEST_RUN + (seconds or LENGTH)) * PATIENCE)
    except BaseException:
        # It ends its workers and its server on SIGTERM; killed, it would leave them behind.
        process.terminate()
        process.wait(60)
        raise
    lines = printed.strip().splitlines()
    try:
        parts = json.loads(lines[-1])
    except (IndexError, ValueError):
        parts = {"verdict": "broken", "problems": [(printed + errors)[-3000:]]}
    return Report(scenario=scenario, store=store, seed=seed, **parts)

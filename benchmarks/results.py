"""The figures of a run: kept while it goes on, so that one that was interrupted goes on where it was."""

import json
import os
import platform
import statistics
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from .peers import PEERS, REFERENCE, ROOT
from .scenarios import SCENARIOS

FOLDER = ROOT / "benchmarks" / "results"
NOISY = 0.2
"""Cores used by others above which a run is disturbed; it counts only where a cell has no quiet run."""

type Cell = tuple[str, str, str]
"""Peer, store, scenario."""


@dataclass(slots=True)
class Results:
    """Everything that is written down: where, with what, and each run's figures or error."""

    about: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def begun(cls, *, scale: float) -> "Results":
        """Of a run that begins now, on this machine."""
        return cls(about={"date": datetime.now(UTC).date().isoformat(), **machine(), "scale": scale})

    @classmethod
    def read(cls, file: Path) -> "Results":
        """What a file has."""
        return cls(**json.loads(file.read_text()))

    @classmethod
    def newest(cls) -> "Results | None":
        """What was published last, None before the first time."""
        files = sorted(FOLDER.glob("*.json"))
        return cls.read(files[-1]) if files else None

    def write(self, file: Path) -> None:
        """Write it down."""
        file.parent.mkdir(parents=True, exist_ok=True)
        text = {"about": self.about, "versions": self.versions, "runs": self.runs}
        part = file.with_suffix(".part")
        part.write_text(json.dumps(text, indent=1) + "\n")
        part.rename(file)

    def note(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """One run's figures, or its `error`."""
        peer, store, scenario = cell
        self.runs.append({"peer": peer, "store": store, "scenario": scenario, **outcome})

    def count(self, cell: Cell) -> int:
        """How often a cell was measured; a failure is none, so that the next run tries again."""
        return sum("error" not in run for run in self._of(cell))

    def median(self, cell: Cell, figure: str) -> float | None:
        """The median of the quiet runs, of all where none was quiet; None without any."""
        runs = [run for run in self._of(cell) if figure in run]
        quiet = [run for run in runs if run["other_cores"] <= NOISY]
        values = [run[figure] for run in quiet or runs]
        return statistics.median(values) if values else None

    def disturbed(self, cell: Cell) -> bool:
        """Whether no run of the cell was quiet."""
        runs = [run for run in self._of(cell) if "error" not in run]
        return bool(runs) and all(run["other_cores"] > NOISY for run in runs)

    def failure(self, cell: Cell) -> str:
        """Why a cell has no figure; empty when it has one or was not tried."""
        runs = self._of(cell)
        return runs[-1]["error"] if runs and all("error" in run for run in runs) else ""

    def ratio(self, cell: Cell, figure: str) -> float | None:
        """The figure over that of this project on the same store."""
        mine, own = self.median(cell, figure), self.median((REFERENCE, *cell[1:]), figure)
        return None if not own or mine is None else mine / own

    def cells(self) -> list[Cell]:
        """What was measured, in the order of peers, stores and scenarios."""
        found = {(run["peer"], run["store"], run["scenario"]) for run in self.runs}
        return [cell for cell in planned(list(PEERS), list(SCENARIOS)) if cell in found]

    def _of(self, cell: Cell) -> list[dict[str, Any]]:
        return [run for run in self.runs if (run["peer"], run["store"], run["scenario"]) == cell]


def planned(peers: list[str], scenarios: list[str]) -> list[Cell]:
    """The cells of some peers and scenarios, those that are to be compared next to each other."""
    return [
        (name, store, scenario)
        for store in ("sqlite", "postgres", "valkey")
        for scenario in scenarios
        for name in peers
        if store in PEERS[name].stores and SCENARIOS[scenario].suits(PEERS[name])
    ]


def machine() -> dict[str, Any]:
    """The class of this machine."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()

"""Counts runs inside a worker and writes down when the first began and the last ended. Standard library only."""

import json
import os
import time
from pathlib import Path

_EXPECTED = int(os.environ.get("BENCH_JOBS", "0"))
_runs: dict[int, int] = {}
_began = 0.0


def noop(number: int) -> None:
    """One run of job `number`."""
    global _began
    if not _began:
        _began = time.perf_counter()
    _runs[number] = _runs.get(number, 0) + 1
    if len(_runs) == _EXPECTED:
        _write_down()


def _write_down() -> None:
    report = {
        "seconds": time.perf_counter() - _began,
        "repeated": sum(count - 1 for count in _runs.values()),
    }
    target = Path(os.environ["BENCH_REPORT"])
    target.with_suffix(".part").write_text(json.dumps(report))
    target.with_suffix(".part").rename(target)

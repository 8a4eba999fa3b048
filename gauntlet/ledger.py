"""The ledger: what tasks really did, in a file outside of every store.

A line is appended by one write to a file opened with O_APPEND, so processes that are killed or frozen neither mix nor
lose lines. Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "GAUNTLET_LEDGER"


@dataclass(slots=True)
class Run:
    """One run of a task's code. `nonce` is new for every run; `ended` is None while, or if never, it got that far.

    `over` is when it ended or raised, `wall` what the clock on the wall showed at its start.
    """

    job_id: str
    attempt: int
    label: str
    pid: int
    nonce: str
    began: float
    ended: float | None = None
    raised: str | None = None
    wall: float = 0.0
    over: float | None = None

    @property
    def open(self) -> bool:
        """Whether neither an end nor an error was noted."""
        return self.ended is None and self.raised is None


@contextmanager
def noted(job_id: str, attempt: int, label: str) -> Iterator[str]:
    """Note the start of a run, and its end or the error that ended it; gives the nonce of the run."""
    nonce = uuid.uuid4().hex
    _append(what="start", job=job_id, attempt=attempt, label=label, pid=os.getpid(), nonce=nonce, wall=time.time())
    try:
        yield nonce
    except BaseException as error:
        _append(what="raised", nonce=nonce, error=type(error).__name__)
        raise
    _append(what="end", nonce=nonce)


def _append(**fields: object) -> None:
    line = json.dumps(fields | {"at": time.monotonic()}).encode() + b"\n"
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


class Ledger:
    """Reads a ledger as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self._runs: dict[str, Run] = {}
        self._read = 0

    def runs(self) -> list[Run]:
        """Every run so far, in the order of their starts."""
        for _ in self._new():
            pass
        return list(self._runs.values())

    def ended(self) -> list[Run]:
        """The runs that came to their end since this was asked before."""
        return [run for run in self._new() if run.ended is not None]

    def by_job(self) -> dict[str, list[Run]]:
        """The runs of each job."""
        found: dict[str, list[Run]] = {}
        for run in self.runs():
            found.setdefault(run.job_id, []).append(run)
        return found

    def open_in(self, pid: int) -> list[Run]:
        """What runs in a process, or ran when it was killed."""
        return [run for run in self.runs() if run.pid == pid and run.open]

    def _new(self) -> Iterator[Run]:
        with self.path.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            yield self._take(json.loads(line))

    def _take(self, line: dict) -> Run:
        nonce, at = line["nonce"], line["at"]
        if line["what"] == "start":
            self._runs[nonce] = Run(line["job"], line["attempt"], line["label"], line["pid"], nonce, at)
            self._runs[nonce].wall = line["wall"]
        elif line["what"] == "end":
            self._runs[nonce].ended = self._runs[nonce].over = at
        else:
            self._runs[nonce].raised, self._runs[nonce].over = line["error"], at
        return self._runs[nonce]

"""The workers of a run: `manage.py runworker` processes, and what is known of each."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

from gauntlet.waiting import PATIENCE
from tests.support.processes import ManagedProcess
from tests.support.servers import free_port

#: Log lines that one worker may write beside one for each attempt, when nothing happens to it.
QUIET_LINES = 40
#: What joins the tracebacks of one error and its causes.
CHAINED = "[Tt]he above exception(?:, another exception occurred| was the direct cause)"


class Worker(ManagedProcess):
    """A worker process, and what the scenario did to it: that much may be found in the store and in the log.

    `lapsed`: its lease may have run out, so its jobs may have been rescued. `stopped`: it was asked to end, so they
    may have been handed back. `tracebacks` and `lines` are what its log may have beside one line for each attempt,
    `outage_lines` how many of these may say that the store cannot be used.
    """

    def __init__(self, name: str, *arguments: str, env: dict[str, str], probed: bool = False) -> None:
        self.health_port = free_port() if probed else 0
        probe = ("--health-port", str(self.health_port)) if probed else ()
        super().__init__("runworker", "--id", name, *probe, *arguments, env=env)
        self.name = name
        self.incarnation = ""
        self.lapsed = False
        self.stopped = False
        self.tracebacks = 0
        self.lines = QUIET_LINES
        self.outage_lines = 0
        self.expected_exit: int | None = 0

    def end(self, *, within: float = 40) -> int:
        """Ask it to end, and wait for that; returns the exit code."""
        self.stopped = True
        return self.terminate(within=within * PATIENCE)

    def log_count(self, pattern: str) -> int:
        """How many lines of the log match."""
        return len(re.findall(pattern, self.log_text(), re.MULTILINE))

    def log_problems(self, attempts: int) -> list[str]:
        """What is wrong with the log of a worker that began so many attempts; a line for each rescue is right."""
        text, found = self.log_text(), []
        tracebacks = text.count("Traceback (most recent call last)") - len(re.findall(CHAINED, text))
        if tracebacks > self.tracebacks:
            found.append(f"{self.name}: {tracebacks} tracebacks in the log, at most {self.tracebacks} have a reason")
        lines = len(text.splitlines()) - _lines_of_stacks(text)
        lines -= self.log_count("The lease of .* ran out with")
        if lines > attempts + self.lines:
            found.append(f"{self.name}: {lines} lines in the log for {attempts} attempts")
        tries = self.log_count("cannot use the store")
        if tries > self.outage_lines:
            found.append(f"{self.name}: {tries} lines about an outage, at most {self.outage_lines} have a reason")
        refused = self.log_count("The outcome of .* was refused")
        if refused and not self.lapsed:
            found.append(f"{self.name}: {refused} outcomes were refused although it never lost its lease")
        words = ("CRITICAL", "unexpected error", "never retrieved", "never awaited")
        return found + [f"{self.name}: the log has {word!r}" for word in words if word in text]

    def save_log(self, folder: Path) -> None:
        """Keep the log for somebody who wants to know what happened."""
        shutil.copy(self.log_file, folder / f"worker-{self.name}-{self.pid}.log")

    def discard(self) -> None:
        """End the process whatever its state, and remove its log."""
        if self.process is not None and self.exit_code is None:
            self.send(signal.SIGCONT)
            self.kill()
        self.log_file.unlink(missing_ok=True)


def _lines_of_stacks(text: str) -> int:
    """Lines that belong to a stack or a traceback, which count as one with the line before."""
    return len(re.findall(r"^(?!\d\d:\d\d:\d\d )", text, re.MULTILINE))

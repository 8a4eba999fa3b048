"""Processes that acceptance tests start: `manage.py` of the test project, with captured logs, stopped by pid."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import DEADLINE, eventually

ROOT = Path(__file__).resolve().parents[2]
MANAGE = ROOT / "tests" / "project" / "manage.py"
INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "CI")


def process_environment(**variables: str) -> dict[str, str]:
    """Return a small, known environment for a started process; nothing of the test run leaks in."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return kept | {"PYTHONUNBUFFERED": "1", "DJANGO_SETTINGS_MODULE": "tests.project.settings"} | variables


def manage(*arguments: str, env: dict[str, str] | None = None, timeout: float = 60) -> str:
    """Run one management command to its end and return what it printed; a failing command fails the test."""
    done = subprocess.run(
        [sys.executable, str(MANAGE), *arguments],
        cwd=ROOT,
        env=process_environment(**(env or {})),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"manage.py {' '.join(arguments)} exited with {done.returncode}:\n{done.stdout}"
    return done.stdout


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own that has the package and the tests on its path, to its end."""
    return subprocess.run(
        [sys.executable, "-c", script],
        env=process_environment(PYTHONPATH=f"{ROOT / 'src'}:{ROOT}"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class ManagedProcess:
    """A running `manage.py` command. Owns the process and its log; leaving the `with` block ends it.

    `with ManagedProcess("runworker", "--concurrency", "4", env={...}) as worker: worker.wait_for_log("ready")`
    """

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        self.arguments = arguments
        self.env = process_environment(**(env or {}))
        self.process: subprocess.Popen[bytes] | None = None
        with tempfile.NamedTemporaryFile(prefix="vtasks-process-", suffix=".log", delete=False) as file:
            self.log_file = Path(file.name)

    def start(self) -> Self:
        """Start the process."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(MANAGE), *self.arguments],
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    @property
    def pid(self) -> int:
        """Process id."""
        assert self.process is not None, "the process was not started"
        return self.process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self.process.poll() if self.process else None

    def log_text(self) -> str:
        """Everything printed so far."""
        return self.log_file.read_text(errors="replace")

    def wait_for_log(self, pattern: str, *, within: float = DEADLINE) -> re.Match[str]:
        """Wait until the log matches a regular expression; fail at once when the process ends before."""

        def found() -> re.Match[str] | bool | None:
            ended = self.exit_code is not None  # asked before reading, so that the last lines are seen
            return re.search(pattern, self.log_text(), re.MULTILINE) or ended

        result = eventually(found, within=within, message=self._describe)
        if isinstance(result, bool):
            raise AssertionError(f"ended before it logged {pattern!r}. {self._describe()}")
        return result

    def wait(self, *, within: float = DEADLINE) -> int:
        """Wait for the end of the process; return its exit code."""
        assert self.process is not None, "the process was not started"
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within:.0f} s. {self._describe()}") from None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process; one that has ended already is left alone."""
        assert self.process is not None, "the process was not started"
        self.process.send_signal(number)

    def terminate(self, *, within: float = DEADLINE) -> int:
        """SIGTERM, wait, exit code."""
        self.send(signal.SIGTERM)
        return self.wait(within=within)

    def kill(self) -> int:
        """SIGKILL, wait, exit code: what a power cut or the kernel's memory killer does."""
        self.send(signal.SIGKILL)
        return self.wait()

    def pause(self) -> None:
        """Freeze the process, as a suspended machine would; returns once all its threads stand still."""
        assert self.process is not None, "the process was not started"
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a frozen process go on."""
        self.send(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        if self.process is not None and self.exit_code is None:
            self.kill()
        if error is not None:
            print(self._describe())  # noqa: T201 - pytest shows it beside the failure
        self.log_file.unlink(missing_ok=True)

    def _describe(self) -> str:
        state = "running" if self.exit_code is None else f"exit code {self.exit_code}"
        return f"manage.py {' '.join(self.arguments)} ({state}) printed:\n{self.log_text()[-8000:]}"

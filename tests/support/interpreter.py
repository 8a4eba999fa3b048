"""A process that runs piece after piece of code, so that not every question starts a Python."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from tests.support.processes import ROOT, process_environment

#: What the process runs: the prelude once, then each line of its input as the code it is, in a scope of its own.
LOOP = """
import io, json, sys, traceback
from contextlib import redirect_stdout
answers, told, scope = sys.stdout, json.loads(sys.stdin.readline()), {}
exec(told["prelude"], scope)
for line in sys.stdin:
    printed, problem = io.StringIO(), None
    with redirect_stdout(printed):
        try:
            exec(told["before"], dict(scope))
            exec(json.loads(line), dict(scope))
        except BaseException:
            problem = traceback.format_exc()
    answers.write(json.dumps([printed.getvalue(), problem]) + "\\n")
    answers.flush()
"""


class Interpreter:
    """Owns the process, which begins with the first piece of code and ends with `close`."""

    def __init__(self, prelude: str, before: str, env: dict[str, str]) -> None:
        """`prelude` runs once and what it defines is there for all code; `before` runs before each piece."""
        self.env = env
        self._told = {"prelude": prelude, "before": before}
        self._process: subprocess.Popen[str] | None = None
        self._complaints: list[str] = []
        self._reader: threading.Thread | None = None

    def run(self, code: str, *, within: float = 90) -> str:
        """Run code; return what it printed. Fails the test if it raises, or takes longer."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(code) + "\n")
            process.stdin.flush()
            answer = _line(process.stdout, within)
        if not answer:
            self.close()
            raise AssertionError(f"no answer within {within:.0f} s, or an end: {''.join(self._complaints)}")
        printed, problem = json.loads(answer)
        assert problem is None, problem
        return str(printed).strip()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if self._reader is not None:
            self._reader.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", LOOP],
            cwd=ROOT,
            env=process_environment(PYTHONPATH=str(ROOT), **self.env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._process = process
        self._reader = threading.Thread(target=self._listen, args=(process.stderr,))
        self._reader.start()
        assert process.stdin is not None
        process.stdin.write(json.dumps(self._told) + "\n")
        return process

    def _listen(self, stream: Any) -> None:
        self._complaints.extend(stream)


def _line(stream: Any, within: float) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        return stream.readline() if selector.select(within) else ""

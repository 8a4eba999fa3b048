"""A worker in development: a process that ends when code changes, and its parent, which starts it again.

Django's own parent kills the child when it is asked to end. This one passes the signal on and waits, since the child
has jobs to hand back.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from django.utils import autoreload

from .shutdown import SIGNALS

CHANGED = 3
"""The exit status of a child whose code changed."""


def is_child() -> bool:
    """Whether this is the process that runs the worker, not the one that starts it again."""
    return os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true"


def run_until_code_changes(run: Callable[[], None], end: Callable[[], None]) -> None:
    """In the child: `run` in a thread, until code changes or a signal comes; then call `end`, which no signal cuts
    short. Raises SystemExit with the status to end with."""
    leaving = False

    def leave(_number: int, _frame: FrameType | None) -> None:
        nonlocal leaving
        if not leaving:
            leaving = True
            sys.exit(0)

    for number in SIGNALS:
        signal.signal(number, leave)
    try:
        try:
            autoreload.start_django(autoreload.get_reloader(), run)
        finally:
            leaving = True
    finally:
        end()


class Parent:
    """Starts the child again for as long as it ends because code changed."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._ending = threading.Event()

    def run(self) -> int:
        """Returns the exit status of the last child; 0 when a signal asked for the end."""
        former: dict[int, Any] = {number: signal.signal(number, self._pass_on) for number in SIGNALS}
        try:
            return self._run()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    def _run(self) -> int:
        environ = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true"}
        while not self._ending.is_set():
            arguments = autoreload.get_child_arguments()
            self._child = subprocess.Popen(arguments, env=environ, close_fds=False)  # noqa: S603 - this command again
            if self._ending.is_set():
                # The signal came before there was a child that it could be passed on to.
                self._child.terminate()
            status = self._child.wait()
            if status != CHANGED and not self._ending.is_set():
                return status
        return 0

    def _pass_on(self, _number: int, _frame: FrameType | None) -> None:
        # A terminal sends Ctrl-C to the child as well, which takes no notice of the second signal.
        self._ending.set()
        if self._child is not None:
            self._child.terminate()

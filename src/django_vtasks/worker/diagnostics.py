"""What a worker does at this moment, as text: every thread's and task's stack, and the jobs under way."""

import asyncio
import logging
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

from .flight import Flight

logger = logging.getLogger("django_vtasks.worker")

SIGNAL = getattr(signal, "SIGUSR1", None)


class DumpOnSignal:
    """While entered, SIGUSR1 has the dump logged. Outside the main thread nothing is installed."""

    def __init__(self, dump: Callable[[], str]) -> None:
        self._dump = dump
        self._former: Any = None
        self._installed = False

    def __enter__(self) -> Self:
        if SIGNAL is not None and threading.current_thread() is threading.main_thread():
            self._former = signal.signal(SIGNAL, self._handle)
            self._installed = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._installed and SIGNAL is not None:
            signal.signal(SIGNAL, signal.SIG_DFL if self._former is None else self._former)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        logger.warning("%s", self._dump())


def dump(flight: Flight) -> str:
    """Threads, tasks and jobs of this process."""
    return "\n".join(("What this worker does:", *_jobs(flight), *_threads(), *_tasks()))


def _jobs(flight: Flight) -> Iterator[str]:
    now = time.monotonic()
    yield f"== jobs ({len(flight)} claimed)"
    for claim, attempt in flight.under_way():
        func = claim.job.func if claim.job else "?"
        yield f"{claim.lease.job_id}  {func}  queue={claim.queue}  for {now - attempt.started_monotonic:.1f} s"


def _threads() -> Iterator[str]:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        yield f"== thread {names.get(ident, ident)}"
        yield "".join(traceback.format_stack(frame)).rstrip()


def _tasks() -> Iterator[str]:
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:
        return
    for task in tasks:
        yield f"== task {task.get_name()}"
        for frame in task.get_stack(limit=5):
            yield f"  {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"

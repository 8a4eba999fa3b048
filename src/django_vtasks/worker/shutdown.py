"""How a worker process is asked to end: signals, counted; and a last resort when its event loop does not turn."""

import atexit
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger("django_vtasks.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)

END_SECONDS = 5.0
"""Seconds that the process has to end when its worker has ended."""


class SignalHandlers:
    """Calls back for every SIGTERM and SIGINT while entered, and puts the former handlers back afterwards.

    `on_signal` gets how many came so far. It is called by the main thread between two bytecodes, also while user
    code blocks the event loop, so it must only leave a note. Outside the main thread nothing is installed.
    """

    def __init__(self, on_signal: Callable[[int], None]) -> None:
        self.count = 0
        self._on_signal = on_signal
        self._former: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._former[number] = signal.signal(number, self._handle)
                _ours.add(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
            _ours.discard(number)
        self._former.clear()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._on_signal(self.count)


# A process that a task forks is no worker, and whoever forked it must be able to end it. Python forgets a signal that
# comes while a child of a process with handlers is being set up, so it is kept back until the handlers are gone.

_ours: set[signal.Signals] = set()
_masks = threading.local()


def _before_fork() -> None:
    _masks.former = signal.pthread_sigmask(signal.SIG_BLOCK, _ours) if _ours else None


def _in_parent() -> None:
    if _masks.former is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _masks.former)


def _in_child() -> None:
    for number in _ours:
        signal.signal(number, signal.SIG_DFL)
    _ours.clear()
    _in_parent()


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


class LastResort:
    """Ends the process when a graceful end does not come: a thread that waits, hands back and exits.

    Only for a process that is nothing but a worker. `hand_back` gets no help from the event loop, which may be
    blocked for good.
    """

    def __init__(self, hand_back: Callable[[], None]) -> None:
        self._hand_back: Callable[[], None] | None = hand_back
        self._status: Callable[[], int] = lambda: 1
        self._changed = threading.Condition()
        self._disarmed = False

    def arm(self, seconds: float) -> None:
        """End the process in so many seconds at the latest; may be called from a signal handler."""
        deadline = time.monotonic() + seconds
        threading.Thread(target=self._arm, args=(deadline,), name="vtasks-last-resort", daemon=True).start()

    def disarm(self) -> None:
        """The graceful end came, and the process goes on."""
        with self._changed:
            self._disarmed = True
            self._changed.notify_all()

    def settled(self, status: Callable[[], int]) -> None:
        """The graceful end came, and only the process has to end, with this status. Tasks may have left behind what
        Python waits for: threads, child processes, coroutines that do not take their cancellation."""
        with self._changed:
            self._hand_back = None
            self._status = status
        self.arm(END_SECONDS)

    def _arm(self, deadline: float) -> None:
        with self._changed:
            while not self._disarmed and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            if self._disarmed:
                return
            self._disarmed = True
            self._changed.notify_all()
            hand_back = self._hand_back
        if hand_back is None:
            logger.warning("The process is ended although tasks left something behind: %s", _leftovers())
        else:
            self._end_gracelessly(hand_back)
        logging.shutdown()
        os._exit(self._status())

    def _end_gracelessly(self, hand_back: Callable[[], None]) -> None:
        logger.critical("The event loop does not answer; handing back what runs, and ending the process")
        try:
            hand_back()
        except Exception:
            logger.exception("Handing back failed; the jobs are rescued when the lease has run out")


def _leftovers() -> str:
    threads = [thread.name for thread in threading.enumerate() if keeps_the_process(thread)]
    # Imported only by who has such children.
    processes = sys.modules.get("multiprocessing")
    children = processes.active_children() if processes is not None else []
    return ", ".join([*threads, *(f"process {child.pid}" for child in children)]) or "coroutines"


def keeps_the_process(thread: threading.Thread) -> bool:
    """Whether Python waits for a thread at its end, or a task runs in it."""
    if thread is threading.main_thread():
        return False
    return not thread.daemon or thread.name.startswith("vtasks-slot")


def leave_behind(status: int) -> None:
    """End the process with a status, and leave behind what tasks have left: threads at once, anything else for which
    Python waits when it has had its time. Returns when nothing stands in the way of an ordinary end."""
    guard = LastResort(lambda: None)
    guard.settled(lambda: status)
    left = [thread.name for thread in threading.enumerate() if keeps_the_process(thread)]
    if left:
        logger.warning("Leaving behind %s", ", ".join(left))
        atexit._run_exitfuncs()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

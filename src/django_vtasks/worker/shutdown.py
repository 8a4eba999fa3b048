"""How a worker process is asked to end: signals, counted; and a last resort when its event loop does not turn."""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

logger = logging.getLogger("django_vtasks.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._former.clear()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        self._on_signal(self.count)


class LastResort:
    """Ends the process when a graceful end does not come: a thread that waits, hands back and exits.

    Only for a process that is nothing but a worker. `hand_back` gets no help from the event loop, which may be
    blocked for good.
    """

    def __init__(self, hand_back: Callable[[], None], exit_status: int = 1) -> None:
        self._hand_back = hand_back
        self._exit_status = exit_status
        self._changed = threading.Condition()
        self._disarmed = False

    def arm(self, seconds: float) -> None:
        """End the process in so many seconds at the latest; may be called from a signal handler."""
        deadline = time.monotonic() + seconds
        threading.Thread(target=self._arm, args=(deadline,), name="vtasks-last-resort", daemon=True).start()

    def disarm(self) -> None:
        """The graceful end came."""
        with self._changed:
            self._disarmed = True
            self._changed.notify_all()

    def _arm(self, deadline: float) -> None:
        with self._changed:
            while not self._disarmed and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            if self._disarmed:
                return
            self._disarmed = True
        logger.critical("The event loop does not answer; handing back what runs, and ending the process")
        try:
            self._hand_back()
        except Exception:
            logger.exception("Handing back failed; the jobs are rescued when the lease has run out")
        logging.shutdown()
        os._exit(self._exit_status)

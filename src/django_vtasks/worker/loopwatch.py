"""Watches the event loop from outside: a thread asks it to turn, and looks at what it does when it does not."""

import asyncio
import sys
import threading
import time
import traceback

from ..events import Emitter, LoopBlocked

TELL_AFTER = 5.0
"""Seconds after which a block is reported although it is not over."""


class LoopWatch:
    """Owns the thread that measures one event loop. A block longer than `threshold` seconds is reported once."""

    def __init__(self, threshold: float, emitter: Emitter) -> None:
        self.blocks = 0
        self._threshold = threshold
        self._emitter = emitter
        self._stop = threading.Event()
        self._turned = threading.Event()
        self._thread_id = 0

    def start(self) -> None:
        """Watch the running loop, which the calling thread runs."""
        self._thread_id = threading.get_ident()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(loop,), name="vtasks-loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stop.set()
        self._turned.set()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.wait(max(0.1, self._threshold / 2)):
            self._turned.clear()
            try:
                loop.call_soon_threadsafe(self._turned.set)
            except RuntimeError:
                return  # The loop is closed.
            asked_at = time.monotonic()
            if not self._turned.wait(self._threshold) and not self._stop.is_set():
                self._blocked(asked_at)

    def _blocked(self, asked_at: float) -> None:
        stack = self._stack()
        self.blocks += 1
        self._turned.wait(TELL_AFTER)
        self._emitter.emit(LoopBlocked(seconds=time.monotonic() - asked_at, stack=stack))
        while not self._turned.is_set() and not self._stop.is_set():
            self._turned.wait(1.0)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread_id)
        return "".join(traceback.format_stack(frame)) if frame is not None else ""

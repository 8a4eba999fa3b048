"""One worker inside a process that has another purpose: started, watched over, restarted, and stopped with it."""

import asyncio
import atexit
import logging
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..worker import Worker

logger = logging.getLogger("django_vtasks.worker")

SIGNALS = (signal.SIGTERM, signal.SIGINT)

HASTE = 3.0
"""Seconds that a stop at once takes at most."""


class EmbeddedWorker:
    """Owns the worker of this process and the task that runs it. All methods are called on the server's event loop.

    The server's own signal handlers stay in force; the first signal also stops the worker from claiming, since a
    server waits for its requests before it says that it ends.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._known = False
        self._requests: set[asyncio.Task[Any]] = set()
        self._former: dict[int, Any] = {}

    def start(self) -> None:
        """Start the worker. Raises ImproperlyConfigured when its settings are wrong."""
        if self._task is not None:
            return
        from .. import logs

        self._known = True
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        logs.install()
        self._worker = _made()
        self._task = asyncio.create_task(self._run(), name="vtasks embedded worker")
        self._follow_signals()

    def start_unless_known(self) -> None:
        """Start for a server that does not tell when it starts, and which will not tell when it ends either."""
        if self._known:
            return
        self._known = True
        try:
            self.start()
        except Exception:
            logger.exception("The embedded worker cannot start")
            return
        atexit.register(self._hand_back)

    async def stop(self) -> None:
        """Stop gracefully, and wait for that."""
        self._note_stop()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._end()

    async def stop_at_once(self) -> None:
        """Stop now; what runs is handed back. Does nothing when it is over."""
        self._note_stop()
        runtime = self._worker.runtime if self._worker is not None else None
        if runtime is not None:
            runtime.stop_at_once()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=HASTE)
        self._end()

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Around one request: it may be cancelled when `VTASKS_SHUTDOWN_CANCEL_GRACE` has passed after a stop."""
        task = asyncio.current_task()
        if task is None:
            yield
            return
        self._requests.add(task)
        try:
            yield
        finally:
            self._requests.discard(task)

    async def _run(self) -> None:
        from ..worker.service import unless_stopped

        restarts = 0
        while self._worker is not None and not self._stop.is_set():
            _tell_start(self._worker)
            try:
                await self._worker.run(handle_signals=False)
            except Exception:
                logger.exception("The embedded worker crashed and is started again")
            if self._stop.is_set():
                return
            restarts += 1
            await unless_stopped(self._stop, min(60.0, 2.0 ** min(restarts, 6)) * random.uniform(0.5, 1.0))
            self._worker = _made()

    def _note_stop(self) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        runtime = self._worker.runtime if self._worker is not None else None
        if runtime is not None:
            runtime.stop()
        self._limit_requests()

    def _limit_requests(self) -> None:
        grace = self._worker.config.shutdown_cancel_grace if self._worker is not None else None
        if grace is not None and self._loop is not None:
            self._loop.call_later(grace, self._cancel_requests)

    def _cancel_requests(self) -> None:
        for request in tuple(self._requests):
            request.cancel()

    def _end(self) -> None:
        self._task = None
        self._worker = None
        for number, handler in self._former.items():
            if signal.getsignal(number) == self._signalled:
                signal.signal(number, handler)
        self._former.clear()

    def _follow_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            former = signal.getsignal(number)
            if former is not None and former is not signal.SIG_IGN:
                self._former[number] = signal.signal(number, self._signalled)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_stop)
        former = self._former.get(number)
        if callable(former):
            former(number, frame)
        elif former is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _hand_back(self) -> None:
        from ..worker.handback import hand_back

        if self._worker is not None and self._task is not None and not self._task.done():
            hand_back(self._worker)


def _tell_start(worker: "Worker") -> None:
    config = worker.config
    logger.info(
        "The embedded worker %s starts: alias %s, queues %s, %d slots, scheduler %s",
        config.worker_id,
        config.alias,
        ", ".join(config.queue_names),
        config.concurrency,
        "on" if config.run_scheduler else "off",
    )


def _made() -> "Worker":
    from ..conf import WorkerConfig, settings
    from ..framework import task_backends
    from ..worker import Worker
    from ..worker.service import WhenCrashed

    alias = settings.VTASKS_BACKEND
    backend: Any = task_backends[alias]
    scheduling = bool(settings.VTASKS_RUN_SCHEDULER) and _may_have_entries()
    worker = Worker(backend, config=WorkerConfig.from_settings(alias, run_scheduler=scheduling))
    worker.when_crashed = WhenCrashed.RESTART
    if scheduling:
        from ..scheduling.scheduler import NAME, make_service

        worker.add_service(NAME, make_service(backend))
    return worker


def _may_have_entries() -> bool:
    from ..scheduling.sources import may_have_entries

    return may_have_entries()

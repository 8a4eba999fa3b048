"""A process that is nothing but a worker: its loop, what it prints, its exit."""

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

from django.core.management.base import CommandError

from .. import logs
from ..events import LetterBuried, events
from .handback import hand_back
from .runtime import INTERRUPT_GRACE, SETTLE_GRACE
from .service import ServiceCrashed
from .shutdown import LastResort
from .worker import Worker

logger = logging.getLogger("django_vtasks.worker")

LOGGER = "django_vtasks"

LAST_RESORT_AFTER = INTERRUPT_GRACE + 2 * SETTLE_GRACE
"""Seconds beyond the deadline after which the process ends, whatever its event loop does."""


type Status = Callable[["Standalone"], int]


class Output(Protocol):
    """Where a management command prints."""

    def write(self, msg: str) -> Any:
        """Print a line."""
        ...

    def flush(self) -> Any:
        """Let it be seen."""
        ...


class _OutputHandler(logging.Handler):
    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._output.write(self.format(record))
            self._output.flush()
        except Exception:
            self.handleError(record)


class Console:
    """Prints the log lines of this package where the project has no LOGGING of its own; nothing at verbosity 0."""

    def __init__(self, output: Output, verbosity: int) -> None:
        self._output = output
        self._verbosity = verbosity

    @contextmanager
    def printing(self) -> Iterator[None]:
        """Print until the block is left, if nothing else would."""
        package = logging.getLogger(LOGGER)
        if package.hasHandlers():
            yield
            return
        level, handler = package.level, self._handler()
        package.addHandler(handler)
        package.setLevel(logging.DEBUG if self._verbosity > 1 else logging.INFO)
        try:
            yield
        finally:
            package.setLevel(level)
            package.removeHandler(handler)

    def _handler(self) -> logging.Handler:
        if self._verbosity == 0:
            return logging.NullHandler()
        handler = _OutputHandler(self._output)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
        return handler


class Standalone:
    """Runs one worker to its end. Raises CommandError when the worker crashed.

    With `status`, which tells the exit status, the process is to end with it, and does so whatever tasks left behind.
    """

    def __init__(self, worker: Worker, location: str, console: Console, status: Status | None = None) -> None:
        self._worker = worker
        self._location = location
        self._console = console
        self._over = threading.Event()
        self._last_resort = LastResort(lambda: hand_back(worker))
        self._status = status
        self.failed = 0
        worker.on_signal = self._signalled
        # Told when signals are heeded, so that whoever reads it may send one.
        worker.on_start = self._tell_start

    def run(self) -> None:
        """Run until the worker ends."""
        logs.install()
        events.subscribe(LetterBuried, self._note_letter)
        with logs.framework_succeeding_quietly(), self._console.printing():
            try:
                run_in_loop(self._worker.run(), self._note_end)
            except ServiceCrashed as error:
                raise CommandError(f"The worker crashed: {error.__cause__!r}") from error
            except OSError as error:
                raise CommandError(f"The worker cannot start: {error}") from error
            logger.info("The worker %s has ended", self._worker.worker_id)

    @property
    def begun(self) -> int:
        """How many attempts were begun."""
        runtime = self._worker.runtime
        return runtime.attempts.begun if runtime is not None else 0

    def end_from_outside(self) -> None:
        """End the run that another thread makes, at once, and wait for that."""
        runtime = self._worker.runtime
        if runtime is not None and not self._over.is_set():
            self._worker.stop_from_outside()
            self._over.wait(INTERRUPT_GRACE + 3 * SETTLE_GRACE)

    def _note_end(self) -> None:
        crashed = sys.exception() is not None
        status = self._status
        if status is None:
            self._last_resort.disarm()
        else:
            self._last_resort.settled(lambda: 1 if crashed else status(self))
        self._over.set()

    def _note_letter(self, _event: LetterBuried) -> None:
        self.failed += 1

    def _signalled(self, count: int) -> None:
        patience = self._worker.config.shutdown_timeout if count == 1 else 0.0
        self._last_resort.arm(patience + LAST_RESORT_AFTER)

    def _tell_start(self) -> None:
        config, backend = self._worker.config, self._worker.backend
        logger.info("Worker %s starts", config.worker_id)
        logger.info("  Backend: %s (%s)", config.alias, type(backend).__name__)
        logger.info("  Broker: %s", self._location)
        logger.info("  Concurrency: %d", config.concurrency)
        more = " and every other one that has jobs" if config.every_queue else ""
        logger.info("  Queues: %s%s", ", ".join(config.queue_names), more)
        logger.info("  Scheduler: %s", "on" if config.run_scheduler else "off")


def run_in_loop(main: Coroutine[Any, Any, None], over: Callable[[], None]) -> None:
    """Run to the end; `over` is called before the loop is taken down, which may wait for what tasks left behind."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
        loop.set_default_executor(threads)
        try:
            await main
        finally:
            over()
            # The loop itself would wait five minutes for a thread that a task uses, and trips over one that is late.
            threads.shutdown(wait=False)
            loop.set_default_executor(ThreadPoolExecutor(1))

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(run())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory

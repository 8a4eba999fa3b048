"""What surrounds a run: the loop watch, health for the outside, metrics; each only if it is asked for."""

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from ..conf import PID, WorkerConfig
from ..events import Emitter
from .health import Health
from .loopwatch import LoopWatch
from .service import WhenCrashed

logger = logging.getLogger("django_vtasks.worker")

_OTHER_WAY = f"VTASKS_HEALTH_CHECK_FILE, with {PID} in its name, tells how each of several processes fares"


class Surroundings:
    """Started when entered, in the event loop's thread; gone when left."""

    def __init__(
        self, config: WorkerConfig, health: Health, emitter: Emitter, when_taken: WhenCrashed = WhenCrashed.END
    ) -> None:
        self._config = config
        self._health = health
        self._emitter = emitter
        self._when_taken = when_taken
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        config = self._config
        with ExitStack() as stack:
            if config.loop_block_threshold > 0:
                watch = LoopWatch(config.loop_block_threshold, self._emitter)
                watch.start()
                stack.callback(watch.stop)
            if config.health_check_file:
                stack.push(self._start_file(config.health_check_file))
            if config.health_port is not None:
                self._unless_taken(self._serve_health, config.health_port, stack)
            if config.metrics_port is not None:
                self._unless_taken(self._serve_metrics, config.metrics_port, stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def _start_file(self, path: str) -> Callable[[type[BaseException] | None, object, object], None]:
        from .probes import HealthFile

        file = HealthFile(path.replace(PID, str(os.getpid())), self._health)
        file.start()

        def end(kind: type[BaseException] | None, _error: object, _trace: object) -> None:
            # Of a worker that crashed the probe is to see a stale file, not none.
            if PID in path and kind is None:
                file.remove()
            else:
                file.stop()

        return end

    def _unless_taken(self, serve: Callable[[int, ExitStack], None], port: int, stack: ExitStack) -> None:
        """A server's processes share one port: the first has it, the others go on without."""
        try:
            serve(port, stack)
        except OSError as error:
            if self._when_taken is WhenCrashed.END:
                raise
            logger.warning("Port %d is not served by this process: %s. %s", port, error, _OTHER_WAY)

    def _serve_health(self, port: int, stack: ExitStack) -> None:
        from .. import metrics
        from .probes import HealthServer

        metrics.install()
        server = HealthServer(port, self._health, metrics.exposition)
        logger.info("Health on port %d: /livez, /readyz, /metrics", server.start())
        stack.callback(server.stop)

    def _serve_metrics(self, port: int, stack: ExitStack) -> None:
        from .. import metrics

        if not metrics.HAS_METRICS:
            logger.error("No metrics on port %d: pip install 'django-vtasks[metrics]'", port)
            return
        metrics.install()
        server, _ = metrics.start_http_server(port)
        stack.callback(_end_later, server)
        logger.info("Metrics on port %d", port)


def _end_later(server: Any) -> None:
    """End a server and give its port back, without waiting for the half second that it may take."""
    import threading

    def end() -> None:
        server.shutdown()
        server.server_close()

    threading.Thread(target=end, name="vtasks-metrics-end", daemon=True).start()

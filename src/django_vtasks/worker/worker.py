"""The worker: a backend's configuration and store, an executor, and the run that joins them."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from ..conf import BatchConfig, QueueConfig, WorkerConfig
from ..events import Emitter, events
from ..stores.base import Connections, WorkerStore
from .diagnostics import DumpOnSignal, dump
from .executing import executor_options, make_executor
from .health import Health
from .policies import policies_of
from .runtime import MakeService, Parts, RunLimits, Runtime
from .service import Service, WhenCrashed
from .shutdown import SignalHandlers
from .surroundings import Surroundings

logger = logging.getLogger("django_vtasks.worker")


class WorkedBackend(Protocol):
    """What a worker needs of a backend."""

    alias: str

    def new_worker_store(self) -> WorkerStore:
        """A store for one worker."""
        ...


class Worker:
    """Runs the jobs of one TASKS alias. One object is one run: `await run()` until `stop()` or a signal.

    `queues` are names (None: those of `VTASKS_QUEUES`), `batch_config` maps a queue to its `count` and `timeout`.
    With `config`, everything comes from there.
    """

    def __init__(
        self,
        backend: Any,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        batch_config: Mapping[str, Mapping[str, Any]] | None = None,
        health_check_file: str | None = None,
        config: WorkerConfig | None = None,
    ) -> None:
        self.backend = backend
        self.config = config or _configured(backend, queues, concurrency, batch_config, health_check_file)
        self.limits = RunLimits()
        self.when_crashed = WhenCrashed.END
        self.runtime: Runtime | None = None
        self.on_signal: Callable[[int], None] | None = None
        self.on_start: Callable[[], None] = lambda: None
        self._emitter: Emitter = events
        self._policies = policies_of(self.config)
        self._executor_options = executor_options(self.config, backend, type(self), self._policies.of, self._emitter)
        self._services: list[tuple[str, MakeService]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = False
        self._over = asyncio.Event()

    @property
    def worker_id(self) -> str:
        """The name operators see."""
        return self.config.worker_id

    def add_service(self, name: str, make: MakeService) -> None:
        """Have the run include a further service, such as the scheduler."""
        self._services.append((name, make))

    async def run(self, handle_signals: bool = True, run_once: bool = False) -> None:  # noqa: FBT001, FBT002 - 3.2's
        """Work until stopped. With `run_once`, return as soon as nothing is due.

        SIGTERM and SIGINT stop it gracefully, the second of them at once, unless `handle_signals` is False or this is
        not the main thread. Raises ServiceCrashed when a part of the worker failed.
        """
        self._loop = asyncio.get_running_loop()
        runtime = self._made(replace(self.limits, drain=True) if run_once else self.limits)
        health = Health(runtime.paces, lambda: runtime.stopping)
        try:
            with Surroundings(self.config, health, self._emitter, self.when_crashed):
                if handle_signals:
                    with self._signals(runtime), DumpOnSignal(lambda: dump(runtime.attempts.flight)):
                        self.on_start()
                        await runtime.run()
                else:
                    self.on_start()
                    await runtime.run()
        finally:
            self._over.set()

    async def stop(self) -> None:
        """Stop gracefully and wait for the end. May be called again, and before or after `run`."""
        self._stopped = True
        if self.runtime is not None:
            self.runtime.stop()
            await self._over.wait()

    def stop_from_outside(self) -> None:
        """Stop at once; called by another thread than the one that runs the event loop."""
        if self.runtime is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self.runtime.stop_at_once)

    def _made(self, limits: RunLimits) -> Runtime:
        if self.runtime is not None:
            raise RuntimeError("a Worker runs once: make another one")
        self.runtime = runtime = Runtime(
            self.config,
            self.backend.new_worker_store(),
            partial(make_executor, self._executor_options),
            self._policies.of,
            self._emitter,
            limits,
        )
        runtime.when_crashed = self.when_crashed
        for name, make in self._services:
            runtime.add_service(name, make)
        if self.config.metrics_port is not None or self.config.health_port is not None:
            runtime.add_service("gauges", partial(_gauges, self.backend, runtime))
        if self._stopped:
            runtime.stop()
        return runtime

    def _signals(self, runtime: Runtime) -> SignalHandlers:
        loop = asyncio.get_running_loop()

        def note(count: int) -> None:
            loop.call_soon_threadsafe(self._take_signal, runtime, count)
            if self.on_signal is not None:
                self.on_signal(count)

        return SignalHandlers(note)

    def _take_signal(self, runtime: Runtime, count: int) -> None:
        if count == 1:
            logger.info("Stopping; %g s for what runs, a second signal ends it", self.config.shutdown_timeout)
            runtime.stop()
        else:
            logger.warning("Stopping at once: what runs is handed back")
            runtime.stop_at_once()


def _gauges(backend: Any, runtime: Runtime, parts: Parts) -> Service:
    from .gauges import Gauges

    return Gauges(backend.admin_store.counts, runtime.queues, _Watched(runtime), parts.pace)


class _Watched:
    """What the gauges read of a run."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def slots(self) -> tuple[int, int]:
        slots = self._runtime.attempts.slots
        return slots.taken, slots.free

    @property
    def abandoned_threads(self) -> int:
        return self._runtime.attempts.executor.abandoned_threads

    @property
    def connections(self) -> dict[str, Connections]:
        count, opened = self._runtime.attempts.executor.connected_slots
        return {**self._runtime.store.connections(), "functions": Connections(open=count, opened=opened)}


def _configured(
    backend: WorkedBackend,
    queues: Iterable[str] | None,
    concurrency: int | None,
    batch_config: Mapping[str, Mapping[str, Any]] | None,
    health_check_file: str | None,
) -> WorkerConfig:
    config = WorkerConfig.from_settings(
        backend.alias, queues=queues, concurrency=concurrency, health_check_file=health_check_file
    )
    if batch_config is None:
        return config
    batches = {name: BatchConfig(**options) for name, options in batch_config.items()}
    named = {queue.name: queue for queue in config.queues}
    for name, batch in batches.items():
        known = named.get(name) or QueueConfig(name=name)
        named[name] = replace(known, batch=batch, result_ttl=known.result_ttl or 0.0)
    return replace(config, queues=tuple(named.values()))

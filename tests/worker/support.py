"""A worker without Django around it: the memory store, and an executor whose attempts the test ends by hand."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from django_vtasks.conf import QueueConfig, WorkerConfig
from django_vtasks.events import Emitter
from django_vtasks.jobs.model import Claim, Failure, Job
from django_vtasks.jobs.outcomes import Cancelled, Interrupted, Outcome, Succeeded
from django_vtasks.jobs.transitions import Policy, decide
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker.runtime import RunLimits, Runtime
from tests.support.waiting import aeventually, happens

POLICY = Policy(max_attempts=1, result_ttl=60.0)


@dataclass(eq=False)
class FakeAttempt:
    claims: tuple[Claim, ...]
    done: Any
    started_monotonic: float = field(default_factory=time.monotonic)
    stubborn: bool = False
    ended: bool = False
    told: list[str] = field(default_factory=list)

    @property
    def claim(self) -> Claim:
        return self.claims[0]

    @property
    def job(self) -> Job:
        return self.claim.job

    def end(self, outcome: Outcome | None = None) -> None:
        if not self.ended:
            self.ended = True
            for claim in self.claims:
                result, at = outcome or Succeeded(value=b"1"), claim.started_at + 1.0
                self.done(claim, result, at, decide(claim, result, POLICY, at))

    def cancel(self) -> None:
        self.told.append("cancel")
        if not self.stubborn:
            self.end(Cancelled(failure=Failure(exception_class="x", message="cancelled")))

    def withdraw(self) -> None:
        self.told.append("withdraw")
        if not self.stubborn:
            self.end(Interrupted())

    def interrupt(self) -> None:
        self.told.append("interrupt")
        if not self.stubborn:
            self.end(Interrupted())


class FakeExecutor:
    """Attempts wait until the test ends them; with `instant` they end in the next turn of the loop."""

    def __init__(self, *, instant: bool = False, stubborn: bool = False) -> None:
        self.instant = instant
        self.stubborn = stubborn
        self.attempts: list[FakeAttempt] = []
        self.started = asyncio.Event()

    def start(self, claim, done):
        return self._start((claim,), done)

    def start_batch(self, claims, done):
        return self._start(tuple(claims), done)

    def _start(self, claims, done):
        attempt = FakeAttempt(claims, done, stubborn=self.stubborn)
        self.attempts.append(attempt)
        self.started.set()
        if self.instant:
            asyncio.get_running_loop().call_soon(attempt.end)
        return attempt

    def request_shutdown(self):
        self.shutdown_requested = True

    async def close(self, timeout=5.0):
        self.closed = True

    @property
    def running(self) -> list[FakeAttempt]:
        return [attempt for attempt in self.attempts if not attempt.ended]


class Bench:
    """One worker under test: store, executor and runtime; `async with` runs it."""

    def __init__(self, store=None, executor=None, *, emitter=None, limits=None, **config: Any) -> None:
        self.store = store or MemoryStore()
        self.executor = executor or FakeExecutor()
        self.emitter = emitter or Emitter()
        self.heard: list[object] = []
        defaults = {"worker_id": "w", "concurrency": 4, "lease_seconds": 15.0, "heartbeat_interval": 1.0}
        self.config = WorkerConfig(**(defaults | {"shutdown_timeout": 10.0} | config))
        self.runtime = Runtime(
            self.config,
            self.store,
            lambda report, may_begin: self._told(may_begin),
            lambda claim: POLICY,
            self.emitter,
            limits or RunLimits(),
        )

    def _told(self, may_begin):
        self.may_begin = may_begin
        return self.executor

    def hear(self, *kinds: type) -> list[Any]:
        for kind in kinds:
            self.emitter.subscribe(kind, self.heard.append)
        return self.heard

    def add(self, count: int = 1, **fields: Any) -> list[str]:
        jobs = [Job(**({"id": self.store.new_id(), "func": "app.tasks.f"} | fields)) for _ in range(count)]
        self.store.add(jobs)
        return [job.id for job in jobs]

    def state(self, job_id: str) -> str | None:
        record = self.store.get(job_id)
        return record.state.value if record else None

    async def until_running(self, count: int) -> None:
        await aeventually(lambda: len(self.executor.running) >= count, message=lambda: f"{len(self.executor.running)}")

    async def until_state(self, job_id: str, state: str) -> None:
        await aeventually(lambda: self.state(job_id) == state, message=lambda: str(self.state(job_id)))

    @asynccontextmanager
    async def run(self):
        task = asyncio.create_task(self.runtime.run())
        try:
            yield self
        finally:
            if not task.done():
                for attempt in self.executor.running:
                    attempt.end()
                self.runtime.stop_at_once()
            await asyncio.wait([task], timeout=30)
            assert task.done(), "the worker did not stop"
            if not task.cancelled():
                task.result()


def queue(name: str, **options: Any) -> QueueConfig:
    return QueueConfig(name=name, **options)


__all__ = ["Bench", "FakeAttempt", "FakeExecutor", "happens", "queue"]

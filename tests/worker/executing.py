"""An executor without a worker: functions of the test are its tasks, claims are made by hand, ends are collected."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from django_vtasks.events import AttemptEnded, Emitter
from django_vtasks.execution.environment import ExecutorOptions
from django_vtasks.execution.executor import Executor
from django_vtasks.execution.registry import Registry
from django_vtasks.framework import BaseTaskBackend
from django_vtasks.jobs.errors import TaskNotFound
from django_vtasks.jobs.model import Claim, Job, JobRecord, Lease
from django_vtasks.jobs.outcomes import Outcome
from django_vtasks.jobs.retries import RetryRule
from django_vtasks.jobs.transitions import Decision, Policy
from django_vtasks.tasks.results import STATUS
from tests.support.waiting import aeventually

STARTED_AT = 1_000_000.0
OWNER = "worker-1:nonce"


class Backend(BaseTaskBackend):
    """Only its class matters: it sends the framework's signals."""

    def enqueue(self, task, args, kwargs):
        raise NotImplementedError


class SomeWorker:
    """Sends the signals of the 3.2 line."""


@dataclass(frozen=True)
class Result:
    """Stands in for a TaskResult."""

    record: JobRecord

    @property
    def id(self) -> str:
        return self.record.job.id

    @property
    def status(self) -> Any:
        return STATUS[self.record.state]

    @property
    def task(self) -> Any:
        return SimpleNamespace(module_path=self.record.job.func)

    @property
    def attempts(self) -> int:
        return len(self.record.worker_ids)


@dataclass(frozen=True)
class Ended:
    claim: Claim
    outcome: Outcome
    at: float
    decision: Decision


class Bench:
    """Owns one executor. Every end is in `ended`, every event of an end in `events`, in order."""

    def __init__(self, **options: Any) -> None:
        self.emitter = options.pop("emitter", None) or Emitter()
        self.max_attempts = options.pop("max_attempts", 1)
        self.ended: list[Ended] = []
        self.events: list[AttemptEnded] = []
        self._started: list[Any] = []
        self.emitter.subscribe(AttemptEnded, self.events.append)
        self._tasks: dict[str, Any] = {}
        self._numbers = itertools.count(1)
        values = {
            "backend_class": Backend,
            "worker_class": SomeWorker,
            "result_from": Result,
            "policy_of": self._policy,
            "emitter": self.emitter,
            "grace": 0.05,
        }
        self.executor = Executor(Registry(self._load, self._options), ExecutorOptions(**values | options))

    def task(self, function: Callable[..., Any], *, takes_context: bool = False, **options: Any) -> str:
        """Make a function a task; returns its path."""
        path = f"bench.{function.__name__}_{len(self._tasks)}"
        self._tasks[path] = SimpleNamespace(func=function, takes_context=takes_context, options=options)
        return path

    def claim(self, task: str | Callable[..., Any], *args: Any, **more: Any) -> Claim:
        """A claim of a job for a task; further keywords are fields of the job."""
        path = task if isinstance(task, str) else self.task(task)
        number = next(self._numbers)
        job = Job(id=f"job-{number}", func=path, args=list(args), **{"kwargs": {}} | more)
        lease = Lease(job_id=job.id, token=f"token-{number}", owner=OWNER)
        return Claim(lease=lease, raw=f"raw {number}".encode(), queue=job.queue, started_at=STARTED_AT, job=job)

    def start(self, claim: Claim) -> Any:
        """Start the attempt of a claim, and keep it, as a worker does: a loop alone holds no task."""
        attempt = self.executor.start(claim, self.done)
        self._started.append(attempt)
        return attempt

    def done(self, claim: Claim, outcome: Outcome, ended_at: float, decision: Decision) -> None:
        """What the executor tells."""
        asyncio.get_running_loop()
        self.ended.append(Ended(claim, outcome, ended_at, decision))

    async def end_of(self, *claims: Claim) -> list[Ended]:
        """Wait until every claim has ended."""
        tokens = [claim.lease.token for claim in claims]

        def there() -> bool:
            return {*tokens} <= {ended.claim.lease.token for ended in self.ended}

        await aeventually(there)
        found = {ended.claim.lease.token: ended for ended in self.ended}
        return [found[token] for token in tokens]

    async def run(self, task: str | Callable[..., Any], *args: Any, **more: Any) -> Ended:
        """Start a job and wait for its end."""
        claim = self.claim(task, *args, **more)
        self.start(claim)
        return (await self.end_of(claim))[0]

    async def outcome(self, task: str | Callable[..., Any], *args: Any, **more: Any) -> Outcome:
        """Start a job and wait for its outcome."""
        return (await self.run(task, *args, **more)).outcome

    def _policy(self, _claim: Claim) -> Policy:
        return Policy(max_attempts=self.max_attempts, result_ttl=60.0)

    def _load(self, path: str) -> Any:
        try:
            return self._tasks[path]
        except KeyError:
            raise TaskNotFound(f"{path} names no task") from None

    def _options(self, task: Any, _queue: str) -> Any:
        rule = {"max_attempts": self.max_attempts} | task.options
        timeout = rule.pop("timeout", None)
        redact = rule.pop("redact", ())
        return SimpleNamespace(retry=RetryRule(**rule), timeout=timeout, redact=redact)


@asynccontextmanager
async def bench(**options: Any):
    """A bench whose executor is closed in the end."""
    made = Bench(**options)
    try:
        yield made
    finally:
        started = time.monotonic()
        await made.executor.close(10)
        assert time.monotonic() - started < 10, "threads were left"


def twins(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A plain function, and a coroutine function that does the same."""

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return [function, coroutine]

"""What the contract suite holds: a store of each kind over the same jobs, a clock, and short words for long calls."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from django_vtasks.jobs.model import Claim, DeadLetter, Job, JobRecord, JobState
from django_vtasks.jobs.outcomes import Outcome, Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import (
    Added,
    AdminStore,
    ClaimRequest,
    ClientStore,
    Exchange,
    JobFilter,
    Redrive,
    Want,
    WorkerStore,
)
from tests.support.builders import FUNC, a_job, raised, settled
from tests.support.clock import FakeClock
from tests.support.waiting import aeventually

KEPT = Policy(max_attempts=3, result_ttl=600)
"""Results are kept ten minutes, three attempts."""

LEASE = 15.0

about = functools.partial(pytest.approx, abs=0.01)
"""A time, as exact as every store keeps it."""


class InThread:
    """The sync methods of a store as coroutines, run in a thread of the bench as a lease thread or a view would."""

    def __init__(self, target: Any, executor: ThreadPoolExecutor) -> None:
        self._target = target
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, functools.partial(method, *args, **kwargs))

        return call


@dataclass(kw_only=True)
class Bench:
    """A store under test. `shift` moves what the store's server counts on its own when the clock is advanced."""

    client: ClientStore
    worker: WorkerStore
    admin_store: AdminStore
    clock: FakeClock
    put_raw: Callable[[str, bytes], None]
    new_worker: Callable[[], WorkerStore]
    shift: Callable[[float], None] = lambda seconds: None
    end_thread: Callable[[], None] = lambda: None
    dead_letter_cap: int = 1000
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def __post_init__(self) -> None:
        self.admin: Any = InThread(self.admin_store, self.thread)
        self.sync: Any = InThread(self.client, self.thread)
        self.leases: Any = InThread(self.worker, self.thread)

    async def close(self) -> None:
        """Give back everything the bench opened."""
        await self.worker.close()
        await asyncio.get_running_loop().run_in_executor(self.thread, self.end_thread)
        self.thread.shutdown()

    # --- time and foreign producers ------------------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Let the store's time pass."""
        self.clock.advance(seconds)
        await asyncio.get_running_loop().run_in_executor(self.thread, self.shift, seconds)

    async def inject(self, queue: str, raw: bytes) -> None:
        """Put bytes into a queue as a foreign producer would."""
        await asyncio.get_running_loop().run_in_executor(self.thread, self.put_raw, queue, raw)

    # --- the application's side ----------------------------------------------------------------------------------

    def job(self, **changes: Any) -> Job:
        """A job with a fresh id, not yet added."""
        return a_job(**({"id": self.client.new_id(), "enqueued_at": self.clock()} | changes))

    async def add(self, **changes: Any) -> Job:
        """Add one job that must be accepted."""
        [job] = await self.add_all([self.job(**changes)])
        return job

    async def add_all(self, jobs: Sequence[Job]) -> list[Job]:
        """Add jobs that must be accepted."""
        answers = await self.client.aadd(jobs)
        assert [answer.status for answer in answers] == ["added"] * len(jobs)
        return list(jobs)

    async def try_add(self, **changes: Any) -> Added:
        """Add one job and return the answer."""
        [answer] = await self.client.aadd([self.job(**changes)])
        return answer

    async def get(self, job: Job | str) -> JobRecord:
        """What is known of a job about which something must be known."""
        record = await self.client.aget(job if isinstance(job, str) else job.id)
        assert record is not None
        return record

    async def state(self, job: Job | str) -> JobState | None:
        """Where a job is, None when nothing is known of it."""
        record = await self.client.aget(job if isinstance(job, str) else job.id)
        return record.state if record else None

    # --- the worker's side ---------------------------------------------------------------------------------------

    async def live(self, *owners: str, seconds: float = LEASE) -> None:
        """Give incarnations a lease."""
        for owner in owners or ("alpha",):
            await self.leases.extend(owner, seconds)

    async def exchange(
        self, settlements: Sequence[Any] = (), *, owner: str = "alpha", limit: int | None = None, **slots: int
    ) -> Exchange:
        """One round: the settlements, and a claim of so many jobs of each queue named."""
        wants = tuple(Want(queue=queue, slots=count) for queue, count in slots.items())
        most = sum(slots.values()) if limit is None else limit
        request = ClaimRequest(owner=owner, wants=wants, limit=most) if wants else None
        return await self.worker.exchange(settlements, request)

    async def claim(self, slots: int = 10, *, queue: str = "default", owner: str = "alpha") -> list[Claim]:
        """Renew the lease and claim from one queue."""
        await self.live(owner)
        return list((await self.exchange(owner=owner, **{queue: slots})).claims)

    async def claim_one(self, **where: Any) -> Claim:
        """Claim the one job that must be there to claim."""
        [claim] = await self.claim(1, **where)
        return claim

    async def claim_all(self, count: int = 1) -> list[Claim]:
        """Claim so many jobs, in rounds: a row that is just marked for somebody who waits is passed over in one."""
        claims: list[Claim] = []

        async def complete() -> bool:
            claims.extend(await self.claim(count - len(claims)))
            return len(claims) == count

        await aeventually(complete, message=lambda: f"{len(claims)} of {count} jobs were claimed")
        return claims

    async def settle(self, claim: Claim, outcome: Outcome, policy: Policy = KEPT, *, reclaim: bool = False) -> bool:
        """Decide and write; False when the store refused."""
        round_ = await self.exchange([settled(claim, outcome, policy, self.clock(), reclaim=reclaim)])
        return claim.lease.token not in round_.refused

    async def succeed(self, claim: Claim, value: bytes = b"null", policy: Policy = KEPT) -> None:
        """End an attempt well."""
        assert await self.settle(claim, Succeeded(value=value), policy)

    async def fail(self, claim: Claim, message: str = "boom", **changes: Any) -> None:
        """End an attempt with an exception that asks for no retry."""
        assert await self.settle(claim, raised(message, **changes))

    async def retry(self, claim: Claim, delay: float = 0.0) -> None:
        """End an attempt with an exception that asks for a retry."""
        assert await self.settle(claim, raised(delay=delay), Policy(max_attempts=100, result_ttl=600))

    async def lose(self, claim: Claim) -> None:
        """Let the lease of a claim run out."""
        await self.advance(LEASE + 1)

    async def bury(self, **changes: Any) -> Job:
        """Add a job and let it fail for good; returns it."""
        message = changes.pop("message", "boom")
        failure = changes.pop("failure", {})
        job = await self.add(**changes)
        claims = await self.claim(100, queue=job.queue)
        [claim] = [claim for claim in claims if claim.lease.job_id == job.id]
        await self.fail(claim, message, **failure)
        return job

    async def pulse(self, owner: str = "alpha", limit: int = 10_000) -> Any:
        """One beat."""
        return await self.worker.pulse(owner, limit)

    # --- the operators' side -------------------------------------------------------------------------------------

    async def records(self, state: JobState, **which: Any) -> list[JobRecord]:
        """Every job of a state, page by page."""
        found: list[JobRecord] = []
        cursor = None
        while True:
            page = await self.admin.page(JobFilter(state=state, **which), after=cursor, limit=7)
            found.extend(page.records)
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def letters(self, **which: Any) -> list[DeadLetter]:
        """Every dead letter, newest first."""
        records = await self.records(JobState.DEAD, **which)
        assert all(record.letter for record in records)
        return [record.letter for record in records if record.letter]

    async def counts(self, queue: str = "default") -> dict[str, Any]:
        """The counts of one queue; all zero when it is not listed."""
        for counts in await self.admin.counts():
            if counts.queue == queue:
                return {name: getattr(counts, name) for name in ("ready", "scheduled", "leased", "dead", "paused")}
        return {"ready": 0, "scheduled": 0, "leased": 0, "dead": 0, "paused": False}

    async def redrive(self, *jobs: Job, **changes: Any) -> list[Added]:
        """Enqueue dead letters again."""
        answers: list[Added] = await self.admin.redrive([job.id for job in jobs], Redrive(**changes))
        return answers


def ids(things: Sequence[Job | Claim | JobRecord]) -> list[str]:
    """The job ids of jobs, claims or records."""
    return [_id(thing) for thing in things]


def _id(thing: Job | Claim | JobRecord) -> str:
    if isinstance(thing, Claim):
        return thing.lease.job_id
    return thing.job.id if isinstance(thing, JobRecord) else thing.id


__all__ = ["FUNC", "KEPT", "LEASE", "Bench", "about", "ids"]

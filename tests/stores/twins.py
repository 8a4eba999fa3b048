"""A store and the memory model side by side: each is asked the same, and what they say is compared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.model import Claim, Job, JobRecord, JobState
from django_vtasks.stores.memory import MemoryStore
from tests.stores.bench import Bench
from tests.support.flaky import FlakyStore

LOST = object()
"""The answer of a call that failed."""


@dataclass(frozen=True)
class Pair:
    """One claim as the model and as the store know it."""

    model: Claim
    store: Claim

    @property
    def job_id(self) -> str:
        return self.store.lease.job_id


class Twins:
    """Owns an event loop, a bench and a model on the bench's clock."""

    def __init__(self, open_bench: Callable[[], Awaitable[Bench]]) -> None:
        self.runner = asyncio.Runner()
        self.bench: Bench = self.run(open_bench())
        self.model = MemoryStore(self.bench.clock, dead_letter_cap=self.bench.dead_letter_cap)
        self.client = FlakyStore(self.bench.client)
        self.worker = FlakyStore(self.bench.worker)

    def close(self) -> None:
        self.run(self.bench.close())
        self.runner.close()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        async def wrapped() -> Any:
            return await awaitable

        return self.runner.run(wrapped())

    # --- asking --------------------------------------------------------------------------------------------------

    def ask(self, store: FlakyStore, method: str, *args: Any, crash: str | None = None) -> Any:
        """What the store answers, or LOST when the call failed `before` or `after` it took effect."""
        if crash:
            getattr(store, f"fail_{crash}")(method)
        try:
            return self.run(getattr(store, method)(*args))
        except StoreUnavailable:
            return LOST

    def ask_model(self, method: str, *args: Any) -> Any:
        return self.run(getattr(self.model, method)(*args))

    def ask_both(self, store: FlakyStore, method: str, *args: Any, crash: str | None = None) -> tuple[Any, Any]:
        """The answers of model and store to a call that may be repeated, and is when it failed."""
        answer = self.ask(store, method, *args, crash=crash)
        expected = LOST if crash == "before" else self.ask_model(method, *args)
        if answer is LOST:
            answer, expected = self.ask(store, method, *args), self.ask_model(method, *args)
        return expected, answer

    def extend(self, owner: str, seconds: float) -> None:
        assert self.run(self.bench.leases.extend(owner, seconds)) == self.model.extend(owner, seconds)

    def release(self, owner: str) -> None:
        self.run(self.bench.leases.release(owner))
        self.model.release(owner)

    # --- comparing -----------------------------------------------------------------------------------------------

    def compare_jobs(self, job_ids: Sequence[str]) -> None:
        """All that is known of these jobs is the same."""
        for job_id in job_ids:
            found, expected = self.run(self.bench.client.aget(job_id)), self.model.get(job_id)
            assert described(found) == described(expected), job_id

    def compare_places(self) -> None:
        """Every queue has the same numbers of jobs in the same places."""
        assert overview(self.run(self.bench.admin.counts())) == overview(self.model.counts())

    def compare_holders(self, owners: Sequence[str]) -> None:
        """Everybody holds the same."""
        for owner in owners:
            held = {claim.lease.job_id for claim in self.run(self.bench.worker.held(owner))}
            assert held == {claim.lease.job_id for claim in self.ask_model("held", owner)}

    def compare_letters(self) -> None:
        """The same dead letters, in the same order."""
        assert [letter.id for letter in self.run(self.bench.letters())] == list(reversed(self.model._state.letters))

    def compare_order(self, queue: str, claims: Sequence[Claim], came: dict[str, int]) -> None:
        """Higher priorities first; of those that only ever waited (`came`), first in, first out."""
        mine = [claim.lease.job_id for claim in claims if claim.queue == queue]
        line = self.model._state.ready[queue].ids()
        priority = {job_id: self.model._state.jobs[job_id].job.priority for job_id in line}
        assert set(mine) <= set(line)
        assert sorted(map(priority.get, mine)) == sorted(map(priority.get, line[: len(mine)]))
        left = {other: number for other, number in came.items() if other in line and other not in mine}
        for job_id in came.keys() & set(mine):
            assert not [o for o, number in left.items() if priority[o] == priority[job_id] and number < came[job_id]]

    # --- following -----------------------------------------------------------------------------------------------

    def prefer(self, claims: Sequence[Claim], rank: int) -> None:
        """Put the jobs that the store chose, and may choose, first in the model's lines."""
        state = self.model._state
        for position, claim in enumerate(claims):
            stored = state.jobs[claim.lease.job_id]
            state.ready[stored.queue].remove(-stored.job.priority, stored.rank, stored.job.id)
            stored.rank = rank + position
            state.ready[stored.queue].put(-stored.job.priority, stored.rank, stored.job.id)


def overview(counts: Sequence[Any]) -> list[tuple[Any, ...]]:
    return [(row.queue, row.ready, row.scheduled, row.leased, row.dead, row.paused) for row in counts]


def described_job(job: Job | None) -> Any:
    """A job as far as it is the same in every store."""
    return job and replace(job, run_after=None, attempts=(), extra={})


def described(record: JobRecord | None) -> Any:
    """What must be the same in every store of what is known of a job."""
    if record is None:
        return None
    return {
        "state": record.state,
        "job": described_job(record.job),
        "attempts": [(one.number, one.worker_id, one.outcome) for one in record.job.attempts],
        "value": record.value,
        "worker": record.running and record.running.worker_id,
        "progress": record.progress and (record.progress.done, record.progress.total),
        "letter": record.letter and (record.letter.reason, record.letter.failure),
        # A due time may be rounded to the store's unit.
        "due": round(record.job.run_after or 0, 1) if record.state is JobState.SCHEDULED else None,
    }

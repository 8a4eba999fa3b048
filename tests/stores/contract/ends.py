"""Waiting for the end of a job, whatever ends it."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connections

from django_vtasks.jobs.outcomes import Discarded, LeaseExpired, Succeeded
from django_vtasks.stores.base import ends
from tests.stores.bench import LEASE, Bench
from tests.support.builders import a_failure
from tests.support.waiting import DEADLINE, let_others_run


def waiting(store: Bench, job, how: str) -> asyncio.Future[bool]:
    """A wait for the end of a job, in a coroutine or in a thread."""

    def in_thread() -> bool:
        try:
            return store.client.until_ended(job.id, DEADLINE)
        finally:
            connections.close_all()

    if how == "thread":
        return asyncio.ensure_future(asyncio.to_thread(in_thread))
    return asyncio.ensure_future(store.client.auntil_ended(job.id, DEADLINE))


BOTH = pytest.mark.parametrize("how", ["coroutine", "thread"])


class TestUntilEnded:
    @pytest.fixture(autouse=True)
    def woken_only(self, monkeypatch):
        """Nobody looks again by himself who would be woken."""
        monkeypatch.setattr(ends, "SAFETY", 3600.0)

    @BOTH
    @pytest.mark.parametrize(
        "outcome",
        [Succeeded(value=b"1"), Discarded(failure=a_failure("no")), None],
        ids=["succeeded", "discarded", "failed"],
    )
    async def test_it_returns_when_the_job_was_settled(self, store: Bench, how: str, outcome):
        job = await store.add()
        ended = waiting(store, job, how)
        [claim] = await store.claim_all()
        await store.retry(claim)
        [claim] = await store.claim_all()
        await let_others_run()
        assert not ended.done()
        await (store.fail(claim) if outcome is None else store.settle(claim, outcome))
        assert await asyncio.wait_for(ended, DEADLINE)

    async def test_it_returns_when_a_job_without_a_result_was_settled(self, store: Bench):
        job = await store.add(result_ttl=0)
        ended = waiting(store, job, "coroutine")
        [claim] = await store.claim_all()
        await store.succeed(claim)
        assert await asyncio.wait_for(ended, DEADLINE)

    async def test_it_returns_when_the_job_was_cancelled_while_it_waited(self, store: Bench):
        job = await store.add()
        ended = waiting(store, job, "coroutine")
        await let_others_run()
        await store.client.acancel(job.id)
        assert await asyncio.wait_for(ended, DEADLINE)

    async def test_it_returns_when_the_job_was_taken_from_a_dead_worker_and_buried(self, store: Bench):
        job = await store.add()
        await store.claim_all()
        ended = waiting(store, job, "coroutine")
        await let_others_run()
        await store.advance(LEASE + 1)
        [lost] = await store.worker.expired(10)
        assert await store.settle(lost, LeaseExpired(owner="alpha"), reclaim=True)
        assert await asyncio.wait_for(ended, DEADLINE)

    async def test_it_gives_up_after_its_time(self, store: Bench):
        job = await store.add()
        assert await store.client.auntil_ended(job.id, 0.02) is False
        assert await store.sync.until_ended(job.id, 0) is False

    async def test_what_is_over_or_unknown_is_not_waited_for(self, store: Bench):
        job = await store.add()
        [claim] = await store.claim_all()
        await store.succeed(claim)
        for job_id in (job.id, store.client.new_id(), "nonsense"):
            assert await store.client.auntil_ended(job_id, None)
            assert await store.sync.until_ended(job_id, None)

    async def test_hundreds_wait_at_once_and_each_sees_its_own_end(self, store: Bench):
        jobs = await store.add_all([store.job() for _ in range(100)])
        waits = [waiting(store, job, "coroutine") for job in jobs for _ in range(3)]
        await let_others_run()
        claims = {claim.lease.job_id: claim for claim in await store.claim_all(100)}
        for job in jobs[:50]:
            await store.succeed(claims[job.id])
        assert all(await asyncio.wait_for(asyncio.gather(*waits[:150]), DEADLINE))
        assert not any(wait.done() for wait in waits[150:])
        for wait in waits[150:]:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

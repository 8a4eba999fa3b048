"""What a running job says of itself, fenced by its lease."""

from __future__ import annotations

from dataclasses import replace

from django_vtasks.jobs.model import Progress
from django_vtasks.jobs.outcomes import LeaseExpired, Succeeded
from tests.stores.bench import Bench, about


class TestProgress:
    async def test_it_is_seen_while_the_job_runs(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.advance(2)
        assert await store.worker.progress(claim.lease, Progress(done=3, total=10, message="resizing"), None)
        seen = (await store.get(job)).progress
        assert (seen.done, seen.total, seen.message, seen.updated_at) == (3, 10, "resizing", about(store.clock()))

    async def test_the_last_word_counts(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.worker.progress(claim.lease, Progress(done=1, total=2), None)
        await store.worker.progress(claim.lease, Progress(done=2.5), None)
        seen = (await store.get(job)).progress
        assert (seen.done, seen.total, seen.message) == (2.5, None, "")

    async def test_metadata_is_seen_while_the_job_runs_and_replaced_as_a_whole(self, store: Bench):
        job = await store.add(metadata={"from": "enqueue"})
        claim = await store.claim_one()
        await store.worker.progress(claim.lease, None, {"page": 1, "ünï": [None]})
        assert (await store.get(job)).job.metadata == {"page": 1, "ünï": [None]}
        await store.worker.progress(claim.lease, None, {"url": "x"})
        assert (await store.get(job)).job.metadata == {"url": "x"}

    async def test_one_may_be_told_without_the_other(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.worker.progress(claim.lease, Progress(done=1), {"page": 1})
        await store.worker.progress(claim.lease, Progress(done=2), None)
        await store.worker.progress(claim.lease, None, {"page": 2})
        record = await store.get(job)
        assert (record.progress.done, record.job.metadata) == (2, {"page": 2})

    async def test_the_last_progress_stays_with_the_result(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.worker.progress(claim.lease, Progress(done=10, total=10, message="done"), None)
        await store.succeed(claim)
        record = await store.get(job)
        assert (record.state, record.progress.done, record.progress.message) == ("succeeded", 10, "done")

    async def test_a_lost_lease_says_nothing_any_more(self, store: Bench):
        """Invariant 2."""
        job = await store.add(max_rescues=1)
        stale = await store.claim_one()
        await store.lose(stale)
        assert await store.settle(stale, LeaseExpired(owner="alpha"), reclaim=True)
        assert not await store.worker.progress(stale.lease, Progress(done=9), {"stale": True})
        record = await store.get(job)
        assert (record.state, record.progress, record.job.metadata) == ("ready", None, {})
        current = await store.claim_one(owner="beta")
        assert not await store.worker.progress(stale.lease, Progress(done=9), {"stale": True})
        assert await store.worker.progress(current.lease, Progress(done=1), None)
        assert (await store.get(job)).progress.done == 1

    async def test_an_ended_job_says_nothing_any_more(self, store: Bench):
        """Invariant 2."""
        job = await store.add()
        claim = await store.claim_one()
        assert await store.settle(claim, Succeeded())
        assert not await store.worker.progress(claim.lease, Progress(done=9), {"late": True})
        record = await store.get(job)
        assert (record.progress, record.job.metadata) == (None, {})

    async def test_a_forged_token_says_nothing(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        assert not await store.worker.progress(replace(claim.lease, token="forged"), Progress(done=9), None)
        assert (await store.get(job)).progress is None

    async def test_very_long_messages_survive(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.worker.progress(claim.lease, Progress(done=1, message="ü" * 5000), {"big": "x" * 20_000})
        record = await store.get(job)
        assert (record.progress.message, record.job.metadata) == ("ü" * 5000, {"big": "x" * 20_000})

"""What queues did: kept for an hour, whatever becomes of who wrote it."""

from __future__ import annotations

from django_vtasks.jobs.samples import BUCKET, KEPT, SPAN, Sample, Standing, bucket_of, span_of
from django_vtasks.stores.base import Retention
from tests.stores.bench import Bench
from tests.stores.contract.leases import worker_info


def now(store: Bench) -> float:
    return bucket_of(store.clock())


async def write(store: Bench, owner: str, *samples: Sample) -> None:
    await store.worker.record(owner, span_of(samples[0].at), samples)


class TestSamples:
    async def test_at_first_there_are_none(self, store: Bench):
        assert await store.admin.samples() == []

    async def test_what_was_written_is_read(self, store: Bench):
        stood = Standing(ready=5, scheduled=1, leased=2, oldest=7.25)
        sample = Sample(
            at=now(store), queue="mails", started=9, succeeded=4, failed=1, discarded=2, retried=3, standing=stood
        )
        await write(store, "alpha", sample)
        assert await store.admin.samples() == [sample]

    async def test_workers_add_up_by_bucket_and_queue(self, store: Bench):
        at = now(store)
        stood = Standing(ready=5)
        await write(store, "alpha", Sample(at=at, queue="a", started=1), Sample(at=at, queue="b", failed=2))
        await write(store, "beta", Sample(at=at, queue="a", started=10, standing=stood))
        assert await store.admin.samples() == [
            Sample(at=at, queue="a", started=11, standing=stood),
            Sample(at=at, queue="b", failed=2),
        ]

    async def test_what_a_worker_writes_again_counts_once(self, store: Bench):
        first = Sample(at=now(store), queue="a", started=1)
        second = Sample(at=first.at + BUCKET, queue="a", started=2)
        await write(store, "alpha", first)
        await write(store, "alpha", first, second)
        assert await store.admin.samples() == [first, second]

    async def test_spans_are_kept_beside_each_other(self, store: Bench):
        early = Sample(at=now(store), queue="a", started=1)
        await write(store, "alpha", early)
        await store.advance(SPAN)
        late = Sample(at=now(store), queue="a", started=2)
        await write(store, "alpha", late)
        assert await store.admin.samples() == [early, late]

    async def test_they_outlive_the_worker(self, store: Bench):
        await store.live("alpha")
        sample = Sample(at=now(store), queue="a", started=1)
        await write(store, "alpha", sample)
        await store.leases.release("alpha")
        await store.worker.purge(Retention(), 1000)
        assert await store.admin.samples() == [sample]

    async def test_after_an_hour_they_are_gone(self, store: Bench):
        """Invariant 13."""
        await write(store, "alpha", Sample(at=now(store), queue="a", started=1))
        await store.advance(KEPT - 2 * BUCKET)
        assert len(await store.admin.samples()) == 1
        await store.advance(3 * BUCKET)
        assert await store.admin.samples() == []
        await store.advance(2 * SPAN)
        await store.worker.purge(Retention(), 1000)
        await write(store, "beta", Sample(at=now(store), queue="b", started=1))
        assert [sample.queue for sample in await store.admin.samples()] == ["b"]

    async def test_any_name_of_a_queue_and_any_id_is_good(self, store: Bench):
        sample = Sample(at=now(store), queue="grüße\\u0041 %s:'\"", started=1)
        await write(store, "wörker %s" + "x" * 300, sample)
        assert await store.admin.samples() == [sample]


class TestGlance:
    async def test_a_worker_sees_the_counts_of_the_queues_it_serves(self, store: Bench):
        await store.add_all([store.job(queue="a"), store.job(queue="a"), store.job(queue="b")])
        await store.add(queue="b", run_after=store.clock() + 60)
        await store.live("alpha")
        await store.claim(1, queue="a")
        assert await store.worker.glance() == await store.admin.counts()

    async def test_the_few_queues_with_jobs_are_found_among_many_without(self, store: Bench):
        later = store.clock() + 60
        jobs = {"q000": {}, "q007": {"priority": 5}, "q063": {"run_after": later}, "q119": {}}
        jobs |= {"q090": {"priority": 5, "run_after": later}}
        await store.worker.announce(worker_info(queues=tuple(f"q{number:03}" for number in range(120))))
        for queue, options in jobs.items():
            await store.add(queue=queue, **options)
        found = {counts.queue: (counts.ready, counts.scheduled) for counts in await store.worker.glance()}
        assert found == {"q000": (1, 0), "q007": (1, 0), "q063": (0, 1), "q090": (0, 1), "q119": (1, 0)}

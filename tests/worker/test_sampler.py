"""What a worker did, written down for the charts."""

from __future__ import annotations

import asyncio

import pytest

from django_vtasks.events import Emitter
from django_vtasks.jobs.model import Failure
from django_vtasks.jobs.outcomes import Discarded, Raised, Snoozed, Succeeded
from django_vtasks.jobs.samples import BUCKET, SPAN, Standing
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker.sampler import Sampler
from django_vtasks.worker.service import Pace
from django_vtasks.worker.tally import Tally
from tests.support.builders import a_job
from tests.support.clock import FakeClock
from tests.worker.support import Bench, FakeExecutor

FAILURE = Failure(exception_class="ValueError", message="no")


class CountingStore(MemoryStore):
    """Counts how often samples are written."""

    writes = 0

    async def record(self, owner, span, samples):
        self.writes += 1
        await super().record(owner, span, samples)


def sampler(store, owner="alpha", queues=("default",)):
    tally = Tally()
    return Sampler(store, owner, queues, tally, Pace("sampler", Emitter())), tally


async def test_what_a_worker_did_is_counted_by_queue():
    bench = Bench(concurrency=10)
    bench.add(5)
    async with bench.run():
        await bench.until_running(5)
        for attempt, outcome in zip(
            list(bench.executor.running),
            (Succeeded(value=b"1"), Succeeded(value=b"1"), Raised(failure=FAILURE), Discarded(failure=FAILURE)),
            strict=False,
        ):
            attempt.end(outcome)
        counts = bench.runtime.attempts.tally.take()
    count = counts["default"]
    assert (count.started, count.succeeded, count.failed, count.discarded) == (5, 2, 1, 1)


async def test_a_snooze_is_no_retry():
    bench = Bench()
    bench.add()
    async with bench.run():
        await bench.until_running(1)
        bench.executor.running[0].end(Snoozed(delay=60.0))
        [count] = bench.runtime.attempts.tally.take().values()
    assert (count.started, count.retried, count.failed) == (1, 0, 0)


async def test_the_last_counts_are_written_when_the_worker_ends():
    bench = Bench(executor=FakeExecutor(instant=True))
    [job] = bench.add()
    async with bench.run():
        await bench.until_state(job, "succeeded")
    assert sum(sample.succeeded for sample in bench.store.samples()) == 1


async def test_a_worker_that_has_nothing_to_say_does_not_ask_the_time():
    class Timeless(MemoryStore):
        async def now(self):
            raise AssertionError

    store = Timeless()
    assert await store.hold("sampler", "alpha", 60)
    idle, _ = sampler(store, "beta")
    await idle.tick()
    busy, tally = sampler(store, "gamma")
    tally.started("default")
    with pytest.raises(AssertionError):
        await busy.tick()


async def test_a_bucket_is_written_once_and_one_worker_says_how_queues_stand():
    clock = FakeClock()
    store = CountingStore(clock)
    store.add([a_job(id=store.new_id(), enqueued_at=clock()) for _ in range(3)])
    (one, tally), (other, others) = sampler(store), sampler(store, "beta")
    tally.started("default")
    others.started("default")
    await one.tick()
    await other.tick()
    assert store.writes == 2
    [sample] = store.samples()
    assert sample.started == 2
    assert sample.standing is not None
    assert sample.standing.ready == 3


async def test_an_idle_queue_is_written_once_a_span():
    clock = FakeClock()
    clock.advance(SPAN - clock() % SPAN + BUCKET)
    store = CountingStore(clock)
    one, _ = sampler(store)
    for _ in range(int(SPAN / BUCKET) - 1):
        await one.tick()
        clock.advance(BUCKET)
    assert store.writes == 1
    assert [sample.standing for sample in store.samples()] == [Standing()]
    clock.advance(BUCKET)
    await one.tick()
    assert store.writes == 2


async def test_a_queue_that_is_empty_again_is_said_to_be():
    clock = FakeClock()
    clock.advance(SPAN - clock() % SPAN + BUCKET)
    store = CountingStore(clock)
    job = a_job(queue="foreign", run_after=clock() + 600)
    store.add([job])
    one, _ = sampler(store)
    await one.tick()
    store.cancel(job.id)
    clock.advance(BUCKET)
    await one.tick()
    stood = [sample.standing.scheduled for sample in store.samples() if sample.queue == "foreign"]
    assert stood == [1, 0]


async def test_a_store_that_hangs_does_not_keep_the_worker_from_ending():
    class Hanging(MemoryStore):
        async def record(self, owner, span, samples):
            await asyncio.Event().wait()

    one, tally = sampler(Hanging())
    tally.started("default")
    stop = asyncio.Event()
    stop.set()
    await asyncio.wait_for(one.run(stop), 5)

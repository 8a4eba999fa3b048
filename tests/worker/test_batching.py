"""Batch queues: collected without a slot, run as one attempt per function, never lost."""

from __future__ import annotations

import asyncio

from django_vtasks.conf import BatchConfig
from django_vtasks.jobs.codec import encode
from django_vtasks.worker.batching import Collector
from django_vtasks.worker.runtime import RunLimits
from tests.support.builders import a_claim, a_job
from tests.support.waiting import aeventually, let_others_run
from tests.worker.support import Bench, FakeExecutor, queue


def batch(count, timeout=3600.0, name="ingest"):
    return queue(name, batch=BatchConfig(count=count, timeout=timeout))


async def test_a_full_batch_is_one_attempt():
    bench = Bench(queues=(batch(5),))
    jobs = bench.add(5, queue="ingest")
    async with bench.run():
        await bench.until_running(1)
        [attempt] = bench.executor.running
        assert [claim.job.id for claim in attempt.claims] == jobs
        assert bench.runtime.attempts.slots.taken == 1
        attempt.end()
        await aeventually(lambda: {bench.state(job) for job in jobs} == {"succeeded"})
        assert bench.runtime.attempts.slots.taken == 0


async def test_a_batch_that_does_not_fill_runs_when_its_time_is_over():
    bench = Bench(queues=(batch(100, timeout=0.1),))
    bench.add(3, queue="ingest")
    async with bench.run():
        await bench.until_running(1)
        assert len(bench.executor.running[0].claims) == 3


async def test_collecting_holds_no_slot():
    bench = Bench(concurrency=1, queues=(queue("default"), batch(10)))
    bench.add(3, queue="ingest")
    async with bench.run():
        await aeventually(lambda: len(bench.runtime.attempts.flight) == 3)
        bench.add(1, queue="default")
        await bench.until_running(1)
        assert bench.executor.running[0].claim.queue == "default"


async def test_a_full_batch_waits_for_a_slot_and_nothing_more_is_collected_meanwhile():
    """Invariant 6."""
    bench = Bench(concurrency=1, queues=(queue("default"), batch(4)))
    bench.add(2, queue="ingest")
    async with bench.run():
        await aeventually(lambda: len(bench.runtime.attempts.flight) == 2)
        bench.add(1, queue="default")
        await bench.until_running(1)
        bench.add(10, queue="ingest")
        await let_others_run(100)
        assert len(bench.runtime.attempts.flight) == 3
        bench.executor.running[0].end()
        await aeventually(lambda: len(bench.executor.attempts) == 2)
        assert len(bench.executor.running[0].claims) == 4


async def test_members_of_different_functions_are_different_attempts():
    bench = Bench(queues=(batch(4),))
    bench.add(2, queue="ingest", func="app.tasks.one")
    bench.add(2, queue="ingest", func="app.tasks.two")
    async with bench.run():
        await bench.until_running(2)
        groups = [sorted({claim.job.func for claim in attempt.claims}) for attempt in bench.executor.running]
        assert groups == [["app.tasks.one"], ["app.tasks.two"]]


async def test_members_that_were_not_begun_are_handed_back_at_the_stop():
    bench = Bench(queues=(batch(10),))
    jobs = bench.add(3, queue="ingest")
    task = asyncio.create_task(bench.runtime.run())
    await aeventually(lambda: len(bench.runtime.attempts.flight) == 3)
    bench.runtime.stop()
    await asyncio.wait_for(task, 10)
    assert [bench.state(job) for job in jobs] == ["ready"] * 3
    assert {bench.store.get(job).job.starts for job in jobs} == {0}


async def test_a_run_that_drains_does_not_wait_for_a_batch_to_fill():
    bench = Bench(executor=FakeExecutor(instant=True), queues=(batch(10),), limits=RunLimits(drain=True))
    jobs = bench.add(13, queue="ingest")
    await asyncio.wait_for(bench.runtime.run(), 30)
    assert {bench.state(job) for job in jobs} == {"succeeded"}
    assert [len(attempt.claims) for attempt in bench.executor.attempts] == [10, 3]


async def test_batch_and_normal_queues_are_served_together():
    queues = (queue("a"), queue("b"), batch(10, timeout=0.05))
    bench = Bench(executor=FakeExecutor(instant=True), concurrency=3, queues=queues)
    jobs = bench.add(40, queue="a") + bench.add(40, queue="b") + bench.add(45, queue="ingest")
    most = 0
    exchange = bench.store.exchange

    async def watched(settlements, request):
        nonlocal most
        answer = await exchange(settlements, request)
        most = max(most, sum(claim.queue != "ingest" for claim in answer.claims))
        return answer

    bench.store.exchange = watched
    async with bench.run():
        await aeventually(lambda: {bench.state(job) for job in jobs} == {"succeeded"})
    assert most <= 3


async def test_a_lost_member_is_dropped_from_the_collection():
    bench = Bench(queues=(batch(10),))
    bench.add(3, queue="ingest")
    async with bench.run():
        await aeventually(lambda: len(bench.runtime.attempts.flight) == 3)
        token = next(iter(bench.runtime.attempts.flight.tokens()))
        bench.store._state.leased.pop(token)
        bench.runtime.reconciler.doubt()
        bench.runtime.attempts.wakeup.ring()
        await aeventually(lambda: len(bench.runtime.attempts.flight) == 2)
        bench.add(8, queue="ingest")
        await bench.until_running(1)
        assert token not in {claim.lease.token for claim in bench.executor.running[0].claims}


async def test_a_cancelled_member_that_waits_for_its_batch_is_not_run():
    bench = Bench(queues=(batch(3),))
    first, second = bench.add(2, queue="ingest")
    async with bench.run():
        await aeventually(lambda: len(bench.runtime.attempts.flight) == 2)
        bench.store.cancel(first)
        await bench.until_state(first, "dead")
        others = bench.add(2, queue="ingest")
        await bench.until_running(1)
        assert [claim.job.id for claim in bench.executor.running[0].claims] == [second, *others]
    assert bench.store.get(first).letter.reason == "cancelled"


async def test_a_cancelled_member_does_not_take_its_running_batch_along():
    bench = Bench(queues=(batch(2),))
    first, second = bench.add(2, queue="ingest")
    async with bench.run():
        await bench.until_running(1)
        [attempt] = bench.executor.running
        bench.store.cancel(first)
        await aeventually(lambda: bench.runtime.attempts.flight._told)
        assert attempt.told == []
        bench.store.cancel(second)
        await aeventually(lambda: attempt.told == ["cancel"])


def members_of(group):
    return [claim.job.id for claim in group]


class TestGroups:
    def collected(self, config, jobs):
        collector = Collector("ingest", config)
        for job in jobs:
            collector.add(a_claim(job), now=0.0)
        groups = []
        while group := collector.next_group(now=config.timeout):
            groups.append(members_of(group))
        return groups

    def test_members_are_grouped_by_function_and_by_the_value_of_group_by(self):
        jobs = [a_job(id=str(n), func="app.f", kwargs={"tenant": n % 2}) for n in range(4)]
        jobs.append(a_job(id="4", func="app.g", kwargs={"tenant": 0}))
        config = BatchConfig(count=10, timeout=1.0, group_by="tenant")
        assert self.collected(config, jobs) == [["0", "2"], ["1", "3"], ["4"]]

    def test_no_group_is_larger_than_max_bytes_unless_one_member_is(self):
        jobs = [a_job(id=str(n), args=["x" * size]) for n, size in enumerate((100, 100, 600, 100))]
        largest = 2 * len(encode(jobs[0])) + 50
        config = BatchConfig(count=10, timeout=1.0, max_bytes=largest)
        assert self.collected(config, jobs) == [["0", "1"], ["2"], ["3"]]

    def test_a_collection_that_has_its_bytes_takes_no_further_member(self):
        collector = Collector("ingest", BatchConfig(count=10, timeout=60.0, max_bytes=10))
        assert collector.wants() == 10
        collector.add(a_claim(a_job()), now=0.0)
        assert collector.wants() == 0
        assert collector.next_group(now=0.0) is not None

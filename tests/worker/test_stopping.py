"""How a worker ends: at once when idle, after what runs, at the deadline, or now."""

from __future__ import annotations

import asyncio
import time

from tests.support.flaky import FlakyStore
from tests.support.waiting import aeventually, let_others_run
from tests.worker.support import Bench, FakeExecutor


async def started(bench):
    task = asyncio.create_task(bench.runtime.run())
    await aeventually(lambda: bench.runtime.keeper.held)
    await let_others_run(50)
    return task


async def test_an_idle_worker_stops_within_half_a_second():
    """Far more is allowed, for a machine that does other things, but less than any pause of the worker."""
    bench = Bench()
    task = await started(bench)
    began = time.monotonic()
    bench.runtime.stop()
    await asyncio.wait_for(task, 10)
    assert time.monotonic() - began < 3


async def test_what_runs_is_finished_and_nothing_else_is_begun():
    bench = Bench(concurrency=1)
    first, second = bench.add(2)
    task = await started(bench)
    await bench.until_running(1)
    bench.runtime.stop()
    await let_others_run(50)
    assert not task.done()
    bench.executor.running[0].end()
    await asyncio.wait_for(task, 10)
    assert (bench.state(first), bench.state(second)) == ("succeeded", "ready")
    assert bench.store.get(second).job.starts == 0
    assert bench.store.get(second).worker_ids == ()


async def test_at_the_deadline_what_still_runs_is_interrupted_and_does_not_count():
    bench = Bench(shutdown_timeout=0.1)
    [job] = bench.add()
    task = await started(bench)
    await bench.until_running(1)
    bench.runtime.stop()
    await asyncio.wait_for(task, 10)
    assert bench.executor.attempts[0].told == ["interrupt"]
    record = bench.store.get(job)
    assert (record.state, record.job.failures) == ("ready", 0)
    assert [attempt.outcome for attempt in record.job.attempts] == ["interrupted"]


async def test_an_attempt_that_does_not_let_itself_be_interrupted_is_handed_back():
    bench = Bench(executor=FakeExecutor(stubborn=True), shutdown_timeout=0.1)
    [job] = bench.add()
    task = await started(bench)
    await bench.until_running(1)
    bench.runtime.stop()
    began = time.monotonic()
    await asyncio.wait_for(task, 10)
    assert time.monotonic() - began < 6
    record = bench.store.get(job)
    assert (record.state, record.job.failures) == ("ready", 0)
    bench.executor.attempts[0].end()
    assert bench.state(job) == "ready", "a late end changed something"


async def test_stopping_at_once_does_not_wait_for_the_deadline():
    bench = Bench(shutdown_timeout=3600)
    [job] = bench.add()
    task = await started(bench)
    await bench.until_running(1)
    bench.runtime.stop()
    await let_others_run()
    bench.runtime.stop_at_once()
    await asyncio.wait_for(task, 10)
    assert bench.state(job) == "ready"


async def test_a_claim_that_comes_back_after_the_stop_is_handed_back_untouched():
    bench = Bench()
    exchange = bench.store.exchange

    async def slow(settlements, request):
        answer = await exchange(settlements, request)
        if answer.claims:
            bench.runtime.stop()
            await let_others_run()
        return answer

    bench.store.exchange = slow
    [job] = bench.add()
    await asyncio.wait_for(bench.runtime.run(), 10)
    assert bench.executor.attempts == []
    record = bench.store.get(job)
    assert (record.state, record.job.starts) == ("ready", 0)


async def test_the_lease_is_released_at_the_end():
    bench = Bench()
    task = await started(bench)
    bench.runtime.stop()
    await asyncio.wait_for(task, 10)
    assert bench.store.extend(bench.runtime.owner, 1) is False
    assert bench.store.workers() == []


async def test_a_worker_whose_store_is_away_ends_within_the_deadline():
    flaky = FlakyStore(Bench().store)
    bench = Bench(flaky, shutdown_timeout=0.2)
    bench.add()
    task = await started(bench)
    await bench.until_running(1)
    flaky.down = True
    bench.executor.running[0].end()
    bench.runtime.stop()
    began = time.monotonic()
    await asyncio.wait_for(task, 20)
    assert time.monotonic() - began < 0.2 + 8


async def test_running_workers_are_listed_with_what_they_do():
    bench = Bench(concurrency=3)
    bench.add(2)
    task = await started(bench)
    await bench.until_running(2)
    await aeventually(lambda: [worker.worker_id for worker in bench.store.workers()] == ["w"])
    assert bench.store.workers()[0].incarnation.startswith("w:")
    for attempt in bench.executor.running:
        attempt.end()
    bench.runtime.stop()
    await asyncio.wait_for(task, 10)


async def test_a_run_that_is_cancelled_hands_back_what_runs():
    bench = Bench()
    [job] = bench.add()
    task = await started(bench)
    await bench.until_running(1)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    assert task.cancelled()
    assert bench.state(job) == "ready"
    assert bench.store.extend(bench.runtime.owner, 1) is False

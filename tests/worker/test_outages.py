"""The store goes away, loses replies, or comes late: nothing is lost, nothing is run twice, little is said."""

from __future__ import annotations

import asyncio

import pytest

from django_vtasks.events import SettleRefused, StoreOutage, StoreRecovered
from django_vtasks.jobs.errors import StoreRefused, StoreUnavailable
from django_vtasks.jobs.transitions import Bury
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker.service import ServiceCrashed
from tests.support.flaky import FlakyStore
from tests.support.waiting import aeventually, let_others_run
from tests.worker.support import Bench, FakeExecutor


@pytest.fixture
def flaky():
    return FlakyStore(MemoryStore())


async def test_a_settlement_is_kept_until_the_store_is_back(flaky):
    """Invariant 8."""
    bench = Bench(flaky)
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        flaky.down = True
        bench.executor.running[0].end()
        await aeventually(lambda: flaky.calls.count("exchange") >= 3)
        assert bench.state(job) == "leased"
        flaky.down = False
        await bench.until_state(job, "succeeded")


async def test_a_settlement_whose_reply_was_lost_is_not_reported_as_refused(flaky):
    """Invariant 8: the retry is idempotent."""
    bench = Bench(flaky)
    heard = bench.hear(SettleRefused)
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        await let_others_run()
        flaky.fail_after("exchange")
        bench.executor.running[0].end()
        await aeventually(lambda: "exchange" not in flaky.pending())
        await aeventually(lambda: len(bench.runtime.settler) == 0)
    assert bench.state(job) == "succeeded"
    assert (heard, bench.runtime.settler.refused) == ([], 0)


async def test_jobs_claimed_by_a_lost_reply_are_run(flaky):
    """Invariant 3: the worker compares what the store says it holds with what it runs."""
    bench = Bench(flaky, executor=FakeExecutor(instant=True), concurrency=4)
    jobs = bench.add(10)
    flaky.fail_after("exchange")
    async with bench.run():
        await aeventually(lambda: {bench.state(job) for job in jobs} == {"succeeded"})
    assert len(bench.executor.attempts) == 10


async def test_a_job_is_settled_once_however_often_replies_are_lost(flaky):
    bench = Bench(flaky, executor=FakeExecutor(instant=True), concurrency=3)
    jobs = bench.add(30)
    for _ in range(3):
        flaky.fail_after("exchange")
    async with bench.run():
        await aeventually(lambda: {bench.state(job) for job in jobs} == {"succeeded"})
    assert len({a.job.id for a in bench.executor.attempts}) == len(bench.executor.attempts) == 30
    assert bench.runtime.settler.refused == 0


async def test_a_settlement_with_a_lost_lease_changes_nothing_and_is_counted():
    """Invariant 2."""
    bench = Bench()
    heard = bench.hear(SettleRefused)
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        attempt = bench.executor.running[0]
        bench.store._state.leased.pop(attempt.claim.lease.token)
        attempt.end()
        await aeventually(lambda: bench.runtime.settler.refused == 1)
    assert [event.claim.lease.job_id for event in heard] == [job]
    assert bench.state(job) != "succeeded"


async def test_an_outage_is_told_once_per_pause_and_its_end_with_its_duration(flaky):
    bench = Bench(flaky)
    outages, ends = [], []
    bench.emitter.subscribe(StoreOutage, outages.append)
    bench.emitter.subscribe(StoreRecovered, ends.append)
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        flaky.down = True
        bench.add()
        await aeventually(lambda: [e.attempt for e in outages if e.service == "promoter"][:3] == [1, 2, 3])
        flaky.down = False
        await aeventually(lambda: {e.service for e in ends} >= {e.service for e in outages})
        await bench.until_running(1)
    assert all(end.seconds >= 0 for end in ends)
    pauses = [e.pause for e in outages if e.service == "promoter"]
    assert all(0 < pause <= 5 for pause in pauses)
    assert pauses[2] > pauses[0] / 2, "the pauses do not grow"


async def test_a_worker_that_is_to_end_tries_often_and_tells_the_pauses_it_makes(flaky):
    bench = Bench(flaky)
    outages = []
    bench.emitter.subscribe(StoreOutage, lambda event: outages.append((bench.runtime.stopping, event)))
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        flaky.down = True
        bench.runtime.stop()
        bench.executor.running[0].end()
        await aeventually(lambda: [event.service for _, event in outages].count("consumer") >= 5)
        flaky.down = False
        await bench.until_state(job, "succeeded")
    last = [event.pause for stopping, event in outages if stopping and event.service == "consumer"]
    assert max(last) == 0.25


async def test_a_store_that_refuses_to_write_is_sat_out_like_an_outage(flaky):
    flaky.error = StoreRefused("the store is full")
    bench = Bench(flaky, executor=FakeExecutor(instant=True))
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        flaky.down = True
        [job] = bench.add()
        await aeventually(lambda: flaky.calls.count("pulse") >= 3)
        flaky.down = False
        await bench.until_state(job, "succeeded")


async def test_a_worker_started_before_its_store_waits_for_it(flaky):
    bench = Bench(flaky, executor=FakeExecutor(instant=True))
    heard = bench.hear(StoreOutage)
    flaky.down = True
    async with bench.run():
        await aeventually(lambda: [e.service for e in heard].count("store") >= 2)
        flaky.down = False
        [job] = bench.add()
        await bench.until_state(job, "succeeded")


async def test_a_worker_that_waits_for_its_store_can_be_stopped(flaky):
    bench = Bench(flaky)
    flaky.down = True
    running = asyncio.create_task(bench.runtime.run())
    await aeventually(lambda: flaky.calls.count("open") >= 2)
    bench.runtime.stop()
    await asyncio.wait_for(running, 10)


async def test_a_wait_that_fails_does_not_stop_the_queue(flaky):
    bench = Bench(flaky, executor=FakeExecutor(instant=True))
    for _ in range(3):
        flaky.fail_before("wait_for_jobs")
    async with bench.run():
        await aeventually(lambda: "wait_for_jobs" not in flaky.pending())
        [job] = bench.add()
        await bench.until_state(job, "succeeded")


@pytest.mark.parametrize("method", ["exchange", "pulse", "wait_for_jobs", "extend", "expired"])
async def test_an_unexpected_error_in_a_service_ends_the_worker(flaky, method, caplog):
    bench = Bench(flaky)
    flaky.fail_before(method, ZeroDivisionError("a defect"))
    with pytest.raises(ServiceCrashed) as caught:
        await asyncio.wait_for(bench.runtime.run(), 30)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "a defect" in caplog.text


async def test_what_runs_is_handed_back_when_the_consumer_crashes(flaky):
    bench = Bench(flaky)
    [job] = bench.add()
    running = asyncio.create_task(bench.runtime.run())
    await bench.until_running(1)
    await let_others_run(50)
    flaky.fail_before("wait_for_jobs", ZeroDivisionError("a defect"))
    flaky.fail_before("exchange", ZeroDivisionError("a defect"))
    bench.add()
    with pytest.raises(ServiceCrashed):
        await asyncio.wait_for(running, 30)
    assert bench.state(job) == "ready"
    assert bench.store.get(job).job.failures == 0


class Picky:
    """Refuses outcomes of some jobs, alone or in company, with a given error; takes everything else."""

    def __init__(self, bench, error):
        self.bad: set[str] = set()
        self.error = error
        #: How many burials find the store away.
        self.away_for_burials = 0
        self._exchange = bench.store.exchange
        bench.store.exchange = self.exchange

    async def exchange(self, settlements, request):
        if any(s.claim.lease.job_id in self.bad and not isinstance(s.decision, Bury) for s in settlements):
            raise self.error
        if self.away_for_burials and any(isinstance(s.decision, Bury) for s in settlements):
            self.away_for_burials -= 1
            raise StoreUnavailable("the store is away")
        return await self._exchange(settlements, request)


@pytest.mark.parametrize("error", [ValueError("no such character"), StoreRefused("value too long")])
async def test_an_outcome_that_cannot_be_stored_becomes_a_dead_letter_and_holds_up_no_other(error):
    bench = Bench(concurrency=5, heartbeat_interval=0.1)
    picky = Picky(bench, error)
    jobs = bench.add(5)
    picky.bad = {jobs[2]}
    async with bench.run():
        await bench.until_running(5)
        for attempt in bench.executor.running:
            attempt.end()
        await bench.until_state(jobs[2], "dead")
        await aeventually(lambda: [bench.state(job) for job in jobs].count("succeeded") == 4)
        [job] = bench.add()
        await bench.until_running(1)
        bench.executor.running[0].end()
        await bench.until_state(job, "succeeded")
    assert "could not be stored" in bench.store.get(jobs[2]).letter.failure.message


@pytest.mark.parametrize("error", [ValueError("no such character"), StoreRefused("value too long")])
async def test_an_outcome_that_cannot_be_stored_is_found_out_when_it_is_alone(error):
    bench = Bench(heartbeat_interval=0.1)
    picky = Picky(bench, error)
    [job] = bench.add()
    picky.bad = {job}
    async with bench.run():
        await bench.until_running(1)
        bench.executor.running[0].end()
        await bench.until_state(job, "dead")


@pytest.mark.parametrize("error", [ValueError("no such character"), StoreRefused("value too long")])
async def test_no_outcome_is_lost_when_the_store_goes_away_while_another_is_buried(error):
    """A job whose outcome was forgotten would be run a second time, as a claim nobody works on."""
    bench = Bench(concurrency=5, heartbeat_interval=0.1)
    picky = Picky(bench, error)
    jobs = bench.add(5)
    picky.bad = set(jobs[1:4])
    picky.away_for_burials = 2
    async with bench.run():
        await bench.until_running(5)
        for attempt in bench.executor.running:
            attempt.end()
        for job in jobs:
            await bench.until_state(job, "dead" if job in picky.bad else "succeeded")
        assert picky.away_for_burials == 0
        assert len(bench.executor.attempts) == 5


async def test_a_full_store_buries_nothing(flaky):
    flaky.error = StoreRefused("the store is full")
    bench = Bench(flaky, heartbeat_interval=0.1)
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        flaky.down = True
        bench.executor.running[0].end()
        await aeventually(lambda: flaky.calls.count("exchange") >= 6)
        assert bench.state(job) == "leased"
        flaky.down = False
        await bench.until_state(job, "succeeded")

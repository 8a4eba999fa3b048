"""The lease thread: when the lease is held, how a loss is found out, and what the worker does then."""

from __future__ import annotations

import threading
import time

import pytest

from django_vtasks.events import Emitter, LeaseRenewed, StoreOutage
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker.leases import LeaseKeeper
from django_vtasks.worker.service import Pace
from tests.support.flaky import FlakyStore
from tests.support.waiting import aeventually, eventually, let_others_run
from tests.worker.support import Bench, FakeExecutor


class KeptLease:
    """A lease keeper on a store whose clock the test sets."""

    def __init__(self, seconds: float = 15.0, every: float = 0.02) -> None:
        self.time = 1000.0
        self.memory = MemoryStore(lambda: self.time)
        self.store = FlakyStore(self.memory)
        self.changes = 0
        self.crashes: list[BaseException] = []
        self.emitter = emitter = Emitter()
        self.renewals = self.hear(LeaseRenewed)
        pace = Pace("lease", emitter)
        self.keeper = LeaseKeeper(self.store, "w:1", seconds=seconds, every=every, pace=pace, emitter=emitter)

    def hear(self, kind):
        """What is told of this kind from now on."""
        heard = []
        self.emitter.subscribe(kind, heard.append)
        return heard

    def start(self):
        self.keeper.start(self._changed, self.crashes.append)
        return self

    def _changed(self):
        self.changes += 1


@pytest.fixture
def kept():
    kept = KeptLease()
    yield kept
    kept.keeper.end()
    assert kept.keeper.join(10)


def test_the_lease_is_taken_at_once_and_renewed(kept):
    kept.start()
    eventually(lambda: len(kept.renewals) >= 3)
    assert kept.keeper.held
    assert (kept.keeper.losses, kept.changes) == (0, 1)
    assert not any(renewal.lost for renewal in kept.renewals)


def test_the_lease_is_renewed_while_the_main_thread_is_busy(kept):
    """Invariant 4."""
    kept.start()
    eventually(lambda: kept.renewals)
    seen = len(kept.renewals)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        sum(range(1000))
    assert len(kept.renewals) > seen


def test_a_lease_that_ran_out_in_the_store_counts_as_lost(kept):
    kept.start()
    eventually(lambda: kept.renewals)
    kept.time += 3600
    eventually(lambda: kept.keeper.losses == 1)
    eventually(lambda: kept.keeper.held)
    assert [renewal.lost for renewal in kept.renewals].count(True) == 1


def test_a_lease_that_could_not_be_renewed_in_time_is_not_held():
    kept = KeptLease(seconds=0.3).start()
    eventually(lambda: kept.keeper.held)
    kept.store.down = True
    eventually(lambda: not kept.keeper.held)
    eventually(lambda: kept.keeper.losses == 1)
    kept.store.down = False
    eventually(lambda: kept.keeper.held)
    assert kept.keeper.losses == 1
    kept.keeper.end()
    assert kept.keeper.join(10)


def test_a_lease_that_ran_out_while_renewals_failed_is_told_too():
    kept = KeptLease(seconds=0.3).start()
    eventually(lambda: kept.keeper.held)
    kept.store.down = True
    eventually(lambda: kept.keeper.losses == 1)
    kept.time += 3600
    kept.store.down = False
    eventually(lambda: kept.keeper.held)
    kept.keeper.end()
    assert kept.keeper.join(10)
    assert [renewal.lost for renewal in kept.renewals].count(True) == 1
    assert kept.keeper.losses == 1


def test_the_pause_that_is_told_is_never_longer_than_the_heartbeat(kept):
    outages = kept.hear(StoreOutage)
    kept.store.down = True
    kept.start()
    eventually(lambda: len(outages) >= 4)
    assert max(outage.pause for outage in outages) == 0.02


def test_the_end_releases_the_lease():
    kept = KeptLease().start()
    eventually(lambda: kept.keeper.held)
    kept.keeper.end()
    assert kept.keeper.join(10)
    assert kept.memory.extend("w:1", 1) is False


def test_an_unexpected_error_in_the_thread_is_reported(kept):
    kept.store.fail_before("extend", ZeroDivisionError("a defect"))
    kept.start()
    eventually(lambda: kept.crashes)
    assert not kept.keeper.held


def test_the_thread_does_not_keep_the_process_alive(kept):
    kept.start()
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "vtasks-lease")


async def test_nothing_is_claimed_while_the_lease_is_not_held():
    flaky = FlakyStore(MemoryStore())
    bench = Bench(flaky, lease_seconds=0.4, heartbeat_interval=0.1)
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        flaky.down = True
        await aeventually(lambda: not bench.runtime.keeper.held)
        bench.add(2)
        flaky.down = False
        await bench.until_running(2)


async def test_an_attempt_whose_lease_is_somebody_elses_is_stopped():
    """Invariant 3: running, but not held."""
    bench = Bench()
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        await let_others_run(50)
        [attempt] = bench.executor.running
        bench.store._state.leased.pop(attempt.claim.lease.token)
        bench.runtime.reconciler.doubt()
        bench.runtime.attempts.wakeup.ring()
        await aeventually(lambda: attempt.told == ["withdraw"])
        await aeventually(lambda: bench.runtime.settler.refused == 1)
    assert job


async def test_a_claim_nobody_works_on_is_run():
    """Invariant 3: held, but not running."""
    bench = Bench(executor=FakeExecutor())
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        [job] = bench.add(queue="other")
        with bench.store._state.lock:
            assert len(list(bench.store._state.claim("other", 1, bench.runtime.owner))) == 1
        bench.runtime.reconciler.doubt()
        bench.runtime.attempts.wakeup.ring()
        await bench.until_running(1)
    assert bench.executor.attempts[0].job.id == job


async def test_a_claim_nobody_works_on_is_handed_back_when_no_slot_is_free():
    bench = Bench(concurrency=1)
    bench.add()
    async with bench.run():
        await bench.until_running(1)
        [job] = bench.add(queue="other")
        with bench.store._state.lock:
            assert len(list(bench.store._state.claim("other", 1, bench.runtime.owner))) == 1
        bench.runtime.reconciler.doubt()
        bench.runtime.attempts.wakeup.ring()
        assert bench.state(job) == "leased"
        await bench.until_state(job, "ready")
    assert bench.store.get(job).job.starts == 0


async def test_a_cancelled_job_is_told_within_a_second_or_two():
    bench = Bench()
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        await let_others_run(50)
        bench.store.cancel(job)
        await aeventually(lambda: bench.executor.attempts[0].told)
        await bench.until_state(job, "dead")
    assert bench.executor.attempts[0].told == ["cancel"]
    assert bench.store.get(job).letter.reason == "cancelled"

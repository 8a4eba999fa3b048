"""A worker that stood still past its lease, be it frozen or cut off, begins nothing that others may have by now."""

from __future__ import annotations

import time

import pytest

from django_vtasks.conf.queues import BatchConfig
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.worker import leases
from tests.support.waiting import aeventually, measured_for
from tests.worker.support import Bench, FakeExecutor, queue

EVERY = 0.05


class Standstill:
    """Lets the clock of leases jump, and notes whether the lease was held whenever an attempt began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        self.held: list[bool] = []
        monkeypatch.setattr(leases, "lease_clock", lambda: time.monotonic() + self.passed)

    def watch(self, bench: Bench) -> None:
        """Note how attempts of this worker begin."""
        for name in ("start", "start_batch"):
            original = getattr(bench.executor, name)

            def begun(claims, done, original=original):
                self.held.append(bench.runtime.keeper.held)
                return original(claims, done)

            setattr(bench.executor, name, begun)


async def test_a_claim_that_arrives_after_the_lease_ran_out_is_handed_back(monkeypatch):
    bench = Bench(executor=FakeExecutor(instant=True), heartbeat_interval=EVERY)
    standstill = Standstill(monkeypatch)
    standstill.watch(bench)
    exchange = bench.store.exchange

    async def frozen(settlements, request):
        answer = await exchange(settlements, request)
        if answer.claims and not standstill.passed:
            standstill.passed = 3600.0
        return answer

    bench.store.exchange = frozen
    [job] = bench.add()
    async with bench.run():
        await bench.until_state(job, "succeeded")
    assert standstill.held == [True]
    assert len(bench.store.get(job).job.attempts) == 1


async def test_a_batch_that_was_collected_before_the_lease_ran_out_waits_for_a_new_one(monkeypatch):
    batches = queue("ingest", batch=BatchConfig(count=100, timeout=4 * EVERY))
    bench = Bench(executor=FakeExecutor(instant=True), queues=(batches,), heartbeat_interval=EVERY)
    standstill = Standstill(monkeypatch)
    standstill.watch(bench)
    extend = bench.store.extend

    def unanswered(owner, seconds):
        raise StoreUnavailable("no answer")

    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        jobs = bench.add(2, queue="ingest")
        await aeventually(lambda: {bench.state(job) for job in jobs} == {"leased"})
        bench.store.extend = unanswered
        standstill.passed = 3600.0
        await aeventually(lambda: not bench.runtime.keeper.held)
        await measured_for(8 * EVERY)
        assert standstill.held == []
        bench.store.extend = extend
        await aeventually(lambda: [bench.state(job) for job in jobs] == ["succeeded", "succeeded"])
    assert set(standstill.held) == {True}


async def test_a_claim_that_arrives_after_a_lease_that_was_renewed_late_is_handed_back(monkeypatch):
    bench = Bench(executor=FakeExecutor(instant=True), heartbeat_interval=EVERY)
    standstill = Standstill(monkeypatch)
    exchange = bench.store.exchange
    may_begin: list[bool] = []

    async def frozen(settlements, request):
        answer = await exchange(settlements, request)
        if answer.claims and not standstill.passed:
            losses = bench.runtime.keeper.losses
            standstill.passed = 3600.0
            await aeventually(lambda: bench.runtime.keeper.held and bench.runtime.keeper.losses > losses)
            may_begin.append(bench.may_begin())
        return answer

    bench.store.exchange = frozen
    [job] = bench.add()
    async with bench.run():
        await bench.until_state(job, "succeeded")
        may_begin.append(bench.may_begin())
    assert may_begin == [False, True]
    assert [attempt.number for attempt in bench.store.get(job).job.attempts] == [1]
    assert len(bench.executor.attempts) == 1

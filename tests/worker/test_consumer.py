"""The consumer: rounds, slots, waiting, waking."""

from __future__ import annotations

import asyncio

import pytest

from django_vtasks.conf import QueueOrder
from django_vtasks.events import AttemptEnded
from django_vtasks.jobs.model import Claim, JobState
from django_vtasks.jobs.transitions import Bury
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker import finder
from django_vtasks.worker.runtime import RunLimits
from tests.support.waiting import aeventually, let_others_run
from tests.worker.support import Bench, FakeExecutor, queue


async def test_a_job_that_waits_is_run_and_settled():
    bench = Bench(executor=FakeExecutor(instant=True))
    [job] = bench.add()
    async with bench.run():
        await bench.until_state(job, "succeeded")
    assert bench.store.get(job).value == b"1"


async def test_a_job_that_arrives_while_the_worker_idles_is_run():
    bench = Bench(executor=FakeExecutor(instant=True))
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        await let_others_run()
        [job] = bench.add()
        await bench.until_state(job, "succeeded")


async def test_no_job_is_claimed_without_a_free_slot():
    """Invariant 6."""
    bench = Bench(concurrency=3)
    bench.add(10)
    async with bench.run():
        await bench.until_running(3)
        await let_others_run(50)
        assert len(bench.executor.running) == 3
        assert [count.leased for count in bench.store.counts()] == [3]
        bench.executor.running[0].end()
        await aeventually(lambda: len(bench.executor.attempts) == 4)
        await let_others_run(50)
        assert [count.leased for count in bench.store.counts()] == [3]


async def test_a_queue_with_a_limit_takes_no_more_than_that():
    bench = Bench(concurrency=5, queues=(queue("default"), queue("slow", concurrency=2)))
    bench.add(10, queue="slow")
    async with bench.run():
        await bench.until_running(2)
        await let_others_run(50)
        assert len(bench.executor.running) == 2
        bench.add(10, queue="default")
        await bench.until_running(5)
        await let_others_run(50)
        assert [a.claim.queue for a in bench.executor.running].count("default") == 3


async def test_a_queue_waited_for_is_served_after_its_slots_came_back():
    bench = Bench(concurrency=5, queues=(queue("default"), queue("slow", concurrency=1)))
    bench.add(1, queue="slow")
    async with bench.run():
        await bench.until_running(1)
        await let_others_run(50)
        bench.executor.running[0].end()
        await let_others_run(50)
        bench.add(1, queue="slow")
        await bench.until_running(1)


async def test_all_jobs_of_a_long_queue_are_run():
    bench = Bench(executor=FakeExecutor(instant=True), concurrency=7)
    jobs = bench.add(500)
    async with bench.run():
        await aeventually(lambda: all(bench.state(job) == "succeeded" for job in jobs))
    assert len(bench.executor.attempts) == 500


async def test_what_finished_is_settled_in_the_round_that_claims_the_next():
    bench = Bench(concurrency=10)
    rounds = []
    exchange = bench.store.exchange

    async def counted(settlements, request):
        rounds.append((len(settlements), request.limit if request else 0))
        return await exchange(settlements, request)

    bench.store.exchange = counted
    bench.add(30)
    async with bench.run():
        await bench.until_running(10)
        for attempt in bench.executor.running:
            attempt.end()
        await aeventually(lambda: len(bench.executor.attempts) == 20)
    assert (10, 10) in rounds


@pytest.mark.parametrize(
    ("parts", "expected"),
    [(1, [(0, 100)]), (3, [(0, 34), (34, 22), (56, 15), (71, 10), (81, 10), (91, 9)])],
)
async def test_a_round_claims_a_part_of_many_slots_where_rounds_are_cheap(parts, expected):
    """All jobs of a worker that are claimed at once end at once: then worker and store take turns waiting."""
    store = MemoryStore()
    store.parts = parts
    bench = Bench(store, concurrency=100)
    rounds = []
    exchange = bench.store.exchange

    async def counted(settlements, request):
        if request:
            rounds.append((len(bench.executor.running), request.limit))
        return await exchange(settlements, request)

    bench.store.exchange = counted
    bench.add(100)
    async with bench.run():
        await bench.until_running(100)
    assert rounds == expected


async def test_a_job_that_ends_at_once_is_settled_before_the_queues_are_watched_again():
    """A look at the queues, which may have a connection to wait for, delays neither its start nor its settlement."""
    bench = Bench(executor=FakeExecutor(instant=True))
    calls = []
    exchange, wait = bench.store.exchange, bench.store.wait_for_jobs

    async def exchanged(settlements, request):
        calls.append("settle" if settlements else "claim")
        return await exchange(settlements, request)

    def waited(queues, timeout):
        calls.append("wait")
        return wait(queues, timeout)

    bench.store.exchange, bench.store.wait_for_jobs = exchanged, waited
    async with bench.run():
        await aeventually(lambda: "wait" in calls)
        [job] = bench.add()
        await bench.until_state(job, "succeeded")
    assert calls[calls.index("settle") - 1] == "claim"


async def test_bytes_that_are_no_job_become_a_dead_letter_and_the_next_job_runs():
    """Invariant 11. Shown to catch: a dead letter of which no log line and no metric told."""
    bench = Bench(executor=FakeExecutor(instant=True))
    told = bench.hear(AttemptEnded)
    [job] = bench.add()
    exchange = bench.store.exchange

    async def damaged(settlements, request):
        answer = await exchange(settlements, request)
        for claim in answer.claims:
            if claim.lease.job_id == job:
                return _with_claims(answer, [_damaged(claim)])
        return answer

    bench.store.exchange = damaged
    async with bench.run():
        await bench.until_state(job, "dead")
        [other] = bench.add()
        await bench.until_state(other, "succeeded")
    assert bench.store.get(job).letter.reason == "undecodable"
    assert [(event.claim.job, type(event.decision)) for event in told] == [(None, Bury)]


async def test_queues_take_turns():
    bench = Bench(concurrency=1, queues=(queue("a"), queue("b")))
    bench.add(4, queue="a")
    bench.add(4, queue="b")
    async with bench.run():
        for number in range(8):
            await aeventually(lambda number=number: len(bench.executor.attempts) == number + 1)
            bench.executor.running[0].end()
    assert sorted(a.claim.queue for a in bench.executor.attempts[:4]) == ["a", "a", "b", "b"]


async def test_a_worker_of_every_queue_serves_those_that_turn_up(monkeypatch):
    monkeypatch.setattr(finder, "INTERVAL", 0.02)
    for order in QueueOrder:
        bench = Bench(executor=FakeExecutor(instant=True), every_queue=True, queue_order=order)
        [early] = bench.add(queue="early")
        async with bench.run():
            await bench.until_state(early, "succeeded")
            [late] = bench.add(queue="late")
            await bench.until_state(late, "succeeded")
            assert bench.runtime.info().queues == ("default", "early", "late")


async def test_a_run_that_drains_every_queue_ends_when_nothing_is_due_in_any():
    bench = Bench(executor=FakeExecutor(instant=True), every_queue=True, limits=RunLimits(drain=True))
    jobs = [*bench.add(3), *bench.add(3, queue="a"), *bench.add(3, queue="b")]
    await bench.runtime.run()
    assert [bench.state(job) for job in jobs] == ["succeeded"] * 9


async def test_a_paused_queue_is_left_out_until_it_is_resumed():
    bench = Bench(queues=(queue("a"), queue("b")))
    bench.store.pause("a")
    async with bench.run():
        await aeventually(lambda: bench.runtime.demand.paused == {"a"})
        bench.add(1, queue="a")
        bench.add(1, queue="b")
        await bench.until_running(1)
        assert [a.claim.queue for a in bench.executor.running] == ["b"]
        bench.store.resume("a")
        await bench.until_running(2)


async def test_a_run_that_drains_ends_when_nothing_is_due():
    bench = Bench(executor=FakeExecutor(instant=True), limits=RunLimits(drain=True))
    jobs = bench.add(25)
    await asyncio.wait_for(bench.runtime.run(), 30)
    assert {bench.state(job) for job in jobs} == {"succeeded"}


async def test_a_run_that_drains_an_empty_queue_ends_at_once():
    await asyncio.wait_for(Bench(limits=RunLimits(drain=True)).runtime.run(), 30)


async def test_a_run_that_drains_does_not_wait_for_what_is_not_due():
    bench = Bench(executor=FakeExecutor(instant=True), limits=RunLimits(drain=True))
    [later] = bench.add(run_after=bench.store._state.now() + 3600)
    [due] = bench.add(run_after=bench.store._state.now() - 1)
    await asyncio.wait_for(bench.runtime.run(), 30)
    assert (bench.state(due), bench.state(later)) == ("succeeded", "scheduled")


async def test_a_run_ends_after_as_many_jobs_as_it_may_take():
    bench = Bench(executor=FakeExecutor(instant=True), concurrency=4, limits=RunLimits(max_jobs=10))
    jobs = bench.add(25)
    await asyncio.wait_for(bench.runtime.run(), 30)
    assert [bench.state(job) for job in jobs].count("succeeded") == 10
    assert [bench.state(job) for job in jobs].count("ready") == 15


def _damaged(claim: Claim) -> Claim:
    from dataclasses import replace

    return replace(claim, job=None, raw=b"\xff", defect="not JSON")


def _with_claims(answer, claims):
    from dataclasses import replace

    return replace(answer, claims=tuple(claims))


assert JobState

"""What an expired lease covered is decided by whoever is there, and by nobody too early."""

from __future__ import annotations

import asyncio

from django_vtasks.events import JobRescued
from django_vtasks.stores.base import ClaimRequest, Want
from django_vtasks.stores.memory import MemoryStore
from tests.support.flaky import FlakyStore
from tests.support.waiting import aeventually, happens, let_others_run
from tests.worker.support import Bench, FakeExecutor


async def claimed_by_a_dead_worker(store, count=1):
    store.extend("dead:1", 15)
    request = ClaimRequest(owner="dead:1", wants=(Want(queue="default", slots=count),), limit=count)
    claims = (await store.exchange((), request)).claims
    assert len(claims) == count
    store.release("dead:1")
    return claims


async def test_a_job_of_a_dead_worker_is_run_again_as_often_as_max_rescues_allows():
    """Invariant 7."""
    bench = Bench(executor=FakeExecutor(instant=True))
    heard = bench.hear(JobRescued)
    [job] = bench.add(max_rescues=1)
    await claimed_by_a_dead_worker(bench.store)
    async with bench.run():
        await bench.until_state(job, "succeeded")
    assert len(heard) == 1
    assert bench.store.get(job).job.rescue_count == 1
    assert bench.store.get(job).worker_ids == ("dead:1", bench.runtime.owner)


async def test_a_job_that_may_not_be_rescued_becomes_a_dead_letter_with_the_reason():
    """Invariant 7."""
    bench = Bench()
    [job] = bench.add()
    await claimed_by_a_dead_worker(bench.store)
    async with bench.run():
        await bench.until_state(job, "dead")
    letter = bench.store.get(job).letter
    assert letter.reason == "rescued_too_often"
    assert "dead:1" in letter.failure.message


async def test_more_than_one_chunk_is_rescued_at_once():
    bench = Bench(concurrency=1, rescue_interval=3600)
    jobs = bench.add(1200)
    await claimed_by_a_dead_worker(bench.store, 1200)
    async with bench.run():
        await aeventually(lambda: {bench.state(job) for job in jobs} == {"dead"})


async def test_a_live_lease_is_left_alone():
    bench = Bench(rescue_interval=0.05)
    [job] = bench.add()
    bench.store.extend("alive:1", 3600)
    request = ClaimRequest(owner="alive:1", wants=(Want(queue="default", slots=1),), limit=1)
    await bench.store.exchange((), request)
    flaky = bench.runtime.store = FlakyStore(bench.store)
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        await let_others_run(50)
        assert bench.state(job) == "leased"
    assert flaky


async def test_after_an_outage_nothing_is_rescued_before_others_could_renew():
    """Every lease of the fleet ran out while the store was away; a rescue at once would be a massacre."""
    time = [1000.0]
    memory = MemoryStore(lambda: time[0])
    flaky = FlakyStore(memory)
    bench = Bench(flaky, lease_seconds=1.0, heartbeat_interval=0.1, rescue_interval=0.05)
    [job] = bench.add()
    memory.extend("other:1", 15)
    await memory.exchange((), ClaimRequest(owner="other:1", wants=(Want(queue="default", slots=1),), limit=1))
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        flaky.down = True
        await aeventually(lambda: not bench.runtime.keeper.held)
        time[0] += 60
        flaky.calls.clear()
        flaky.down = False
        await aeventually(lambda: bench.runtime.keeper.held)
        await aeventually(lambda: flaky.calls.count("extend") >= 3)
        assert bench.state(job) == "leased", "rescued although its holder had no time to renew"
        await bench.until_state(job, "dead")


async def test_what_a_server_that_hung_says_late_is_not_acted_upon(monkeypatch):
    """Shown to catch: leases looked at before the question only; on a hang of the server the fleet was robbed."""
    time = [1000.0]
    memory = MemoryStore(lambda: time[0])
    flaky = FlakyStore(memory)
    bench = Bench(flaky, lease_seconds=1.0, heartbeat_interval=0.1, rescue_interval=0.05)
    [job] = bench.add()
    memory.extend("other:1", 15)
    await memory.exchange((), ClaimRequest(owner="other:1", wants=(Want(queue="default", slots=1),), limit=1))
    answered, expired = asyncio.Event(), memory.expired

    async def hangs(limit):
        flaky.down = True
        await aeventually(lambda: not bench.runtime.keeper.held)
        time[0] += 60
        monkeypatch.setattr(flaky, "expired", expired, raising=False)
        answered.set()
        return await expired(limit)

    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        monkeypatch.setattr(flaky, "expired", hangs, raising=False)
        monkeypatch.setattr(flaky, "now", memory.now, raising=False)
        monkeypatch.setattr(flaky, "exchange", memory.exchange, raising=False)
        await happens(answered)
        await let_others_run(50)
        assert bench.state(job) == "leased", "rescued although its holder had no time to renew"


async def test_a_worker_does_not_rescue_its_own_jobs():
    time = [1000.0]
    memory = MemoryStore(lambda: time[0])
    bench = Bench(memory, rescue_interval=0.05, heartbeat_interval=0.05)
    [job] = bench.add()
    async with bench.run():
        await bench.until_running(1)
        time[0] += 3600
        await aeventually(lambda: bench.runtime.keeper.losses)
        await let_others_run(50)
        bench.executor.running[0].end()
        await bench.until_state(job, "succeeded")


async def test_a_job_that_cannot_be_rescued_does_not_keep_the_others_from_it(caplog):
    bench = Bench(concurrency=1)
    jobs = bench.add(3)
    await claimed_by_a_dead_worker(bench.store, 3)
    exchange = bench.store.exchange

    async def picky(settlements, request):
        if any(settlement.claim.lease.job_id == jobs[1] for settlement in settlements):
            raise ValueError("no such character")
        return await exchange(settlements, request)

    bench.store.exchange = picky
    async with bench.run():
        await aeventually(lambda: [bench.state(job) for job in jobs] == ["dead", "leased", "dead"])
    assert jobs[1] in caplog.text


async def test_a_rescue_that_is_refused_altogether_is_not_repeated_at_once():
    """The holders renewed between the look and the settle."""
    bench = Bench(concurrency=1, rescue_interval=3600)
    jobs = bench.add(500)
    await claimed_by_a_dead_worker(bench.store, 500)
    expired, looks = bench.store.expired, []

    async def late(limit):
        claims = await expired(limit)
        looks.append(len(claims))
        bench.store.extend("dead:1", 3600)
        return claims

    bench.store.expired = late
    async with bench.run():
        await aeventually(lambda: looks)
        await let_others_run(50)
    assert looks == [500]
    assert {bench.state(job) for job in jobs} == {"leased"}

"""Waiting on Valkey: soon for our producers, soon enough for everybody else's, and cheap for the server."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from django_vtasks.stores.valkey.store import ValkeyClientStore, ValkeyWorkerStore
from tests.stores.contract.leases import worker_info
from tests.stores.valkey_help import claim, job, options, raw_client, run_all
from tests.support.waiting import aeventually, measured_for

P = "{vt}:"
QUEUES = ("one", "two", "three", "four")


@pytest.fixture
def raw(clean_valkey):
    with raw_client(clean_valkey) as client:
        yield client


@pytest.fixture
async def worker(clean_valkey):
    worker = ValkeyWorkerStore(options(clean_valkey, poll_interval=10.0))
    await worker.open()
    yield worker
    await worker.close()


@pytest.fixture
def store(clean_valkey):
    store = ValkeyClientStore(options(clean_valkey))
    yield store
    store.close()


async def parked(raw) -> None:
    """Wait until a worker blocks on the server."""
    await aeventually(lambda: raw.info("clients")["blocked_clients"] == 1)


def blocked_other_than(raw, client_id: str) -> bool:
    """Whether a client other than this one blocks on the server."""
    return any(client["cmd"] == "blpop" and client["id"] != client_id for client in raw.client_list())


class TestWakingUp:
    """The fixture's worker looks for foreign jobs every ten seconds only, so what wakes it sooner is a token."""

    @pytest.mark.parametrize("changes", [{}, {"result_ttl": 0.0}, {"priority": 5}, {"priority": -5}], ids=str)
    async def test_an_added_job_wakes_a_waiting_worker(self, worker, store, raw, changes):
        wait = asyncio.create_task(worker.wait_for_jobs(QUEUES, 9))
        await parked(raw)
        await store.aadd([job(queue="three", **changes)])
        start = time.monotonic()
        assert await wait
        assert time.monotonic() - start < 3

    async def test_a_promoted_job_wakes_a_waiting_worker(self, worker, store, raw, clean_valkey):
        other = ValkeyWorkerStore(options(clean_valkey))
        await store.aadd([job(queue="two", run_after=time.time() + 0.3)])
        wait = asyncio.create_task(worker.wait_for_jobs(QUEUES, 9))
        await parked(raw)

        async def promoted() -> int:
            return (await other.pulse("beta", 100)).promoted

        assert await aeventually(promoted) == 1
        assert await asyncio.wait_for(wait, 3)
        await other.close()

    async def test_many_jobs_wake_one_worker_after_the_other(self, worker, store, raw, clean_valkey):
        """Each that takes what it has slots for wakes the next, since only the first job of an empty queue leaves a
        token."""
        other = ValkeyWorkerStore(options(clean_valkey, poll_interval=10.0))
        waits = [asyncio.create_task(one.wait_for_jobs(["one"], 9)) for one in (worker, other)]
        await aeventually(lambda: raw.info("clients")["blocked_clients"] == 2)
        await store.aadd([job(queue="one") for _ in range(5)])
        [first], _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=3)
        assert len((await claim(worker, "one", slots=2)).claims) == 2
        assert await asyncio.wait_for(waits[1] if first is waits[0] else waits[0], 3)
        await other.close()

    async def test_a_wait_for_other_queues_does_not_lose_the_token(self, worker, store):
        assert not await worker.wait_for_jobs(["one"], 0.05)
        await store.aadd([job(queue="one")])
        await worker.wait_for_jobs(["two"], 0.0)
        assert await worker.wait_for_jobs(["one"], 0.0)

    async def test_a_block_of_before_that_broke_is_no_outage_of_now(self, worker, store, raw):
        """It outlives its wait, and with it an outage that was told of and is over."""
        assert not await worker.wait_for_jobs(QUEUES, 0.05)
        await parked(raw)
        [blocked] = [client["id"] for client in raw.client_list() if client["cmd"] == "blpop"]
        raw.client_kill_filter(_id=blocked)
        wait = asyncio.create_task(worker.wait_for_jobs(QUEUES, 9))
        await aeventually(lambda: wait.done() or blocked_other_than(raw, blocked))
        await store.aadd([job(queue="two")])
        assert await wait

    async def test_what_is_there_already_is_no_wait(self, worker, store, raw):
        await store.aadd([job(queue="four")])
        raw.delete(P + "wake:four")
        start = time.monotonic()
        assert await worker.wait_for_jobs(QUEUES, 9)
        assert time.monotonic() - start < 3

    async def test_an_empty_queue_is_waited_for_no_longer_than_told(self, worker):
        start = time.monotonic()
        assert not await worker.wait_for_jobs(QUEUES, 0.3)
        assert 0.29 < time.monotonic() - start < 3


async def test_a_bare_push_of_somebody_else_is_seen_within_250_milliseconds(clean_valkey, raw):
    worker = ValkeyWorkerStore(options(clean_valkey))
    seconds = []
    for _ in range(5):
        wait = asyncio.create_task(worker.wait_for_jobs(QUEUES, 9))
        await parked(raw)
        await asyncio.to_thread(raw.lpush, P + "q:four", b"bytes")
        start = time.monotonic()
        assert await wait
        seconds.append(time.monotonic() - start)
        await run_all(worker, "four")
    assert min(seconds) < 0.25
    await worker.close()


async def test_a_look_at_idle_queues_costs_no_more_for_many_of_them(clean_valkey, raw, worker):
    async def cost(queues: list[str]) -> Counter[str]:
        await worker.announce(worker_info(queues=tuple(queues)))
        before = raw.info("commandstats")
        assert await worker.glance() == []
        return commands_since(raw, before)

    await worker.glance()  # the server learns the scripts
    few = await cost(["one"])
    assert few == await cost([f"queue {number}" for number in range(40)])
    assert few.total() <= 12


@pytest.mark.parametrize("paused", ["none", "some other"])
async def test_a_claim_passes_over_empty_queues_at_once(worker, raw, paused):
    queues = [f"queue {number}" for number in range(100)]
    if paused != "none":
        raw.sadd(f"{P}paused", paused)
    await claim(worker, *queues)  # takes a lease
    before = raw.info("commandstats")
    assert (await claim(worker, *queues)).claims == ()
    assert commands_since(raw, before).total() <= 20


def commands_since(raw, before) -> Counter[str]:
    """What commands the server has carried out since, those inside scripts too, but not the questions."""
    after = raw.info("commandstats")
    calls = Counter({name: each["calls"] - before.get(name, {"calls": 0})["calls"] for name, each in after.items()})
    del calls["cmdstat_info"]
    return +calls


async def test_an_idle_worker_with_four_queues_costs_twelve_commands_a_second_and_three_connections(
    clean_valkey, raw, store
):
    """Commands inside scripts count. The paces are those of the worker: a pulse a second, a renewal every five, waits
    of ten seconds."""
    store.add([job(queue="elsewhere", run_after=4e9), job(queue="one", run_after=4e9)])
    store.close()
    worker = ValkeyWorkerStore(options(clean_valkey))
    await worker.open()
    await claim(worker, *QUEUES)

    async def every(seconds: float, call) -> None:
        while True:
            await measured_for(seconds)
            await call()

    async def extend() -> None:
        await asyncio.to_thread(worker.extend, "alpha", 15)

    async def wait() -> None:
        await worker.wait_for_jobs(QUEUES, 10.0)

    calls = [(1.0, lambda: worker.pulse("alpha", 1000)), (5.0, extend), (0.0, wait)]
    tasks = [asyncio.create_task(every(*call)) for call in calls]
    await parked(raw)
    before = raw.info("commandstats")
    # Five pulses and one renewal, wherever in their first second the measurement begins.
    await measured_for(5.5)
    commands = commands_since(raw, before)
    assert commands.total() / 5 <= 12, commands
    assert sum(item["name"] == "django-vtasks" for item in raw.client_list()) <= 3
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await worker.close()

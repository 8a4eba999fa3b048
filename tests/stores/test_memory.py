"""The contract on the memory store."""

from __future__ import annotations

import asyncio
import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_vtasks.stores.base import ClaimRequest, Want
from django_vtasks.stores.memory import MemoryStore
from tests.stores.benches import memory_bench
from tests.stores.contract import *  # noqa: F403
from tests.support.builders import a_job
from tests.support.waiting import let_others_run


@pytest.fixture
async def store():
    bench = await memory_bench()
    yield bench
    await bench.close()


class TestMemoryStore:
    """What only the memory store promises: it is shared by threads and event loops without further ado."""

    def test_its_clock_is_the_hosts_unless_told_otherwise(self):
        before = time.time()
        assert before <= asyncio.run(MemoryStore().now()) <= time.time()

    async def test_an_enqueue_in_another_thread_ends_a_wait(self):
        store = MemoryStore()
        waiting = asyncio.create_task(store.wait_for_jobs(["default"], 20))
        await let_others_run()
        await asyncio.to_thread(store.add, [a_job()])
        assert await asyncio.wait_for(waiting, 10)

    def test_workers_in_several_event_loops_share_it(self):
        store = MemoryStore()
        jobs = [a_job(id=f"job-{number}") for number in range(200)]
        store.add(jobs)

        async def drain(owner):
            store.extend(owner, 60)
            taken = []
            wants = (Want(queue="default", slots=3),)
            while claims := (await store.exchange([], ClaimRequest(owner=owner, wants=wants, limit=3))).claims:
                taken.extend(claim.lease.job_id for claim in claims)
                await asyncio.sleep(0)
            return taken

        with ThreadPoolExecutor(4) as pool:
            taken = list(pool.map(lambda owner: asyncio.run(drain(owner)), ["a", "b", "c", "d"]))
        assert sorted(itertools.chain(*taken)) == sorted(job.id for job in jobs)

    async def test_a_loop_that_ended_while_it_waited_is_forgotten(self):
        store = MemoryStore()

        def give_up():
            async def main():
                task = asyncio.create_task(store.wait_for_jobs(["default"], 60))
                await let_others_run()
                task.cancel()

            asyncio.run(main())

        await asyncio.to_thread(give_up)
        store.add([a_job()])
        assert await store.wait_for_jobs(["default"], 5)

    async def test_what_it_gives_out_cannot_change_what_it_has(self):
        store = MemoryStore()
        job = a_job(args=[[1]])
        store.add([job])
        job.args[0].append(2)
        assert store.get(job.id).job.args == [[1]]

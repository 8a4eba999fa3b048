"""The clock and the flaky store that other tests rely on."""

from __future__ import annotations

import asyncio

import pytest

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.stores.memory import MemoryStore
from tests.support.builders import a_job
from tests.support.clock import START, FakeClock
from tests.support.flaky import FlakyStore
from tests.support.waiting import aeventually


class TestFakeClock:
    def test_time_passes_only_when_it_is_advanced(self):
        clock = FakeClock()
        assert clock() == clock() == START
        assert clock.advance(2.5) == clock() == START + 2.5

    def test_it_does_not_go_back(self):
        with pytest.raises(ValueError, match="does not go back"):
            FakeClock().advance(-1)

    async def test_advancing_wakes_who_slept_long_enough(self):
        clock, woken = FakeClock(), []

        async def sleeper(seconds):
            await clock.sleep(seconds)
            woken.append(seconds)

        tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (5, 1, 3)]
        await aeventually(lambda: clock.sleepers == 3)
        clock.advance(3)
        await aeventually(lambda: len(woken) == 2)
        assert (sorted(woken), clock.sleepers) == ([1, 3], 1)
        clock.advance(3)
        await asyncio.gather(*tasks)

    async def test_sleeping_for_nothing_ends_at_once(self):
        clock = FakeClock()
        await asyncio.wait_for(clock.sleep(0), 5)
        assert clock.sleepers == 0


class TestFlakyStore:
    async def test_a_call_that_fails_before_has_no_effect(self):
        flaky, job = FlakyStore(MemoryStore()), a_job()
        flaky.fail_before("aadd")
        with pytest.raises(StoreUnavailable):
            await flaky.aadd([job])
        assert flaky.store.get(job.id) is None
        assert flaky.pending() == []

    async def test_a_call_that_fails_after_has_its_effect(self):
        flaky, job = FlakyStore(MemoryStore()), a_job()
        flaky.fail_after("aadd")
        with pytest.raises(StoreUnavailable):
            await flaky.aadd([job])
        assert flaky.store.get(job.id).state == "ready"

    def test_only_the_named_call_fails_and_only_once(self):
        flaky = FlakyStore(MemoryStore())
        flaky.fail_before("get")
        flaky.add([a_job()])
        with pytest.raises(StoreUnavailable):
            flaky.get("x")
        assert flaky.get("x") is None
        assert flaky.calls == ["add", "get", "get"]

    async def test_a_store_that_is_down_answers_nothing_to_a_worker(self):
        flaky = FlakyStore(MemoryStore(), error=ConnectionError("gone"))
        flaky.down = True
        flaky.add([a_job()])
        with pytest.raises(ConnectionError):
            await flaky.now()
        with pytest.raises(ConnectionError):
            flaky.extend(None)
        flaky.down = False
        assert await flaky.now() > 0

    def test_what_is_no_call_is_passed_through(self):
        assert FlakyStore(MemoryStore()).transactional is False

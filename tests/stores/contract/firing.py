"""Schedule entries: one slot is enqueued at most once."""

from __future__ import annotations

import asyncio

from django_vtasks.stores.base import Firing
from tests.stores.bench import Bench, about, ids
from tests.support.builders import a_key

SLOT = 1_700_000_060.0


class TestFire:
    async def test_the_first_slot_is_recorded_and_its_job_enqueued(self, store: Bench):
        job = store.job()
        answer = await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=job))
        assert (answer.status, answer.job_id) == ("added", job.id)
        assert ids(await store.claim()) == [job.id]
        assert await store.worker.last_slots(["nightly"]) == {"nightly": about(SLOT)}

    async def test_the_next_slot_follows_the_last(self, store: Bench):
        await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=None))
        job = store.job()
        assert await store.worker.fire(Firing(entry="nightly", slot=SLOT + 60, expected=SLOT, job=job))
        assert await store.worker.last_slots(["nightly"]) == {"nightly": about(SLOT + 60)}

    async def test_a_slot_that_somebody_else_fired_is_not_fired_again(self, store: Bench):
        first, second = store.job(), store.job()
        assert await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=first))
        assert await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=second)) is None
        assert await store.worker.fire(Firing(entry="nightly", slot=SLOT + 60, expected=SLOT - 60, job=second)) is None
        assert ids(await store.claim()) == [first.id]
        assert await store.worker.last_slots(["nightly"]) == {"nightly": about(SLOT)}

    async def test_slots_with_fractions_of_a_second_are_compared_exactly(self, store: Bench):
        slot = SLOT + 0.1 + 0.2
        await store.worker.fire(Firing(entry="quick", slot=slot, expected=None, job=None))
        known = (await store.worker.last_slots(["quick"]))["quick"]
        assert await store.worker.fire(Firing(entry="quick", slot=slot + 0.3, expected=known, job=store.job()))

    async def test_a_slot_may_be_recorded_without_a_job(self, store: Bench):
        answer = await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=None))
        assert (answer.status, answer.job_id) == ("added", None)
        assert await store.claim() == []
        assert await store.worker.last_slots(["nightly"]) == {"nightly": about(SLOT)}

    async def test_a_job_whose_key_is_taken_is_not_enqueued_but_its_slot_is_recorded(self, store: Bench):
        holder = await store.add(unique=a_key())
        answer = await store.worker.fire(
            Firing(entry="nightly", slot=SLOT, expected=None, job=store.job(unique=a_key()))
        )
        assert (answer.status, answer.job_id) == ("duplicate", holder.id)
        assert ids(await store.claim()) == [holder.id]
        assert await store.worker.last_slots(["nightly"]) == {"nightly": about(SLOT)}

    async def test_of_many_schedulers_one_fires(self, store: Bench):
        worker = store.new_worker()
        await worker.open()
        try:
            answers = await asyncio.gather(
                *(
                    one.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=store.job()))
                    for one in (store.worker, worker) * 4
                )
            )
        finally:
            await worker.close()
        assert len([answer for answer in answers if answer]) == 1
        assert len(await store.claim()) == 1

    async def test_whoever_waits_for_jobs_is_woken_by_a_firing_of_the_same_store_too(self, store: Bench):
        worker = store.new_worker()
        await worker.open()
        try:
            waiting = [asyncio.create_task(one.wait_for_jobs(["default"], 60.0)) for one in (store.worker, worker)]
            await asyncio.wait(waiting, timeout=0.3)  # both are asleep by now, or will look in time
            await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=store.job()))
            done, late = await asyncio.wait(waiting, timeout=20.0)
            assert not late
            assert [one.result() for one in done] == [True, True]
        finally:
            await worker.close()

    async def test_a_fired_job_may_be_delayed_and_has_its_priority(self, store: Bench):
        job = store.job(priority=7, queue="mail", run_after=store.clock() + 5)
        await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=job))
        assert (await store.state(job), (await store.get(job)).job.priority) == ("scheduled", 7)


class TestLastSlots:
    async def test_entries_that_never_fired_are_absent(self, store: Bench):
        assert await store.worker.last_slots(["never", "ever"]) == {}
        assert await store.worker.last_slots([]) == {}

    async def test_only_the_entries_asked_for_are_told(self, store: Bench):
        for number, entry in enumerate(("one", "two", "three with: strange ünïcode name")):
            await store.worker.fire(Firing(entry=entry, slot=SLOT + number, expected=None, job=None))
        assert set(await store.worker.last_slots(["one", "three with: strange ünïcode name"])) == {
            "one",
            "three with: strange ünïcode name",
        }

    async def test_operators_see_the_same(self, store: Bench):
        await store.worker.fire(Firing(entry="nightly", slot=SLOT, expected=None, job=None))
        assert await store.admin.recorded_slots(["nightly", "never"]) == {"nightly": about(SLOT)}

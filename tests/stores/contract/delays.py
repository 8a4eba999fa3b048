"""Delayed jobs, and the pulse that makes them ready."""

from __future__ import annotations

import pytest

from tests.stores.bench import Bench, about, ids


class TestPulse:
    async def test_a_delayed_job_becomes_ready_when_its_time_has_come(self, store: Bench):
        job = await store.add(run_after=store.clock() + 10)
        await store.advance(10)
        await store.pulse()
        assert await store.state(job) == "ready"
        assert ids(await store.claim()) == [job.id]

    @pytest.mark.parametrize("remaining", [0.05, 5])
    async def test_it_is_never_early(self, store: Bench, remaining: float):
        job = await store.add(run_after=store.clock() + 10)
        await store.advance(10 - remaining)
        assert (await store.pulse()).promoted == 0
        assert (await store.state(job), await store.claim()) == ("scheduled", [])

    async def test_due_jobs_become_ready_in_the_order_of_their_times(self, store: Bench):
        times = [30, 10, 20, 10.5]
        jobs = [await store.add(run_after=store.clock() + seconds) for seconds in times]
        await store.advance(60)
        await store.pulse()
        assert ids(await store.claim()) == [jobs[1].id, jobs[3].id, jobs[2].id, jobs[0].id]

    async def test_jobs_of_every_queue_are_promoted_by_any_worker(self, store: Bench):
        jobs = [await store.add(queue=f"queue{number}", run_after=store.clock() + 1) for number in range(20)]
        await store.advance(2)
        await store.pulse("a worker of another queue")
        assert [await store.state(job) for job in jobs] == ["ready"] * 20

    async def test_a_thousand_jobs_become_ready_in_one_pulse(self, store: Bench):
        await store.add_all([store.job(run_after=store.clock() + 1) for _ in range(1000)])
        await store.advance(2)
        await store.pulse()
        assert (await store.counts())["ready"] == 1000
        assert len(await store.claim(1000)) == 1000

    async def test_the_limit_is_made_up_for_by_the_next_pulses(self, store: Bench):
        await store.add_all([store.job(run_after=store.clock() + 1) for _ in range(10)])
        await store.advance(2)
        for _ in range(4):
            await store.pulse(limit=3)
        assert len(await store.claim(20)) == 10

    async def test_what_is_not_due_stays(self, store: Bench):
        await store.add(run_after=store.clock() + 1)
        later = await store.add(run_after=store.clock() + 100)
        await store.advance(2)
        await store.pulse()
        assert (await store.state(later), len(await store.claim())) == ("scheduled", 1)

    async def test_it_tells_when_the_next_job_is_due(self, store: Bench):
        assert (await store.pulse()).next_due_in is None
        await store.add(run_after=store.clock() + 100)
        await store.add(queue="mail", run_after=store.clock() + 40)
        assert (await store.pulse()).next_due_in == about(40)
        await store.advance(30)
        assert (await store.pulse()).next_due_in == about(10)
        await store.advance(10)
        await store.pulse()
        assert (await store.pulse()).next_due_in == about(60)

    async def test_a_quiet_store_has_nothing_to_tell(self, store: Bench):
        pulse = await store.pulse()
        assert (pulse.cancelled, pulse.paused, pulse.promoted, pulse.next_due_in) == (
            frozenset(),
            frozenset(),
            0,
            None,
        )

    async def test_a_far_future_is_no_problem(self, store: Bench):
        job = await store.add(run_after=store.clock() + 300 * 365 * 86400)
        assert (await store.state(job), (await store.get(job)).job.run_after) == ("scheduled", job.run_after)


class TestHasten:
    async def test_a_scheduled_job_is_ready_at_once(self, store: Bench):
        job, other = [await store.add(run_after=store.clock() + 100) for _ in range(2)]
        assert await store.admin.hasten([job.id]) == 1
        assert (await store.state(job), await store.state(other)) == ("ready", "scheduled")
        claim = await store.claim_one()
        assert (claim.lease.job_id, claim.job.run_after) == (job.id, None)

    async def test_jobs_in_other_states_are_left_alone(self, store: Bench):
        dead = await store.bury()
        ready = await store.add()
        leased = await store.claim_one()
        unknown = store.client.new_id()
        assert await store.admin.hasten([dead.id, ready.id, leased.lease.job_id, unknown, "nonsense"]) == 0
        assert (await store.state(dead), await store.state(ready)) == ("dead", "leased")

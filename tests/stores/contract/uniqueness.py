"""Unique keys: one job at a time, in every mode and through every way a job can take."""

from __future__ import annotations

import asyncio

import pytest

from django_vtasks.jobs.codec import encode
from django_vtasks.jobs.model import JobState, Unique, UniqueMode
from django_vtasks.jobs.outcomes import Discarded, Interrupted, LeaseExpired, Snoozed, Succeeded
from django_vtasks.stores.base import Firing, JobFilter
from tests.stores.bench import Bench, about, ids
from tests.support.builders import a_failure, a_key, raised

UNTIL_DONE, UNTIL_STARTED, WINDOW, DEBOUNCE = UniqueMode
EVERY_MODE = [a_key("k", UNTIL_DONE), a_key("k", UNTIL_STARTED), a_key("k", WINDOW, 60.0), a_key("k", DEBOUNCE)]
every_mode = pytest.mark.parametrize("unique", EVERY_MODE, ids=list(UniqueMode))
while_waiting = pytest.mark.parametrize("unique", EVERY_MODE[:3], ids=list(UniqueMode)[:3])


async def is_free(store: Bench, key: str = "k") -> bool:
    """Whether a job with the key would be added; leaves no trace when it is taken."""
    answer = await store.try_add(unique=a_key(key), queue="probe")
    if answer.status == "added":
        await store.admin.delete(JobFilter(state=JobState.READY, queue="probe"))
    return answer.status == "added"


class TestUnique:
    """Invariant 9."""

    @while_waiting
    async def test_a_second_job_is_refused_while_the_first_waits(self, store: Bench, unique: Unique):
        first = await store.add(unique=unique)
        answer = await store.try_add(unique=unique)
        assert (answer.status, answer.job_id) == ("duplicate", first.id)
        assert ids(await store.claim()) == [first.id]

    @while_waiting
    async def test_a_second_job_is_refused_while_the_first_is_scheduled(self, store: Bench, unique: Unique):
        first = await store.add(unique=unique, run_after=store.clock() + 30)
        answer = await store.try_add(unique=unique)
        assert (answer.status, answer.job_id) == ("duplicate", first.id)

    async def test_a_duplicate_leaves_no_trace_of_its_own(self, store: Bench):
        await store.add(unique=a_key())
        duplicate = store.job(unique=a_key())
        await store.client.aadd([duplicate])
        assert await store.state(duplicate) is None

    async def test_the_key_is_one_for_all_queues_and_tasks(self, store: Bench):
        await store.add(unique=a_key())
        assert (await store.try_add(unique=a_key(), queue="other", func="other.task")).status == "duplicate"

    async def test_other_keys_are_free(self, store: Bench):
        await store.add(unique=a_key("a"))
        for key in ("b", "A", "a ", " a", "a\u0301", "á", "a" * 255):
            assert (await store.try_add(unique=a_key(key))).status == "added"

    async def test_duplicates_within_one_call_are_refused(self, store: Bench):
        first, second, other = store.job(unique=a_key()), store.job(unique=a_key()), store.job()
        answers = await store.client.aadd([first, second, other])
        assert [answer.status for answer in answers] == ["added", "duplicate", "added"]
        assert answers[1].job_id == first.id
        assert ids(await store.claim()) == [first.id, other.id]

    async def test_the_sync_twin_refuses_as_well(self, store: Bench):
        first = await store.add(unique=a_key())
        [answer] = await store.sync.add([store.job(unique=a_key())])
        assert (answer.status, answer.job_id) == ("duplicate", first.id)

    async def test_of_many_at_once_one_is_added(self, store: Bench):
        jobs = [store.job(unique=a_key(), args=[number]) for number in range(40)]
        answers = [answer for [answer] in await asyncio.gather(*(store.client.aadd([job]) for job in jobs))]
        assert sorted(answer.status for answer in answers) == ["added"] + ["duplicate"] * 39
        assert len({answer.job_id for answer in answers}) == 1
        assert len(await store.claim(50)) == 1


class TestUntilDone:
    """Invariant 9: the key lives until the job ends."""

    async def test_it_is_taken_while_the_job_runs_whatever_the_time(self, store: Bench):
        first = await store.add(unique=Unique(key="k", window=5.0))
        await store.claim_one()
        await store.advance(10_000)
        answer = await store.try_add(unique=a_key("k"))
        assert (answer.status, answer.job_id) == ("duplicate", first.id)

    @pytest.mark.parametrize(
        "outcome", [Succeeded(), raised(), Discarded(failure=a_failure())], ids=["success", "failure", "discard"]
    )
    async def test_it_is_free_when_the_job_has_ended(self, store: Bench, outcome):
        await store.add(unique=a_key("k"))
        assert await store.settle(await store.claim_one(), outcome)
        assert await is_free(store)

    @pytest.mark.parametrize(
        "outcome", [raised(delay=60), raised(delay=0), Snoozed(delay=5), Interrupted()], ids=range(4)
    )
    async def test_it_is_taken_between_attempts(self, store: Bench, outcome):
        await store.add(unique=a_key("k"))
        assert await store.settle(await store.claim_one(), outcome)
        assert not await is_free(store)

    async def test_it_is_taken_through_a_rescue_and_free_after_the_last(self, store: Bench):
        await store.add(unique=a_key("k"), max_rescues=1)
        for expected in (False, True):
            await store.lose(await store.claim_one())
            [claim] = await store.worker.expired(10)
            assert await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
            assert await is_free(store) is expected

    async def test_the_key_of_a_successor_is_not_given_back_by_the_loser(self, store: Bench):
        """Invariants 2 and 9."""
        await store.add(unique=a_key("k"))
        stale = await store.claim_one()
        await store.lose(stale)
        assert await store.settle(stale, LeaseExpired(owner="alpha"), reclaim=True)
        await store.add(unique=a_key("k"))
        assert not await store.settle(stale, Succeeded())
        assert not await is_free(store)


class TestUntilStarted:
    async def test_the_key_is_free_once_the_job_is_claimed(self, store: Bench):
        await store.add(unique=a_key("k", UNTIL_STARTED))
        await store.claim_one()
        second = await store.add(unique=a_key("k", UNTIL_STARTED))
        answer = await store.try_add(unique=a_key("k", UNTIL_STARTED))
        assert (answer.status, answer.job_id) == ("duplicate", second.id)

    async def test_a_retry_does_not_take_it_again(self, store: Bench):
        await store.add(unique=a_key("k", UNTIL_STARTED))
        await store.retry(await store.claim_one(), delay=60)
        assert await is_free(store)

    async def test_the_end_of_the_first_does_not_free_the_key_of_the_second(self, store: Bench):
        await store.add(unique=a_key("k", UNTIL_STARTED))
        claim = await store.claim_one()
        await store.add(unique=a_key("k", UNTIL_STARTED))
        await store.succeed(claim)
        assert not await is_free(store)


class TestWindow:
    async def test_one_job_per_window_whatever_becomes_of_it(self, store: Bench):
        first = await store.add(unique=a_key("k", WINDOW, 60.0))
        await store.succeed(await store.claim_one())
        await store.advance(59)
        answer = await store.try_add(unique=a_key("k", WINDOW, 60.0))
        assert (answer.status, answer.job_id) == ("duplicate", first.id)

    async def test_the_next_window_takes_the_next_job(self, store: Bench):
        await store.add(unique=a_key("k", WINDOW, 60.0))
        await store.advance(61)
        assert (await store.try_add(unique=a_key("k", WINDOW, 60.0))).status == "added"
        assert len(await store.claim()) == 2

    async def test_a_failure_does_not_end_it(self, store: Bench):
        await store.add(unique=a_key("k", WINDOW, 60.0))
        await store.fail(await store.claim_one())
        assert not await is_free(store)

    async def test_the_end_of_an_old_job_does_not_end_the_next_window(self, store: Bench):
        await store.add(unique=a_key("k", WINDOW, 60.0))
        claim = await store.claim_one()
        await store.advance(61)
        await store.add(unique=a_key("k", WINDOW, 60.0))
        await store.settle(claim, Succeeded())
        assert not await is_free(store)


class TestDebounce:
    async def test_the_last_call_wins(self, store: Bench):
        first = await store.add(unique=a_key("k", DEBOUNCE), args=["old"], run_after=store.clock() + 5)
        answer = await store.try_add(unique=a_key("k", DEBOUNCE), args=["new"], run_after=store.clock() + 5)
        assert (answer.status, answer.job_id) == ("replaced", first.id)
        assert (await store.get(first)).job.args == ["new"]
        await store.advance(6)
        await store.pulse()
        [claim] = await store.claim()
        assert (claim.lease.job_id, claim.job.args) == (first.id, ["new"])

    async def test_each_call_puts_the_job_off(self, store: Bench):
        first = await store.add(unique=a_key("k", DEBOUNCE), run_after=store.clock() + 5)
        for _ in range(3):
            await store.advance(4)
            await store.pulse()
            answer = await store.try_add(unique=a_key("k", DEBOUNCE), run_after=store.clock() + 5)
            assert answer.status == "replaced"
        await store.advance(4.5)
        await store.pulse()
        assert await store.state(first) == "scheduled"
        await store.advance(1)
        await store.pulse()
        assert await store.state(first) == "ready"

    async def test_it_is_not_put_off_beyond_its_window(self, store: Bench):
        start = store.clock()
        first = await store.add(unique=a_key("k", DEBOUNCE, 12.0), run_after=start + 5)
        await store.advance(4)
        await store.try_add(unique=a_key("k", DEBOUNCE, 12.0), run_after=start + 50)
        assert (await store.get(first)).job.run_after == about(start + 12)
        await store.advance(8.5)
        await store.pulse()
        assert await store.state(first) == "ready"

    async def test_a_job_that_is_ready_can_still_be_replaced(self, store: Bench):
        first = await store.add(unique=a_key("k", DEBOUNCE), args=["old"])
        answer = await store.try_add(unique=a_key("k", DEBOUNCE), args=["new"], run_after=store.clock() + 5)
        assert (answer.status, await store.state(first)) == ("replaced", "scheduled")
        assert await store.counts() == {"ready": 0, "scheduled": 1, "leased": 0, "dead": 0, "paused": False}

    async def test_a_running_job_is_not_replaced_but_followed(self, store: Bench):
        first = await store.add(unique=a_key("k", DEBOUNCE), args=["old"])
        claim = await store.claim_one()
        second = await store.add(unique=a_key("k", DEBOUNCE), args=["new"])
        assert claim.job.args == ["old"]
        assert ids(await store.claim()) == [second.id]
        assert await store.state(first) == "leased"

    async def test_another_mode_is_no_partner(self, store: Bench):
        first = await store.add(unique=a_key("k", UNTIL_DONE), args=["old"])
        answer = await store.try_add(unique=a_key("k", DEBOUNCE), args=["new"])
        assert (answer.status, answer.job_id) == ("duplicate", first.id)
        assert (await store.get(first)).job.args == ["old"]

    async def test_calls_within_one_batch_replace_each_other(self, store: Bench):
        jobs = [store.job(unique=a_key("k", DEBOUNCE), args=[number]) for number in range(3)]
        answers = await store.client.aadd(jobs)
        assert [answer.status for answer in answers] == ["added", "replaced", "replaced"]
        [claim] = await store.claim()
        assert (claim.lease.job_id, claim.job.args) == (jobs[0].id, [2])


class TestUniqueThroughEveryPath:
    @every_mode
    async def test_cancelling_a_waiting_job_gives_the_key_back(self, store: Bench, unique: Unique):
        job = await store.add(unique=unique)
        await store.client.acancel(job.id)
        assert await is_free(store)

    @every_mode
    @pytest.mark.parametrize("delay", [0, 60], ids=["ready", "scheduled"])
    async def test_deleting_a_waiting_job_gives_the_key_back(self, store: Bench, unique: Unique, delay: int):
        await store.add(unique=unique, run_after=store.clock() + delay)
        state = JobState.SCHEDULED if delay else JobState.READY
        assert await store.admin.delete(JobFilter(state=state)) == 1
        assert await is_free(store)

    async def test_a_promoted_job_keeps_its_key(self, store: Bench):
        await store.add(unique=a_key("k"), run_after=store.clock() + 1)
        await store.advance(2)
        await store.pulse()
        assert not await is_free(store)

    async def test_a_redriven_letter_takes_its_key_again(self, store: Bench):
        job = await store.bury(unique=a_key("k"))
        [answer] = await store.redrive(job)
        assert answer.status == "added"
        assert not await is_free(store)

    async def test_a_letter_whose_key_is_taken_stays(self, store: Bench):
        dead = await store.bury(unique=a_key("k"))
        other = await store.add(unique=a_key("k"))
        [answer] = await store.redrive(dead)
        assert (answer.status, answer.job_id) == ("duplicate", other.id)
        assert [letter.id for letter in await store.letters()] == [dead.id]

    async def test_a_fired_job_takes_its_key(self, store: Bench):
        job = store.job(unique=a_key("k"))
        await store.worker.fire(Firing(entry="nightly", slot=store.clock(), expected=None, job=job))
        assert not await is_free(store)

    async def test_a_job_that_never_held_the_key_does_not_give_it_back(self, store: Bench):
        holder = await store.add(unique=a_key("k"), run_after=store.clock() + 1000)
        await store.inject("default", encode(store.job(unique=a_key("k"))))
        await store.succeed(await store.claim_one())
        answer = await store.try_add(unique=a_key("k"))
        assert (answer.status, answer.job_id) == ("duplicate", holder.id)

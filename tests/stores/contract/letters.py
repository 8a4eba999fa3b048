"""Dead letters: kept up to a cap, found, grouped, enqueued again, removed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_vtasks.jobs.codec import decode
from django_vtasks.jobs.model import DeadReason, JobState, UniqueMode
from django_vtasks.jobs.outcomes import Discarded
from django_vtasks.stores.base import JobFilter, Redrive, Retention
from tests.stores.bench import KEPT, Bench, about, ids
from tests.support.builders import a_failure, a_key, a_letter, raised, settled


class TestDeadLetters:
    async def test_a_letter_keeps_the_job_and_what_went_wrong(self, store: Bench):
        await store.add(args=["x"], kwargs={"y": [1]}, priority=4)
        await store.retry(await store.claim_one())
        await store.advance(30)
        await store.fail(await store.claim_one(), "second")
        [letter] = await store.letters()
        assert (letter.job.args, letter.job.kwargs, letter.job.priority, letter.queue) == (
            ["x"],
            {"y": [1]},
            4,
            "default",
        )
        assert letter.failure == a_failure("second")
        assert [attempt.failure.message for attempt in letter.job.attempts] == ["boom", "second"]
        assert (letter.first_failed_at, letter.failed_at) == (about(store.clock() - 30), about(store.clock()))
        assert decode(letter.raw).args == ["x"]

    async def test_a_very_long_traceback_is_kept(self, store: Bench):
        await store.bury(failure={"traceback": "x" * 300_000})
        [letter] = await store.letters()
        assert len(letter.failure.traceback) == 300_000

    async def test_text_that_utf8_cannot_say_is_kept_escaped(self, store: Bench):
        await store.bury(message="bad \ud800 \x00 text")
        [letter] = await store.letters()
        assert letter.failure.message == "bad \\ud800 \x00 text"

    async def test_the_newest_letter_comes_first(self, store: Bench):
        jobs = [await store.bury(args=[number]) for number in range(4)]
        assert [letter.id for letter in await store.letters()] == ids(jobs)[::-1]

    async def test_they_are_found_by_queue_task_text_reason_group_and_id(self, store: Bench):
        one = await store.bury(args=["needle"], queue="mail")
        two = await store.bury(func="app.other", failure={"exception_class": "KeyError", "fingerprint": "other"})
        three = await store.add()
        await store.client.acancel(three.id)
        found = {
            "queue": ({"queue": "mail"}, [one]),
            "func": ({"func": "app.other"}, [two]),
            "text": ({"text": "needle"}, [one]),
            "text_in_path": ({"text": "app.oth"}, [two]),
            "reason": ({"reason": "cancelled"}, [three]),
            "fingerprint": ({"fingerprint": "other"}, [two]),
            "ids": ({"ids": (three.id, one.id)}, [three, one]),
            "nothing": ({"queue": "mail", "func": "app.other"}, []),
        }
        for which, jobs in found.values():
            assert [letter.id for letter in await store.letters(**which)] == ids(jobs), which


class TestDeadLetterCap:
    """Invariant 13. The bench's stores keep ten letters."""

    async def test_the_oldest_are_evicted_and_counted(self, store: Bench):
        cap = store.dead_letter_cap
        jobs = [await store.bury(args=[number]) for number in range(cap)]
        await store.add_all([store.job() for _ in range(3)])
        claims = await store.claim(3)
        round_ = await store.exchange([settled(claim, raised(), KEPT, store.clock()) for claim in claims])
        assert round_.evicted == 3
        kept = [letter.id for letter in await store.letters()]
        assert len(kept) == cap
        assert set(ids(jobs[3:])) <= set(kept)

    async def test_below_the_cap_nothing_is_evicted(self, store: Bench):
        await store.add()
        claim = await store.claim_one()
        assert (await store.exchange([settled(claim, raised(), KEPT, store.clock())])).evicted == 0

    async def test_an_evicted_letters_result_stays_its_time(self, store: Bench):
        first = await store.bury()
        for _ in range(store.dead_letter_cap):
            await store.bury()
        record = await store.get(first)
        assert (record.state, record.letter) == ("dead", None)
        assert record.job.attempts[-1].failure.message == "boom"

    async def test_the_purge_keeps_to_a_smaller_cap(self, store: Bench):
        jobs = [await store.bury() for _ in range(5)]
        assert (await store.worker.purge(Retention(dead_letter_cap=2), 1000)).dead_letters == 3
        assert [letter.id for letter in await store.letters()] == [jobs[4].id, jobs[3].id]

    async def test_the_purge_removes_letters_beyond_an_age(self, store: Bench):
        await store.bury()
        await store.advance(100)
        young = await store.bury()
        assert (await store.worker.purge(Retention(dead_letter_age=50), 1000)).dead_letters == 1
        assert [letter.id for letter in await store.letters()] == [young.id]

    async def test_the_purge_removes_no_more_than_its_limit(self, store: Bench):
        for _ in range(5):
            await store.bury()
        assert (await store.worker.purge(Retention(dead_letter_cap=0), 2)).dead_letters == 2
        assert len(await store.letters()) == 3

    async def test_letters_of_any_age_are_kept_when_no_age_is_given(self, store: Bench):
        await store.bury()
        await store.advance(1_000_000)
        assert (await store.worker.purge(Retention(), 1000)).dead_letters == 0


class TestRedrive:
    async def test_a_letter_becomes_a_new_job_that_knows_the_old_one(self, store: Bench):
        dead = await store.bury(args=["x"], kwargs={"y": 1}, priority=2)
        [answer] = await store.redrive(dead)
        assert (answer.status, answer.job_id != dead.id) == ("added", True)
        assert await store.letters() == []
        claim = await store.claim_one()
        assert (claim.lease.job_id, claim.job.retry_of) == (answer.job_id, dead.id)
        assert (claim.job.args, claim.job.kwargs, claim.job.priority) == (["x"], {"y": 1}, 2)

    async def test_nothing_counts_against_the_new_job(self, store: Bench):
        await store.add()
        await store.retry(await store.claim_one())
        claim = await store.claim_one()
        await store.fail(claim)
        await store.redrive(claim.job)
        job = (await store.claim_one()).job
        assert (job.starts, job.failures, job.rescue_count, job.attempts) == (0, 0, 0, ())

    async def test_arguments_and_queue_may_be_changed(self, store: Bench):
        dead = await store.bury(args=["bad"], kwargs={"old": 1})
        await store.redrive(dead, args=["good"], kwargs={"new": 2}, queue="mail")
        claim = await store.claim_one(queue="mail")
        assert (claim.job.args, claim.job.kwargs, claim.job.queue) == (["good"], {"new": 2}, "mail")

    async def test_delays_spread_the_new_jobs(self, store: Bench):
        dead = [await store.bury(args=[number]) for number in range(3)]
        answers = await store.redrive(*dead, delays=[0, 10, 20])
        assert [await store.state(answer.job_id) for answer in answers] == ["ready", "scheduled", "scheduled"]
        await store.advance(15)
        await store.pulse()
        assert ids(await store.claim()) == [answers[0].job_id, answers[1].job_id]

    async def test_a_letter_is_redriven_once(self, store: Bench):
        dead = await store.bury()
        answers = await store.redrive(dead, dead)
        assert [answer.status for answer in answers] == ["added", "duplicate"]
        assert len(await store.claim()) == 1

    async def test_what_is_no_letter_is_left_alone(self, store: Bench):
        ready = await store.add()
        answers = await store.admin.redrive([ready.id, store.client.new_id(), "nonsense"], Redrive())
        assert [(answer.status, answer.job_id) for answer in answers] == [("duplicate", None)] * 3
        assert ids(await store.claim()) == [ready.id]

    async def test_an_undecodable_letter_stays_with_its_bytes(self, store: Bench):
        await store.inject("default", b"\xff\xfe garbage")
        await store.fail(await store.claim_one())
        [letter] = await store.letters()
        [answer] = await store.admin.redrive([letter.id], Redrive())
        assert (answer.status, answer.job_id) == ("duplicate", None)
        assert [kept.raw for kept in await store.letters()] == [b"\xff\xfe garbage"]

    async def test_other_letters_stay(self, store: Bench):
        one, two = await store.bury(), await store.bury()
        await store.redrive(one)
        assert [letter.id for letter in await store.letters()] == [two.id]

    async def test_each_of_many_is_answered_in_its_place(self, store: Bench):
        one, two = await store.bury(args=[1]), await store.bury(args=[2])
        asked = [two.id, store.client.new_id(), one.id, two.id]
        answers = await store.admin.redrive(asked, Redrive(delays=[0, 0, 30]))
        assert [answer.status for answer in answers] == ["added", "duplicate", "added", "duplicate"]
        new_two, new_one = await store.get(answers[0].job_id), await store.get(answers[2].job_id)
        assert (new_two.job.retry_of, new_two.state) == (two.id, "ready")
        assert (new_one.job.retry_of, new_one.state) == (one.id, "scheduled")
        assert await store.letters() == []

    async def test_of_two_letters_with_one_unique_key_the_first_goes_and_the_second_stays(self, store: Bench):
        one, two = await store.bury(unique=a_key()), await store.bury(unique=a_key())
        other = await store.bury()
        first, second, third = await store.redrive(one, two, other)
        assert [first.status, second.status, third.status] == ["added", "duplicate", "added"]
        assert second.job_id == first.job_id
        assert [letter.id for letter in await store.letters()] == [two.id]

    async def test_letters_that_debounce_become_one_job(self, store: Bench):
        letters = [await store.bury(args=[number], unique=a_key("k", UniqueMode.DEBOUNCE)) for number in range(3)]
        answers = await store.redrive(*letters)
        assert [answer.status for answer in answers] == ["added", "replaced", "replaced"]
        assert await store.letters() == []
        assert (await store.claim_one()).job.args == [2]

    async def test_the_old_result_stays_its_time(self, store: Bench):
        dead = await store.bury()
        await store.redrive(dead)
        assert await store.state(dead) == "dead"

    async def test_a_job_that_expired_runs_when_redriven(self, store: Bench):
        dead = await store.bury(expires_at=store.clock() + 5)
        await store.redrive(dead)
        assert (await store.claim_one()).job.expires_at is None

    async def test_letters_are_removed_by_their_ids(self, store: Bench):
        one, two, three = [await store.bury(queue=queue) for queue in ("default", "mail", "default")]
        which = JobFilter(state=JobState.DEAD, queue="default", ids=(one.id, two.id, store.client.new_id()))
        assert await store.admin.delete(which) == 1
        assert [letter.id for letter in await store.letters()] == [three.id, two.id]


class TestRestore:
    async def test_exported_letters_come_back_as_they_were(self, store: Bench):
        await store.bury(args=["x"])
        [letter] = await store.letters()
        await store.admin.delete(JobFilter(state=JobState.DEAD))
        assert await store.admin.restore([letter]) == 1
        [again] = await store.letters()
        assert replace(again, raw=b"") == replace(letter, raw=b"")
        assert (await store.get(letter.id)).state == "dead"

    async def test_bytes_that_are_no_job_come_back_too(self, store: Bench):
        letter = a_letter(
            id=store.client.new_id(), raw=b"\x00\xff", job=None, reason=DeadReason.UNDECODABLE, queue="mail"
        )
        assert await store.admin.restore([letter]) == 1
        assert await store.letters() == [letter]

    async def test_a_letter_that_is_there_is_not_put_in_twice(self, store: Bench):
        await store.bury()
        [letter] = await store.letters()
        assert await store.admin.restore([letter, letter]) == 0
        assert len(await store.letters()) == 1


class TestLetterGroups:
    async def test_letters_that_look_alike_are_one_group(self, store: Bench):
        for _ in range(3):
            await store.bury(failure={"fingerprint": "common"})
            await store.advance(10)
        await store.bury(message="odd", failure={"fingerprint": "rare"})
        common, odd = await store.admin.letter_groups()
        assert (common.fingerprint, common.count, odd.fingerprint, odd.count) == ("common", 3, "rare", 1)
        assert (odd.message, odd.exception_class) == ("odd", "builtins.ValueError")
        assert common.func == "tests.project.tasks.add"
        assert (common.first_failed_at, common.last_failed_at) == (
            about(store.clock() - 30),
            about(store.clock() - 10),
        )

    async def test_the_largest_groups_come_first_up_to_a_limit(self, store: Bench):
        for name, count in {"one": 1, "three": 3, "two": 2}.items():
            for _ in range(count):
                await store.bury(failure={"fingerprint": name})
        assert [group.fingerprint for group in await store.admin.letter_groups(limit=2)] == ["three", "two"]

    async def test_without_letters_there_are_no_groups(self, store: Bench):
        assert await store.admin.letter_groups() == []

    async def test_one_group_is_redriven_without_touching_the_others(self, store: Bench):
        common = [await store.bury(failure={"fingerprint": "common"}) for _ in range(3)]
        rare = await store.bury(failure={"fingerprint": "rare"})
        letters = await store.letters(fingerprint="common")
        assert sorted(letter.id for letter in letters) == sorted(ids(common))
        await store.admin.redrive([letter.id for letter in letters], Redrive())
        assert [letter.id for letter in await store.letters()] == [rare.id]


class TestDelete:
    @pytest.mark.parametrize("state", [state for state in JobState if state != "leased"])
    async def test_jobs_of_one_state_are_removed_with_all_that_is_known_of_them(self, store: Bench, state: JobState):
        jobs = await one_in_every_state(store)
        assert await store.admin.delete(JobFilter(state=state)) == 1
        left = {name: await store.state(job) for name, job in jobs.items()}
        assert left == {name: None if name == state else name for name in jobs}

    async def test_a_leased_job_is_never_removed(self, store: Bench):
        await store.add()
        claim = await store.claim_one()
        assert await store.admin.delete(JobFilter(state=JobState.LEASED)) == 0
        await store.succeed(claim)

    async def test_only_the_jobs_meant_are_removed(self, store: Bench):
        one, two = await store.add(queue="mail", args=["x"]), await store.add()
        three = await store.add(func="app.other")
        assert await store.admin.delete(JobFilter(state=JobState.READY, queue="mail")) == 1
        assert await store.admin.delete(JobFilter(state=JobState.READY, func="app.other")) == 1
        assert await store.admin.delete(JobFilter(state=JobState.READY, ids=(one.id, three.id))) == 0
        assert ids(await store.claim()) == [two.id]

    async def test_no_more_than_the_limit_are_removed(self, store: Bench):
        await store.add_all([store.job() for _ in range(5)])
        assert await store.admin.delete(JobFilter(state=JobState.READY), 2) == 2
        assert len(await store.claim()) == 3

    async def test_a_deleted_job_may_be_added_again(self, store: Bench):
        job = await store.add()
        await store.admin.delete(JobFilter(state=JobState.READY))
        await store.add_all([job])
        assert ids(await store.claim()) == [job.id]


async def one_in_every_state(store: Bench) -> dict[str, object]:
    jobs = {
        "dead": await store.bury(),
        "succeeded": await store.add(),
        "discarded": await store.add(),
        "leased": await store.add(),
    }
    succeeded, discarded, _ = await store.claim()
    await store.succeed(succeeded)
    await store.settle(discarded, Discarded(failure=a_failure()))
    jobs["ready"] = await store.add()
    jobs["scheduled"] = await store.add(run_after=store.clock() + 60)
    return jobs

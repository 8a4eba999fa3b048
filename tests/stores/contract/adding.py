"""Adding, reading and cancelling jobs: what application code does."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_vtasks.jobs.errors import CodecError
from django_vtasks.jobs.model import JobState, UniqueMode
from django_vtasks.jobs.outcomes import Cancelled
from tests.stores.bench import Bench, about, ids
from tests.support.builders import a_failure, a_key

MALFORMED_IDS = ["", "nope", "é" * 40, "0" * 10_000, "a\x00b", "../../etc", "00000000-0000-0000-0000-00000000000g"]


class TestAdd:
    async def test_a_job_is_ready_at_once(self, store: Bench):
        job = await store.add()
        assert await store.state(job) == "ready"
        assert ids(await store.claim()) == [job.id]

    async def test_a_job_comes_back_as_it_was_added(self, store: Bench):
        job = store.job(
            func="app.tasks.send",
            args=[1, -2.5, None, True, "é\u2028\U0001f600\x00", [{"deep": [[]]}]],
            kwargs={"to": {"a": 1}, "": "empty key"},
            priority=-7,
            unique=a_key("k", UniqueMode.UNTIL_DONE),
            max_rescues=3,
            result_ttl=12.5,
            expires_at=store.clock() + 1000.5,
            retry_of="another",
            metadata={"step": 2},
            trace={"traceparent": "00-aa-bb-01"},
            extra={"shiny": [1]},
        )
        await store.add_all([job])
        assert (await store.get(job)).job == job
        claim = await store.claim_one()
        assert claim.job == job

    async def test_a_job_with_a_delay_is_scheduled(self, store: Bench):
        job = await store.add(run_after=store.clock() + 0.5)
        assert await store.state(job) == "scheduled"
        assert await store.claim() == []
        assert (await store.get(job)).job.run_after == about(store.clock() + 0.5)

    async def test_a_job_whose_time_has_come_is_ready(self, store: Bench):
        past, now = await store.add(run_after=store.clock() - 5), await store.add(run_after=store.clock())
        assert ids(await store.claim()) == [past.id, now.id]

    async def test_nothing_is_added_for_nothing(self, store: Bench):
        assert await store.client.aadd([]) == []

    async def test_jobs_of_one_call_keep_their_order(self, store: Bench):
        jobs = await store.add_all([store.job(args=[number]) for number in range(30)])
        assert ids(await store.claim(30)) == ids(jobs)

    async def test_jobs_of_one_call_may_go_to_several_queues(self, store: Bench):
        jobs = await store.add_all([store.job(queue=queue) for queue in ("left", "right", "left")])
        assert ids(await store.claim(queue="left")) == [jobs[0].id, jobs[2].id]
        assert ids(await store.claim(queue="right")) == [jobs[1].id]

    async def test_the_sync_twin_does_the_same(self, store: Bench):
        job = store.job(run_after=store.clock() + 1)
        [added] = await store.sync.add([job])
        assert (added.status, added.job_id) == ("added", job.id)
        assert await store.sync.get(job.id) == await store.client.aget(job.id)
        assert await store.sync.cancel(job.id) == "cancelled"

    async def test_a_thousand_jobs_are_added_in_one_call(self, store: Bench):
        jobs = await store.add_all([store.job(args=[number]) for number in range(1000)])
        assert (await store.counts())["ready"] == 1000
        assert ids(await store.claim(1000)) == ids(jobs)

    async def test_large_arguments_survive_compressed_or_not(self, store: Bench):
        noise = random.Random(1).randbytes(50_000).hex()
        job = await store.add(args=[noise, "a" * 200_000])
        assert (await store.claim_one()).job == job

    async def test_a_value_that_is_not_json_is_refused_and_leaves_nothing_behind(self, store: Bench):
        good, bad = store.job(unique=a_key("good")), store.job(args=[object()], unique=a_key("bad"))
        with pytest.raises(CodecError):
            await store.client.aadd([good, bad])
        assert await store.counts() == {"ready": 0, "scheduled": 0, "leased": 0, "dead": 0, "paused": False}
        assert (await store.try_add(unique=a_key("bad"))).status == "added"

    async def test_every_new_id_is_another(self, store: Bench):
        assert len({store.client.new_id() for _ in range(1000)}) == 1000

    async def test_many_threads_add_at_once(self, store: Bench):
        batches = [[store.job(args=[thread, number]) for number in range(20)] for thread in range(5)]

        def run(batch):
            try:
                return [answer for job in batch for answer in store.client.add([job])]
            finally:
                store.end_thread()

        with ThreadPoolExecutor(5) as pool:
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.run_in_executor(pool, run, batch) for batch in batches))
        assert sorted(ids(await store.claim(200))) == sorted(job.id for batch in batches for job in batch)

    async def test_many_coroutines_add_at_once(self, store: Bench):
        jobs = [store.job(args=[number]) for number in range(50)]
        answers = await asyncio.gather(*(store.client.aadd([job]) for job in jobs))
        assert [answer.job_id for [answer] in answers] == ids(jobs)
        assert sorted(ids(await store.claim(100))) == sorted(ids(jobs))


class TestAddAgain:
    """An enqueue whose reply was lost is sent once more: the id decides that it is the same job."""

    async def test_a_waiting_job_is_added_once(self, store: Bench):
        ready, scheduled = await store.add(), await store.add(run_after=store.clock() + 5)
        await store.add_all([ready, scheduled])
        assert await store.counts() == {"ready": 1, "scheduled": 1, "leased": 0, "dead": 0, "paused": False}

    async def test_the_same_id_twice_in_one_call_is_one_job(self, store: Bench):
        job = store.job()
        await store.add_all([job, job])
        assert ids(await store.claim()) == [job.id]

    async def test_a_running_job_is_not_added_again(self, store: Bench):
        job = await store.add()
        await store.claim_one()
        await store.add_all([job])
        assert (await store.state(job), await store.claim()) == ("leased", [])

    async def test_a_finished_job_is_not_run_again_while_its_result_is_kept(self, store: Bench):
        job = await store.add()
        await store.succeed(await store.claim_one(), b"1")
        await store.add_all([job])
        assert (await store.state(job), await store.claim()) == ("succeeded", [])

    async def test_a_job_that_holds_its_own_key_is_no_duplicate(self, store: Bench):
        job = await store.add(unique=a_key())
        await store.add_all([job])
        assert ids(await store.claim()) == [job.id]

    async def test_a_first_try_that_landed_keeps_its_arguments(self, store: Bench):
        job = await store.add(args=["first"])
        await store.add_all([store.job(id=job.id, args=["second"])])
        assert (await store.get(job)).job.args == ["first"]


class TestGet:
    async def test_nothing_is_known_of_a_job_that_never_was(self, store: Bench):
        assert await store.client.aget(store.client.new_id()) is None

    @pytest.mark.parametrize("job_id", MALFORMED_IDS, ids=range(len(MALFORMED_IDS)))
    async def test_nothing_is_known_of_a_malformed_id(self, store: Bench, job_id: str):
        assert await store.client.aget(job_id) is None
        assert await store.sync.get(job_id) is None

    async def test_a_running_job_says_who_runs_it_and_since_when(self, store: Bench):
        job = await store.add()
        await store.advance(5)
        await store.claim_one(owner="beta")
        record = await store.get(job)
        assert record.state == "leased"
        assert (record.running.worker_id, record.running.started_at) == ("beta", about(store.clock()))
        assert record.worker_ids == ("beta",)

    async def test_a_waiting_job_has_no_value_and_no_end(self, store: Bench):
        record = await store.get(await store.add())
        assert (record.value, record.finished_at, record.running, record.letter) == (None, None, None, None)

    async def test_a_retried_job_tells_of_its_attempts(self, store: Bench):
        job = await store.add()
        await store.retry(await store.claim_one(), delay=5)
        record = await store.get(job)
        assert record.state == "scheduled"
        assert [attempt.outcome for attempt in record.job.attempts] == ["raised"]
        assert record.last_attempted_at == about(store.clock())


class TestRemember:
    """Duplicates that come out after a commit, when their ids are known elsewhere."""

    async def remembered(self, store: Bench):
        if store.client.transactional:
            pytest.skip("what is enqueued in the transaction is known to be a duplicate when it is enqueued")
        job, duplicate = await store.add(unique=a_key()), store.job(unique=a_key())
        [answer] = await store.client.aadd([duplicate])
        assert await store.client.aget(duplicate.id) is None
        await store.sync.remember({duplicate.id: answer.job_id})
        return job, duplicate

    async def test_the_id_of_a_duplicate_finds_the_job_that_stands_for_it(self, store: Bench):
        job, duplicate = await self.remembered(store)
        record = await store.get(duplicate)
        assert (record.job.id, record.state, record.stands_for) == (job.id, "ready", duplicate.id)
        assert (await store.get(job)).stands_for is None
        claim = await store.claim_one()
        assert (await store.get(duplicate)).state == "leased"
        await store.succeed(claim, b"7")
        record = await store.get(duplicate)
        assert (record.value, record.stands_for) == (b"7", duplicate.id)
        await store.advance(601)
        assert await store.client.aget(duplicate.id) is None

    async def test_the_id_of_a_duplicate_cancels_the_job_that_stands_for_it(self, store: Bench):
        job, duplicate = await self.remembered(store)
        assert await store.client.acancel(duplicate.id) == "cancelled"
        assert (await store.get(job)).letter.reason == "cancelled"

    async def test_the_id_of_a_duplicate_is_no_job_for_operators(self, store: Bench):
        _, duplicate = await self.remembered(store)
        assert await store.admin.standing(duplicate.id) is None
        assert (await store.counts())["ready"] == 1


class TestCancel:
    @pytest.mark.parametrize("delay", [None, 60], ids=["ready", "scheduled"])
    async def test_a_waiting_job_becomes_a_dead_letter_and_never_starts(self, store: Bench, delay: int | None):
        job = await store.add(run_after=store.clock() + delay if delay else None)
        assert await store.client.acancel(job.id) == "cancelled"
        await store.advance(61)
        await store.pulse()
        assert await store.claim() == []
        record = await store.get(job)
        assert (record.state, record.letter.reason) == ("dead", "cancelled")
        assert record.letter.failure.exception_class == "django_vtasks.jobs.errors.JobCancelled"
        assert await store.counts() == {"ready": 0, "scheduled": 0, "leased": 0, "dead": 1, "paused": False}

    async def test_the_letter_of_a_cancelled_job_has_its_arguments(self, store: Bench):
        job = await store.add(args=["precious"])
        await store.client.acancel(job.id)
        [letter] = await store.letters()
        assert (letter.id, letter.job.args, letter.failed_at) == (job.id, ["precious"], about(store.clock()))

    async def test_the_outcome_of_a_cancelled_job_stays_as_long_as_any_result_when_its_letter_is_gone(
        self, store: Bench
    ):
        """Whether it waited or ran, it has failed with the error of ours."""
        waiting, running = await store.add(result_ttl=60), await store.add(result_ttl=60)
        await store.client.acancel(waiting.id)
        await store.settle(await store.claim_one(), Cancelled(failure=a_failure("stopped")))
        await store.redrive(waiting, running)
        assert await store.letters() == []
        await store.advance(59)
        assert [await store.state(job) for job in (waiting, running)] == ["dead", "dead"]
        await store.advance(2)
        assert [await store.state(job) for job in (waiting, running)] == [None, None]

    async def test_others_of_the_queue_stay(self, store: Bench):
        first, second, third = [await store.add(priority=number) for number in (0, 0, 5)]
        await store.client.acancel(second.id)
        assert ids(await store.claim()) == [third.id, first.id]

    async def test_the_worker_of_a_running_job_is_told(self, store: Bench):
        job, other = await store.add(), await store.add()
        claim, _ = await store.claim()
        assert await store.client.acancel(job.id) == "requested"
        assert (await store.pulse("alpha")).cancelled == {claim.lease.token}
        assert (await store.pulse("beta")).cancelled == frozenset()
        assert (await store.state(job), await store.state(other)) == ("leased", "leased")

    async def test_a_request_is_repeated_until_the_job_ends(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.client.acancel(job.id)
        assert (await store.pulse()).cancelled == (await store.pulse()).cancelled == {claim.lease.token}
        await store.succeed(claim)
        assert (await store.pulse()).cancelled == frozenset()

    async def test_a_request_reaches_the_next_attempt_too(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.client.acancel(job.id)
        await store.retry(claim)
        again = await store.claim_one(owner="beta")
        assert (await store.pulse("beta")).cancelled == {again.lease.token}

    async def test_an_ended_job_is_left_alone(self, store: Bench):
        done, dead = await store.add(), await store.add()
        first, second = await store.claim()
        await store.succeed(first)
        await store.fail(second)
        assert await store.client.acancel(done.id) == "finished"
        assert await store.client.acancel(dead.id) == "finished"
        assert (await store.state(done), (await store.get(dead)).letter.reason) == ("succeeded", "failed")

    async def test_cancelling_twice_buries_once(self, store: Bench):
        job = await store.add()
        assert await store.client.acancel(job.id) == "cancelled"
        assert await store.client.acancel(job.id) == "finished"
        assert len(await store.letters()) == 1

    @pytest.mark.parametrize("job_id", [*MALFORMED_IDS, "1" * 32], ids=range(len(MALFORMED_IDS) + 1))
    async def test_an_unknown_job_is_reported_as_such(self, store: Bench, job_id: str):
        assert await store.client.acancel(job_id) == "unknown"

    async def test_a_cancelled_job_is_not_listed_as_waiting(self, store: Bench):
        job = await store.add()
        await store.client.acancel(job.id)
        assert await store.records(JobState.READY) == []

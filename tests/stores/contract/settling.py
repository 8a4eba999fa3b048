"""Settling: a decision is written once, by the holder of the lease, whole."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from django_vtasks.jobs.model import UniqueMode
from django_vtasks.jobs.outcomes import Discarded, Interrupted, LeaseExpired, Snoozed, Succeeded, Untouched
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import Retention
from tests.stores.bench import KEPT, LEASE, Bench, about, ids
from tests.support.builders import a_failure, a_key, raised, settled

FORGETFUL = Policy(max_attempts=3, result_ttl=0)


class TestSettle:
    async def test_a_success_keeps_the_result(self, store: Bench):
        job = await store.add(args=["x"])
        claim = await store.claim_one()
        await store.advance(2)
        await store.succeed(claim, b'{"answer":42}')
        record = await store.get(job)
        assert (record.state, record.value, record.finished_at) == (
            "succeeded",
            b'{"answer":42}',
            about(store.clock()),
        )
        assert (record.job.func, record.job.args, record.running) == (job.func, ["x"], None)

    async def test_a_success_keeps_who_did_it_and_when(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        await store.advance(2)
        await store.succeed(claim)
        record = await store.get(job)
        [attempt] = record.job.attempts
        assert (attempt.worker_id, attempt.outcome) == ("alpha", "succeeded")
        assert (attempt.started_at, attempt.ended_at) == (about(store.clock() - 2), about(store.clock()))

    async def test_a_success_keeps_that_it_had_been_told_to_stop(self, store: Bench):
        job = await store.add()
        late = Succeeded(value=b"1", despite=a_failure("too long"))
        assert await store.settle(await store.claim_one(), late)
        record = await store.get(job)
        assert (record.state, record.value) == ("succeeded", b"1")
        assert record.job.attempts[-1].failure == a_failure("too long")

    async def test_a_settled_job_is_nowhere_else(self, store: Bench):
        """Invariant 1."""
        await store.add()
        await store.succeed(await store.claim_one())
        assert await store.counts() == {"ready": 0, "scheduled": 0, "leased": 0, "dead": 0, "paused": False}

    async def test_a_discarded_job_ends_without_a_letter(self, store: Bench):
        job = await store.add()
        assert await store.settle(await store.claim_one(), Discarded(failure=a_failure("not wanted")))
        record = await store.get(job)
        assert (record.state, record.value, record.letter) == ("discarded", None, None)
        assert record.job.attempts[-1].failure.message == "not wanted"
        assert await store.letters() == []

    async def test_a_failed_job_becomes_a_dead_letter(self, store: Bench):
        job = await store.add(args=["x"])
        await store.fail(await store.claim_one(), "boom")
        record = await store.get(job)
        assert (record.state, record.letter.reason, record.letter.failure.message) == ("dead", "failed", "boom")
        assert record.job.attempts[-1].failure == a_failure("boom")

    async def test_many_settlements_are_written_in_one_call(self, store: Bench):
        jobs = await store.add_all([store.job() for _ in range(60)])
        claims = await store.claim(60)
        outcomes = [Succeeded(value=b"1"), raised(delay=5), raised()]
        batch = [settled(claim, outcomes[n % 3], KEPT, store.clock()) for n, claim in enumerate(claims)]
        assert (await store.exchange(batch)).refused == frozenset()
        states = [await store.state(job) for job in jobs]
        assert states == ["succeeded", "scheduled", "dead"] * 20

    async def test_settlements_come_before_claims_of_the_same_call(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        back = settled(claim, Untouched(), KEPT, store.clock())
        [again] = (await store.exchange([back], default=5)).claims
        assert (again.lease.job_id, again.job) == (job.id, job)
        assert again.lease.token != claim.lease.token

    async def test_an_empty_round_does_nothing(self, store: Bench):
        round_ = await store.exchange()
        assert (round_.claims, round_.refused, round_.evicted) == ((), frozenset(), 0)

    async def test_a_large_return_value_survives(self, store: Bench):
        job = await store.add()
        value = b'"' + b"v" * 300_000 + b'"'
        await store.succeed(await store.claim_one(), value)
        assert (await store.get(job)).value == value


class TestRequeue:
    async def test_a_delayed_retry_waits_by_the_stores_clock(self, store: Bench):
        job = await store.add()
        await store.retry(await store.claim_one(), delay=30)
        assert await store.state(job) == "scheduled"
        await store.advance(29.9)
        await store.pulse()
        assert await store.claim() == []
        await store.advance(0.2)
        await store.pulse()
        assert ids(await store.claim()) == [job.id]

    async def test_a_retry_without_a_delay_goes_to_the_back(self, store: Bench):
        job, other = await store.add(), await store.add()
        await store.retry(await store.claim_one())
        assert ids(await store.claim()) == [other.id, job.id]

    @pytest.mark.parametrize("outcome", [Interrupted(), Untouched()], ids=["interrupted", "untouched"])
    async def test_a_job_that_was_handed_back_goes_to_the_front_of_its_priority(self, store: Bench, outcome):
        job, other = await store.add(), await store.add()
        urgent = await store.add(priority=1)
        await store.succeed(await store.claim_one())
        claim = await store.claim_one()
        assert claim.lease.job_id == job.id
        late_urgent = await store.add(priority=1)
        assert await store.settle(claim, outcome)
        assert ids(await store.claim()) == [late_urgent.id, job.id, other.id]
        assert await store.state(urgent) == "succeeded"

    async def test_the_next_attempt_knows_the_ones_before(self, store: Bench):
        await store.add()
        await store.retry(await store.claim_one())
        assert await store.settle(await store.claim_one(owner="beta"), Snoozed(delay=0))
        claim = await store.claim_one()
        assert (claim.job.starts, claim.job.failures) == (2, 1)
        assert [(one.worker_id, one.outcome) for one in claim.job.attempts] == [
            ("alpha", "raised"),
            ("beta", "snoozed"),
        ]
        assert claim.job.attempts[0].failure == a_failure("boom")

    async def test_the_job_is_the_same_but_for_its_history(self, store: Bench):
        job = await store.add(args=["x"], kwargs={"y": 1}, priority=3, unique=a_key(), result_ttl=5, trace={"t": "1"})
        await store.retry(await store.claim_one())
        claim = await store.claim_one()
        assert replace(claim.job, starts=0, failures=0, attempts=()) == job

    async def test_metadata_of_the_decision_reaches_the_next_attempt(self, store: Bench):
        await store.add()
        claim = await store.claim_one()
        claim = replace(claim, job=replace(claim.job, metadata={"step": 3}))
        await store.retry(claim)
        assert (await store.claim_one()).job.metadata == {"step": 3}


class TestFence:
    """Invariant 2: only the current token settles, and a refused settlement changes nothing."""

    async def test_the_second_settlement_of_one_token_is_refused_and_harmless(self, store: Bench):
        """Invariant 8."""
        job = await store.add()
        claim = await store.claim_one()
        await store.succeed(claim, b'"first"')
        assert not await store.settle(claim, Succeeded(value=b'"second"'))
        assert not await store.settle(claim, raised())
        assert (await store.get(job)).value == b'"first"'
        assert await store.letters() == []

    async def test_the_same_token_twice_in_one_call_is_written_once(self, store: Bench):
        await store.add()
        claim = await store.claim_one()
        batch = [settled(claim, Succeeded(value=value), KEPT, store.clock()) for value in (b"1", b"2")]
        assert (await store.exchange(batch)).refused <= {claim.lease.token}
        assert (await store.get(claim.lease.job_id)).value == b"1"

    async def test_a_token_nobody_has_is_refused(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        forged = replace(claim, lease=replace(claim.lease, token="no-such-token"))
        assert not await store.settle(forged, Succeeded())
        assert await store.state(job) == "leased"

    async def test_a_refused_settlement_does_not_hold_up_the_others(self, store: Bench):
        good, stale = await store.add(), await store.add()
        first, second = await store.claim()
        await store.succeed(second)
        batch = [settled(claim, Succeeded(value=b"7"), KEPT, store.clock()) for claim in (second, first)]
        assert (await store.exchange(batch)).refused == {second.lease.token}
        assert (await store.get(good)).value == b"7"
        assert (await store.get(stale)).value == b"null"

    @pytest.mark.parametrize(
        "outcome", [Succeeded(value=b"1"), raised(), raised(delay=0), Discarded(failure=a_failure())], ids=range(4)
    )
    async def test_who_lost_the_lease_can_change_nothing(self, store: Bench, outcome):
        job = await store.add(unique=a_key(), max_rescues=1)
        stale = await store.claim_one(owner="alpha")
        await store.lose(stale)
        assert await store.settle(stale, LeaseExpired(owner="alpha"), reclaim=True)
        current = await store.claim_one(owner="beta")
        assert not await store.settle(stale, outcome)
        record = await store.get(job)
        assert (record.state, record.running.worker_id, record.value) == ("leased", "beta", None)
        assert (await store.try_add(unique=a_key())).status == "duplicate"
        assert await store.letters() == []
        await store.succeed(current, b"2")
        assert (await store.get(job)).value == b"2"

    async def test_who_lost_the_lease_to_a_waiting_job_can_change_nothing(self, store: Bench):
        job = await store.add(max_rescues=1)
        stale = await store.claim_one()
        await store.lose(stale)
        assert await store.settle(stale, LeaseExpired(owner="alpha"), reclaim=True)
        assert not await store.settle(stale, Succeeded())
        assert (await store.state(job), (await store.counts())["ready"]) == ("ready", 1)

    async def test_a_lease_that_ran_out_still_settles_until_it_is_reclaimed(self, store: Bench):
        """Invariant 8: a job that is done is not run again because its worker was slow to say so."""
        job = await store.add()
        claim = await store.claim_one()
        await store.lose(claim)
        await store.succeed(claim)
        assert await store.state(job) == "succeeded"
        assert await store.worker.expired(10) == ()

    async def test_one_of_many_settlers_wins(self, store: Bench):
        job = await store.add()
        claim = await store.claim_one()
        worker = store.new_worker()
        await worker.open()
        batches = [[settled(claim, Succeeded(value=value), KEPT, store.clock())] for value in (b"1", b"2")]
        try:
            rounds = await asyncio.gather(store.worker.exchange(batches[0], None), worker.exchange(batches[1], None))
        finally:
            await worker.close()
        assert sorted(len(round_.refused) for round_ in rounds) == [0, 1]
        winner = b"1" if not rounds[0].refused else b"2"
        assert (await store.get(job)).value == winner


class TestReclaim:
    async def test_a_live_lease_is_not_reclaimed(self, store: Bench):
        """Invariant 8."""
        job = await store.add(max_rescues=5)
        claim = await store.claim_one()
        assert not await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
        assert (await store.get(job)).running.worker_id == "alpha"

    async def test_an_expired_lease_is_reclaimed_by_anybody(self, store: Bench):
        """Invariant 3."""
        job = await store.add(max_rescues=1)
        await store.lose(await store.claim_one(owner="gone"))
        [claim] = await store.worker.expired(10)
        assert await store.settle(claim, LeaseExpired(owner="gone"), reclaim=True)
        again = await store.claim_one(owner="beta")
        assert (again.lease.job_id, again.job.rescue_count, again.job.failures) == (job.id, 1, 0)

    async def test_a_rescued_job_goes_to_the_front(self, store: Bench):
        job, other = await store.add(max_rescues=1), await store.add()
        await store.lose(await store.claim_one())
        [claim] = await store.worker.expired(10)
        assert await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
        assert ids(await store.claim(owner="beta")) == [job.id, other.id]

    async def test_without_rescues_it_becomes_a_dead_letter_that_names_the_worker(self, store: Bench):
        """Invariant 7."""
        job = await store.add()
        await store.lose(await store.claim_one(owner="killed-worker"))
        [claim] = await store.worker.expired(10)
        assert await store.settle(claim, LeaseExpired(owner="killed-worker"), reclaim=True)
        [letter] = await store.letters()
        assert (letter.id, letter.reason) == (job.id, "rescued_too_often")
        assert "killed-worker" in letter.failure.message

    async def test_a_job_is_reclaimed_once(self, store: Bench):
        await store.add(max_rescues=5)
        await store.lose(await store.claim_one())
        [claim], [same] = await store.worker.expired(10), await store.worker.expired(10)
        assert await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
        assert not await store.settle(same, LeaseExpired(owner="alpha"), reclaim=True)
        assert (await store.claim_one(owner="beta")).job.rescue_count == 1

    async def test_an_owner_that_came_back_in_time_keeps_its_job(self, store: Bench):
        """The rescuer looked while the lease was out, and writes after it was renewed."""
        job = await store.add(max_rescues=5)
        claim = await store.claim_one()
        await store.lose(claim)
        [seen] = await store.worker.expired(10)
        await store.live("alpha")
        assert not await store.settle(seen, LeaseExpired(owner="alpha"), reclaim=True)
        await store.succeed(claim)
        assert await store.state(job) == "succeeded"

    async def test_a_released_lease_is_reclaimed_without_waiting(self, store: Bench):
        await store.add(max_rescues=1)
        await store.claim_one()
        await store.leases.release("alpha")
        [claim] = await store.worker.expired(10)
        assert await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)


class TestResults:
    async def test_a_result_is_kept_for_its_time_and_no_longer(self, store: Bench):
        """Invariant 13."""
        job = await store.add(unique=a_key(mode=UniqueMode.UNTIL_DONE))
        await store.succeed(await store.claim_one(), b"1", Policy(result_ttl=60))
        await store.advance(59)
        assert (await store.get(job)).value == b"1"
        await store.advance(2)
        assert await store.state(job) is None

    async def test_without_a_time_no_result_is_kept(self, store: Bench):
        job = await store.add()
        await store.succeed(await store.claim_one(), b"1", FORGETFUL)
        assert await store.state(job) is None

    async def test_the_job_itself_may_say_how_long(self, store: Bench):
        long, none = await store.add(result_ttl=1000), await store.add(result_ttl=0)
        for claim in await store.claim():
            await store.succeed(claim, b"1")
        await store.advance(900)
        assert (await store.state(long), await store.state(none)) == ("succeeded", None)

    async def test_a_failed_jobs_result_ends_but_its_letter_stays(self, store: Bench):
        job = await store.bury()
        await store.advance(601)
        assert ((await store.get(job)).state, len(await store.letters())) == ("dead", 1)

    async def test_a_failed_job_without_a_result_is_known_by_its_letter(self, store: Bench):
        job = await store.add()
        assert await store.settle(await store.claim_one(), raised(), FORGETFUL)
        record = await store.get(job)
        assert (record.state, record.letter.failure.message) == ("dead", "boom")

    async def test_the_purge_removes_results_past_their_time_only(self, store: Bench):
        old, young = await store.add(), await store.add()
        first, second = await store.claim()
        await store.succeed(first, b"1", Policy(result_ttl=10))
        await store.succeed(second, b"2", Policy(result_ttl=LEASE * 10))
        await store.advance(11)
        await store.worker.purge(Retention(), 1000)
        assert (await store.state(old), await store.state(young)) == (None, "succeeded")


class TestJobsWithoutResult:
    """Nobody will ask for them, so a store may keep nothing that names them; they run like any other."""

    async def test_they_run_and_leave_nothing(self, store: Bench):
        jobs = await store.add_all([store.job(result_ttl=0, priority=priority) for priority in (0, 5, 0)])
        claims = await store.claim()
        assert ids(claims) == [jobs[1].id, jobs[0].id, jobs[2].id]
        for claim in claims:
            await store.succeed(claim, b"1")
        assert [await store.state(job) for job in jobs] == [None, None, None]
        assert await store.admin.counts() == []

    async def test_they_are_delayed_and_retried(self, store: Bench):
        job = await store.add(result_ttl=0, run_after=store.clock() + 5)
        await store.advance(6)
        await store.pulse()
        await store.retry(await store.claim_one(), delay=5)
        await store.advance(6)
        await store.pulse()
        claim = await store.claim_one()
        assert (claim.lease.job_id, claim.job.failures, claim.job.result_ttl) == (job.id, 1, 0)

    async def test_they_are_rescued(self, store: Bench):
        job = await store.add(result_ttl=0, max_rescues=1)
        await store.lose(await store.claim_one())
        [claim] = await store.worker.expired(10)
        assert await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
        assert ids(await store.claim(owner="beta")) == [job.id]

    async def test_they_become_dead_letters(self, store: Bench):
        job = await store.bury(result_ttl=0)
        record = await store.get(job)
        assert (record.state, record.letter.failure.message) == ("dead", "boom")
        assert len(await store.redrive(job)) == 1
        assert await store.state(job) is None

    async def test_they_keep_their_unique_key(self, store: Bench):
        job = await store.add(result_ttl=0, unique=a_key())
        answer = await store.try_add(result_ttl=0, unique=a_key())
        assert (answer.status, answer.job_id) == ("duplicate", job.id)
        await store.succeed(await store.claim_one())
        assert (await store.try_add(result_ttl=0, unique=a_key())).status == "added"

"""How attempts are stopped from outside: cancelled, timed out, interrupted, given up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_vtasks.events import ThreadAbandoned
from django_vtasks.exceptions import JobTimedOut, Retry
from django_vtasks.jobs.model import DeadReason, OutcomeKind
from django_vtasks.jobs.outcomes import (
    Abandonment,
    Cancelled,
    Interrupted,
    RetryRequested,
    Succeeded,
    TimedOut,
    Untouched,
)
from django_vtasks.jobs.retries import Fixed
from django_vtasks.jobs.transitions import Bury, Place, Requeue
from tests.support.waiting import DEADLINE, aeventually, happens, let_others_run
from tests.worker.executing import STARTED_AT, bench


@pytest.fixture
async def on():
    async with bench() as made:
        yield made


class Sleeper:
    """A coroutine function that says when it runs, and when it was told to stop."""

    def __init__(self, *, stubborn=False, answer=None):
        self.running = asyncio.Event()
        self.release = asyncio.Event()
        self.stubborn = stubborn
        self.answer = answer

    def task(self, on, **options):
        async def sleeper():
            self.running.set()
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                if self.answer is not None:
                    return self.answer()
                if not self.stubborn:
                    raise
                await self.release.wait()
            return "late"

        return on.task(sleeper, **options)


class Blocker:
    """A function that blocks its thread until it is released, or looks at its context now and then."""

    def __init__(self):
        self.running = threading.Event()
        self.release = threading.Event()
        self.over = threading.Event()

    def task(self, on, **options):
        def blocker():
            self.running.set()
            self.release.wait(DEADLINE)
            self.over.set()
            return "late"

        return on.task(blocker, **options)

    def polite_task(self, on, **options):
        def polite(context):
            self.running.set()
            while not self.release.wait(0.005):
                context.check()

        return on.task(polite, takes_context=True, **options)


@pytest.fixture
def blocker():
    made = Blocker()
    yield made
    made.release.set()


async def started(on, claim, running):
    attempt = on.start(claim)
    await aeventually(running.is_set)
    return attempt


# -- coroutines -------------------------------------------------------------------------------------------------------


async def test_a_cancelled_coroutine_ends_as_cancelled(on):
    sleeper = Sleeper()
    claim = on.claim(sleeper.task(on))
    (await started(on, claim, sleeper.running)).cancel()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, Cancelled)
    assert ended.outcome.how is Abandonment.STOPPED
    assert ended.outcome.failure.exception_class == "django_vtasks.jobs.errors.JobCancelled"
    assert ended.decision.letter.reason is DeadReason.CANCELLED


async def test_an_interrupted_coroutine_goes_back_and_does_not_count(on):
    sleeper = Sleeper()
    claim = on.claim(sleeper.task(on))
    (await started(on, claim, sleeper.running)).interrupt()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, Interrupted)
    assert isinstance(ended.decision, Requeue)
    assert ended.decision.place is Place.FRONT
    assert ended.decision.job.failures == 0


async def test_a_coroutine_whose_job_is_somebody_elses_is_stopped_and_does_not_count_as_failed(on):
    sleeper = Sleeper()
    claim = on.claim(sleeper.task(on))
    (await started(on, claim, sleeper.running)).withdraw()
    (ended,) = await on.end_of(claim)
    assert ended.outcome == Interrupted(reason="its job is somebody else's by now")
    assert isinstance(ended.decision, Requeue)


async def test_a_thread_whose_job_is_somebody_elses_is_told(on, blocker):
    claim = on.claim(blocker.polite_task(on))
    (await started(on, claim, blocker.running)).withdraw()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, Interrupted)


async def test_a_coroutine_that_runs_too_long_times_out(on):
    sleeper = Sleeper()
    ended = await on.run(sleeper.task(on, timeout=0.02))
    assert isinstance(ended.outcome, TimedOut)
    assert ended.outcome.how is Abandonment.STOPPED
    assert ended.outcome.failure.exception_class == "django_vtasks.jobs.errors.JobTimedOut"
    assert "0.02 s" in ended.outcome.failure.message
    assert "release.wait" in ended.outcome.failure.traceback, "it says where the function was"
    assert ended.decision.letter.reason is DeadReason.TIMED_OUT
    assert ended.at >= STARTED_AT + 0.02


async def test_a_timeout_is_retried_as_the_rule_says():
    async with bench(max_attempts=2) as on:
        again = await on.run(Sleeper().task(on, timeout=0.01, backoff=Fixed(seconds=4.0)))
        assert again.decision.delay == 4.0
        never = await on.run(Sleeper().task(on, timeout=0.01, give_up_on=(JobTimedOut,)))
        assert isinstance(never.decision, Bury)


async def test_a_coroutine_within_its_time_is_not_disturbed(on):
    async def quick():
        await asyncio.sleep(0)
        return 1

    assert isinstance(await on.outcome(on.task(quick, timeout=DEADLINE)), Succeeded)


@pytest.mark.parametrize("stop", ["cancel", "withdraw", "interrupt", "timeout"])
async def test_a_coroutine_that_ignores_its_end_is_abandoned_and_its_late_end_changes_nothing(on, stop):
    sleeper = Sleeper(stubborn=True)
    claim = on.claim(sleeper.task(on, timeout=0.01 if stop == "timeout" else None))
    attempt = await started(on, claim, sleeper.running)
    if stop != "timeout":
        getattr(attempt, stop)()
    (ended,) = await on.end_of(claim)
    if stop in ("interrupt", "withdraw"):
        assert isinstance(ended.outcome, Interrupted)
    else:
        assert ended.outcome.how is Abandonment.ABANDONED
    assert not attempt.task.done()
    sleeper.release.set()
    await attempt.task
    await let_others_run()
    assert len(on.ended) == len(on.events) == 1


@pytest.mark.parametrize(
    ("stop", "noted"), [("cancel", "JobCancelled"), ("timeout", "JobTimedOut"), ("interrupt", "")]
)
async def test_work_that_was_finished_while_being_stopped_counts_and_the_stop_is_noted(on, stop, noted):
    sleeper = Sleeper(answer=lambda: "saved")
    claim = on.claim(sleeper.task(on, timeout=0.02 if stop == "timeout" else None))
    attempt = await started(on, claim, sleeper.running)
    if stop != "timeout":
        getattr(attempt, stop)()
    (ended,) = await on.end_of(claim)
    assert (type(ended.outcome), ended.outcome.value) == (Succeeded, b'"saved"')
    failure = ended.decision.job.attempts[-1].failure
    assert (failure.exception_class.rpartition(".")[2] if failure else "") == noted
    if failure:
        assert "it went on and returned after" in failure.message


async def test_a_thread_that_returns_within_the_grace_has_succeeded_and_it_shows_that_it_ran_too_long():
    async with bench(grace=DEADLINE) as on:
        blocker = Blocker()
        claim = on.claim(blocker.task(on, timeout=0.02))
        attempt = await started(on, claim, blocker.running)
        await aeventually(lambda: attempt.told_to_stop)
        blocker.release.set()
        (ended,) = await on.end_of(claim)
    (job_attempt,) = ended.decision.job.attempts
    assert (ended.outcome.value, job_attempt.outcome) == (b'"late"', OutcomeKind.SUCCEEDED)
    assert job_attempt.failure.exception_class == "django_vtasks.jobs.errors.JobTimedOut"
    assert "self.release.wait(DEADLINE)" in job_attempt.failure.traceback, "it says where the function was"
    assert ended.decision.job.failures == 0


@pytest.mark.parametrize("stop", ["cancel", "timeout"])
async def test_stops_of_one_task_are_alike_wherever_they_met_it(on, blocker, stop):
    """Their fingerprint names the task, neither a line of this package nor the one that happened to run."""
    sleeper, timeout = Sleeper(), 0.02 if stop == "timeout" else None
    for path, running in (
        (sleeper.task(on, timeout=timeout), sleeper.running),
        (blocker.task(on, timeout=timeout), blocker.running),
    ):
        claim = on.claim(path)
        attempt = await started(on, claim, running)
        if stop == "cancel":
            attempt.cancel()
        (ended,) = await on.end_of(claim)
        failure = ended.outcome.failure
        assert failure.fingerprint == f"{path}:{failure.exception_class.rpartition('.')[2]}"
        assert "release.wait" in failure.traceback, "it says where the function was"


async def test_a_function_may_ask_for_a_retry_when_the_worker_goes_but_not_when_the_job_is_cancelled():
    def ask():
        raise Retry(5)

    async with bench(max_attempts=2) as on:
        kinds = []
        for stop in ("interrupt", "cancel"):
            sleeper = Sleeper(answer=ask)
            claim = on.claim(sleeper.task(on))
            getattr(await started(on, claim, sleeper.running), stop)()
            kinds.append(type((await on.end_of(claim))[0].outcome))
        assert kinds == [RetryRequested, Cancelled]


async def test_an_attempt_that_was_stopped_before_it_began_does_not_run(on):
    ran = []

    async def coroutine():
        ran.append(1)

    claims = [on.claim(coroutine) for _ in range(3)]
    first, second, third = [on.start(claim) for claim in claims]
    first.cancel()
    second.interrupt()
    ended = await on.end_of(*claims)
    assert [type(end.outcome) for end in ended] == [Cancelled, Untouched, Succeeded]
    assert ended[1].decision.job == claims[1].job, "untouched: not even a start is counted"
    assert ran == [1]
    assert third is not first


async def test_stopping_what_is_over_does_nothing(on):
    async def quick():
        return 1

    claim = on.claim(quick)
    attempt = on.start(claim)
    await on.end_of(claim)
    attempt.cancel()
    attempt.interrupt()
    await let_others_run()
    assert [type(ended.outcome) for ended in on.ended] == [Succeeded]


async def test_stopping_twice_keeps_the_first_reason(on):
    sleeper = Sleeper()
    claim = on.claim(sleeper.task(on))
    attempt = await started(on, claim, sleeper.running)
    attempt.cancel()
    attempt.cancel()
    attempt.interrupt()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, Cancelled)
    assert len(on.ended) == 1


async def test_a_coroutine_that_cleans_up_is_not_cancelled_again_when_the_worker_goes(on):
    cleaning, release, cleaned = asyncio.Event(), asyncio.Event(), []

    async def task():
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await release.wait()
            cleaned.append(True)

    claim = on.claim(task)
    attempt = on.start(claim)
    await let_others_run()
    attempt.cancel()
    await happens(cleaning)
    attempt.interrupt()
    release.set()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, Cancelled)
    await aeventually(lambda: cleaned)


async def test_a_stopped_coroutine_may_use_timeouts_and_groups_afterwards(on):
    """The cancellation is spent with the attempt, so receivers and cleanups are not cancelled in its stead."""
    sleeper = Sleeper()
    claim = on.claim(sleeper.task(on))
    attempt = await started(on, claim, sleeper.running)
    attempt.cancel()
    await on.end_of(claim)
    assert attempt.task.cancelling() == 0


# -- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stop", "kind"), [("cancel", Cancelled), ("timeout", TimedOut)])
async def test_a_function_that_looks_at_its_context_stops_when_told(on, blocker, stop, kind):
    claim = on.claim(blocker.polite_task(on, timeout=0.02 if stop == "timeout" else None))
    attempt = await started(on, claim, blocker.running)
    if stop == "cancel":
        attempt.cancel()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, kind)
    assert ended.outcome.how is Abandonment.STOPPED
    assert on.executor._env.threads.abandoned == 0


async def test_a_thread_that_does_not_stop_is_given_up_and_replaced():
    async with bench(concurrency=1) as on:
        seen = []
        on.emitter.subscribe(ThreadAbandoned, seen.append)
        blocker = Blocker()
        claim = on.claim(blocker.task(on))
        attempt = await started(on, claim, blocker.running)
        attempt.cancel()
        (ended,) = await on.end_of(claim)
        assert isinstance(ended.outcome, Cancelled)
        assert ended.outcome.how is Abandonment.ABANDONED
        assert [(event.claim, event.total) for event in seen] == [(claim, 1)]

        assert isinstance(await on.outcome(lambda: 1), Succeeded), "the only slot is free again"

        blocker.release.set()
        await aeventually(lambda: on.executor._env.threads.abandoned == 0)
        assert blocker.over.is_set()
        await let_others_run()
        assert [type(end.outcome) for end in on.ended] == [Cancelled, Succeeded], "the late end changes nothing"
        assert len(on.events) == 2


async def test_no_more_threads_are_given_up_than_the_cap_says():
    async with bench(concurrency=2, max_abandoned_threads=1) as on:
        blockers = [Blocker(), Blocker()]
        claims = [on.claim(blocker.task(on)) for blocker in blockers]
        attempts = [await started(on, claim, b.running) for claim, b in zip(claims, blockers, strict=True)]
        attempts[0].cancel()
        await on.end_of(claims[0])
        attempts[1].cancel()
        blockers[1].release.set()
        (second,) = await on.end_of(claims[1])
        assert isinstance(second.outcome, Succeeded), "it was waited for, and its work counts"
        blockers[0].release.set()
        await aeventually(lambda: on.executor._env.threads.abandoned == 0)


async def test_what_cannot_be_given_up_at_the_cap_is_given_up_as_soon_as_there_is_room():
    async with bench(concurrency=2, max_abandoned_threads=1, grace=0.0) as on:
        blockers = [Blocker(), Blocker()]
        claims = [on.claim(blocker.task(on)) for blocker in blockers]
        attempts = [await started(on, claim, b.running) for claim, b in zip(claims, blockers, strict=True)]
        for attempt in attempts:
            attempt.cancel()
        await aeventually(lambda: on.ended)
        await let_others_run()
        assert len(on.ended) == 1
        first = claims.index(on.ended[0].claim)
        blockers[first].release.set()
        await on.end_of(*claims)
        assert [end.outcome.how for end in on.ended] == [Abandonment.ABANDONED] * 2
        blockers[1 - first].release.set()


async def test_a_thread_is_not_waited_for_when_the_worker_goes(on, blocker):
    on.executor._env.options.emitter.subscribe(ThreadAbandoned, lambda _: pytest.fail("this is no abandonment"))
    claim = on.claim(blocker.task(on))
    attempt = await started(on, claim, blocker.running)
    attempt.interrupt()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, Interrupted)
    assert attempt.told_to_stop is not None
    blocker.release.set()
    await aeventually(blocker.over.is_set)
    await let_others_run()
    assert len(on.ended) == 1


async def test_a_call_that_waits_for_a_thread_is_dropped_when_the_worker_goes():
    async with bench(concurrency=1) as on:
        blocker, ran = Blocker(), []
        running, waiting = on.claim(blocker.task(on)), on.claim(lambda: ran.append(1))
        await started(on, running, blocker.running)
        on.start(waiting).interrupt()
        (ended,) = await on.end_of(waiting)
        assert isinstance(ended.outcome, Untouched)
        blocker.release.set()
        await on.end_of(running)
        assert isinstance(await on.outcome(lambda: 1), Succeeded)
        assert ran == []


# -- what the context says --------------------------------------------------------------------------------------------


async def test_the_context_says_when_the_worker_goes(on):
    seen = asyncio.Event()

    async def task(context):
        assert not context.shutdown_requested
        seen.set()
        while not context.shutdown_requested:
            await asyncio.sleep(0)
        return context.cancelled

    claim = on.claim(on.task(task, takes_context=True))
    on.start(claim)
    await happens(seen)
    on.executor.request_shutdown()
    (ended,) = await on.end_of(claim)
    assert ended.outcome.value == b"false"


async def test_closing_does_not_wait_for_ever_for_a_stuck_function(caplog):
    async with bench() as on:
        blocker = Blocker()
        await started(on, on.claim(blocker.task(on)), blocker.running)
        await on.executor.close(0.05)
        assert "still run" in caplog.text
        blocker.release.set()

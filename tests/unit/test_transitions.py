"""What becomes of a job: the table of `decide`, one row per case, and what each decision carries."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.jobs.model import MAX_ATTEMPTS_KEPT, Claim, DeadReason, Job, OutcomeKind
from django_vtasks.jobs.outcomes import (
    Cancelled,
    Discarded,
    Expired,
    Interrupted,
    LeaseExpired,
    Outcome,
    Raised,
    RetryRequested,
    Snoozed,
    Succeeded,
    TimedOut,
    Unrunnable,
    Untouched,
)
from django_vtasks.jobs.transitions import (
    MAX_RESULT_TTL,
    Bury,
    Decision,
    Finish,
    Policy,
    Requeue,
    cancelled_letter,
    decide,
    fresh,
)
from tests.support.builders import a_claim, a_failure, a_job, an_undecodable_claim
from tests.support.clock import START
from tests.support.naming import shown

BOOM = a_failure("boom")
ONCE = Policy(max_attempts=1, result_ttl=600)
THRICE = Policy(max_attempts=3, result_ttl=600)
ENDED = START + 5

NEW = a_job()
FAILED_ONCE = a_job(starts=1, failures=1)
FAILED_TWICE = a_job(starts=2, failures=2)
RESCUABLE = a_job(starts=2, failures=2, max_rescues=1)
RESCUED_ONCE = a_job(rescue_count=1, max_rescues=1, starts=1)


UNKNOWN_TASK = Unrunnable(reason=DeadReason.UNKNOWN_TASK, failure=BOOM)


def described(decision: Decision) -> str:
    """A decision in words, so that the table below reads as one."""
    match decision:
        case Finish():
            return f"finished: {decision.state}"
        case Bury():
            return f"dead: {decision.letter.reason}"
        case Requeue(delay=None):
            return f"again at once: {decision.place}"
        case Requeue():
            return f"again in {decision.delay:g} s: {decision.place}"


TABLE: list[tuple[str, Job, Outcome, Policy, str]] = [
    # the attempt ended by itself
    ("a success ends the job", NEW, Succeeded(value=b"1"), ONCE, "finished: succeeded"),
    ("a success after failures too", FAILED_TWICE, Succeeded(), THRICE, "finished: succeeded"),
    ("a discard ends the job", NEW, Discarded(failure=BOOM), THRICE, "finished: discarded"),
    ("a snooze does not count", NEW, Snoozed(delay=30), ONCE, "again in 30 s: back"),
    ("a snooze never counts", FAILED_TWICE, Snoozed(delay=30), THRICE, "again in 30 s: back"),
    # exceptions
    ("without retries an exception is final", NEW, Raised(failure=BOOM, delay=5), ONCE, "dead: failed"),
    ("with attempts left it is retried", NEW, Raised(failure=BOOM, delay=5), THRICE, "again in 5 s: back"),
    ("the last but one attempt is retried", FAILED_ONCE, Raised(failure=BOOM, delay=5), THRICE, "again in 5 s: back"),
    ("the last attempt is final", FAILED_TWICE, Raised(failure=BOOM, delay=5), THRICE, "dead: failed"),
    ("an exception that asks for no retry is final", NEW, Raised(failure=BOOM), THRICE, "dead: failed"),
    ("a delay of nothing is at once", NEW, Raised(failure=BOOM, delay=0.0), THRICE, "again in 0 s: back"),
    # the task asks for a retry
    ("a requested retry counts", FAILED_TWICE, RetryRequested(delay=5, failure=BOOM), THRICE, "dead: failed"),
    ("a requested retry waits as asked", NEW, RetryRequested(delay=7, failure=BOOM), THRICE, "again in 7 s: back"),
    ("a requested retry needs attempts", NEW, RetryRequested(delay=7, failure=BOOM), ONCE, "dead: failed"),
    # time and people
    ("a timeout without retries is final", NEW, TimedOut(failure=BOOM, delay=5), ONCE, "dead: timed_out"),
    ("a timeout is retried like an exception", NEW, TimedOut(failure=BOOM, delay=5), THRICE, "again in 5 s: back"),
    ("the last timeout is final", FAILED_TWICE, TimedOut(failure=BOOM, delay=5), THRICE, "dead: timed_out"),
    ("a cancelled job is not retried", NEW, Cancelled(failure=BOOM), THRICE, "dead: cancelled"),
    ("a job that came too late is not run", NEW, Expired(failure=BOOM), THRICE, "dead: expired"),
    # the worker
    ("an interrupted attempt is repeated first", NEW, Interrupted(), ONCE, "again at once: front"),
    ("it does not count", FAILED_TWICE, Interrupted(), THRICE, "again at once: front"),
    ("a job that was not begun goes back as it came", NEW, Untouched(), ONCE, "again at once: front"),
    ("a crash without rescues is final", NEW, LeaseExpired(owner="alpha"), THRICE, "dead: rescued_too_often"),
    ("a crash is a rescue", a_job(max_rescues=1), LeaseExpired(owner="alpha"), ONCE, "again at once: front"),
    ("rescues are limited", RESCUED_ONCE, LeaseExpired(owner="alpha"), THRICE, "dead: rescued_too_often"),
    ("failures are no rescues", RESCUABLE, LeaseExpired(owner="alpha"), ONCE, "again at once: front"),
    # the attempt could not begin
    ("a path that names no task", NEW, UNKNOWN_TASK, THRICE, "dead: unknown_task"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("job", "outcome", "policy", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_becomes_of_a_job(job: Job, outcome: Outcome, policy: Policy, expected: str):
    assert described(decide(a_claim(job), outcome, policy, ENDED)) == expected


EVERY_OUTCOME: list[Outcome] = [row[2] for row in TABLE]


def test_the_table_has_every_way_an_attempt_can_end():
    assert {type(outcome) for outcome in EVERY_OUTCOME} == set(get_args(Outcome.__value__))


@pytest.mark.parametrize(
    "outcome", [*EVERY_OUTCOME, Unrunnable(reason=DeadReason.UNDECODABLE, failure=BOOM)], ids=shown
)
def test_bytes_that_are_no_job_end_as_a_dead_letter_whatever_happened(outcome: Outcome):
    claim = an_undecodable_claim(b"\xff\x00")
    decision = decide(claim, outcome, THRICE, ENDED)
    assert described(decision) == "dead: undecodable"
    assert (decision.letter.raw, decision.letter.job, decision.letter.id) == (b"\xff\x00", None, claim.lease.job_id)
    assert decision.letter.failure.message


# --- what a decision carries -------------------------------------------------------------------------------------


def test_a_success_carries_value_and_time():
    decision = decide(a_claim(), Succeeded(value=b"[1]"), ONCE, ENDED)
    assert (decision.value, decision.finished_at, decision.result_ttl) == (b"[1]", ENDED, 600)


def test_without_a_result_to_keep_a_success_costs_no_history():
    claim = a_claim()
    assert decide(claim, Succeeded(), Policy(result_ttl=0), ENDED).job is claim.job


@pytest.mark.parametrize(
    ("job_ttl", "policy_ttl", "expected"),
    [(None, 600, 600), (5, 600, 5), (0, 600, 0), (None, 0, 0), (-5, 600, 0), (1e300, 600, MAX_RESULT_TTL)],
)
@pytest.mark.parametrize("outcome", [Succeeded(), Discarded(failure=BOOM), Raised(failure=BOOM)], ids=shown)
def test_the_jobs_own_result_time_wins_within_reason(outcome, job_ttl, policy_ttl, expected):
    decision = decide(a_claim(a_job(result_ttl=job_ttl)), outcome, Policy(result_ttl=policy_ttl), ENDED)
    assert decision.result_ttl == expected


def test_an_attempt_is_added_to_the_history():
    decision = decide(a_claim(owner="alpha", started_at=START + 1), Raised(failure=BOOM, delay=1), THRICE, ENDED)
    [attempt] = decision.job.attempts
    assert (attempt.number, attempt.worker_id, attempt.outcome, attempt.failure) == (1, "alpha", "raised", BOOM)
    assert (attempt.started_at, attempt.ended_at) == (START + 1, ENDED)


@pytest.mark.parametrize(
    ("outcome", "kind", "starts", "failures", "rescues"),
    [
        (Raised(failure=BOOM, delay=1), OutcomeKind.RAISED, 1, 1, 0),
        (RetryRequested(failure=BOOM, delay=1), OutcomeKind.RETRIED, 1, 1, 0),
        (TimedOut(failure=BOOM, delay=1), OutcomeKind.TIMED_OUT, 1, 1, 0),
        (Snoozed(delay=1), OutcomeKind.SNOOZED, 1, 0, 0),
        (Interrupted(), OutcomeKind.INTERRUPTED, 1, 0, 0),
        (LeaseExpired(owner="alpha"), OutcomeKind.LEASE_EXPIRED, 1, 0, 1),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_counts_as_what(outcome, kind, starts, failures, rescues):
    """Invariant 7: a crash of the worker is a rescue and no failure of the task."""
    decision = decide(a_claim(a_job(max_rescues=1)), outcome, THRICE, ENDED)
    job = decision.job
    assert (job.starts, job.failures, job.rescue_count) == (starts, failures, rescues)
    assert (decision.outcome, job.attempts[-1].outcome) == (kind, kind)


def test_a_job_that_was_not_begun_goes_back_unchanged():
    claim = a_claim()
    assert decide(claim, Untouched(), ONCE, ENDED).job is claim.job


def test_the_history_keeps_the_first_attempt_and_the_latest():
    claim = a_claim()
    for number in range(MAX_ATTEMPTS_KEPT * 3):
        decision = decide(claim, Snoozed(delay=1), ONCE, START + number)
        claim = replace(claim, job=decision.job)
    numbers = [attempt.number for attempt in claim.job.attempts]
    assert numbers == [1, *range(MAX_ATTEMPTS_KEPT * 2 + 2, MAX_ATTEMPTS_KEPT * 3 + 1)]
    assert claim.job.starts == MAX_ATTEMPTS_KEPT * 3


def test_a_letter_tells_of_the_first_and_the_last_failure():
    claim = a_claim()
    again = decide(claim, Raised(failure=a_failure("first"), delay=1), THRICE, START + 1)
    last = decide(replace(claim, job=again.job), Raised(failure=a_failure("last")), THRICE, START + 9)
    letter = last.letter
    assert (letter.first_failed_at, letter.failed_at, letter.failure.message) == (START + 1, START + 9, "last")
    assert (letter.id, letter.queue, letter.raw) == (claim.job.id, "default", claim.raw)
    assert [attempt.failure.message for attempt in letter.job.attempts] == ["first", "last"]


def test_a_job_that_kills_its_workers_names_them():
    claim = a_claim(a_job(max_rescues=2))
    for owner in ("one", "two"):
        decision = decide(
            replace(claim, lease=replace(claim.lease, owner=owner)), LeaseExpired(owner=owner), ONCE, ENDED
        )
        claim = replace(claim, job=decision.job)
    last = decide(replace(claim, lease=replace(claim.lease, owner="three")), LeaseExpired(owner="three"), ONCE, ENDED)
    message = last.letter.failure.message
    assert message.startswith("Exceeded max_rescues (2)")
    assert all(name in message for name in ("one", "two", "three"))


def test_a_letter_without_an_exception_says_its_reason():
    letter = cancelled_letter(NEW, b"raw", ENDED)
    assert (letter.reason, letter.raw, letter.failed_at) == ("cancelled", b"raw", ENDED)
    assert (letter.job, letter.failure.exception_class) == (NEW, "django_vtasks.jobs.errors.JobCancelled")


def test_a_fresh_job_knows_the_old_one_and_nothing_else_of_the_past():
    old = replace(FAILED_TWICE, rescue_count=3, expires_at=START, run_after=START, metadata={"page": 3}, args=["x"])
    new = fresh(old, new_id="new", at=ENDED)
    assert (new.id, new.retry_of, new.enqueued_at, new.args, new.metadata) == (
        "new",
        old.id,
        ENDED,
        ["x"],
        {"page": 3},
    )
    assert (new.starts, new.failures, new.rescue_count, new.attempts) == (0, 0, 0, ())
    assert (new.run_after, new.expires_at) == (None, None)


# --- properties --------------------------------------------------------------------------------------------------

delays = st.one_of(st.none(), st.floats(0, 1e6))
outcomes = st.one_of(
    st.builds(Raised, failure=st.just(BOOM), delay=delays),
    st.builds(TimedOut, failure=st.just(BOOM), delay=delays),
    st.builds(RetryRequested, failure=st.just(BOOM), delay=st.floats(0, 1e6)),
    st.builds(Snoozed, delay=st.floats(0, 1e6)),
    st.just(Interrupted()),
    st.just(Untouched()),
    st.just(LeaseExpired(owner="alpha")),
)


@given(st.lists(outcomes, max_size=60), st.integers(1, 5), st.integers(0, 5))
def test_failures_never_exceed_the_attempts_and_rescues_never_their_limit(history, max_attempts, max_rescues):
    policy = Policy(max_attempts=max_attempts)
    claim: Claim = a_claim(a_job(max_rescues=max_rescues))
    for number, outcome in enumerate(history):
        decision = decide(claim, outcome, policy, START + number)
        job = decision.letter.job if isinstance(decision, Bury) else decision.job
        assert job.failures <= max_attempts
        assert job.rescue_count <= max_rescues
        assert len(job.attempts) <= MAX_ATTEMPTS_KEPT
        if not isinstance(decision, Requeue):
            break
        assert job.failures < max_attempts
        claim = replace(claim, job=job)

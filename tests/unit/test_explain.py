"""Why a job is not running: the situations an operator meets, each with its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import (
    Attempt,
    DeadLetter,
    DeadReason,
    Failure,
    Job,
    JobRecord,
    JobState,
    OutcomeKind,
    Progress,
    Running,
)
from django_vtasks.operating.explain import Facts, explain, unknown
from django_vtasks.stores.base import QueueCounts, Standing, WorkerInfo

NOW = 1_800_000_000.0
JOB = Job(id="j1", func="shop.tasks.mail", queue="mails", enqueued_at=NOW - 60)
WORKER = WorkerInfo(
    incarnation="w1-ab",
    worker_id="w1",
    host="app-3",
    pid=412,
    version="4.0",
    queues=("mails", "default"),
    concurrency=4,
    started_at=NOW - 3600,
    running=1,
    seen_at=NOW - 1,
)
FAILURE = Failure(exception_class="builtins.ValueError", message="no such customer")


def facts(state=JobState.READY, job=JOB, workers=(WORKER,), queue=None, task_problem=None, **standing):
    record = {
        name: standing.pop(name) for name in ("running", "finished_at", "letter", "progress") if name in standing
    }
    return Facts(
        standing=Standing(record=JobRecord(job=job, state=state, **record), now=NOW, **standing),
        queue=queue or QueueCounts(queue="mails", ready=1),
        workers=workers,
        task_problem=task_problem,
    )


def letter(reason=DeadReason.FAILED, failure=FAILURE, job=JOB):
    return DeadLetter(
        id=job.id,
        raw=b"{}",
        queue=job.queue,
        job=job,
        reason=reason,
        failure=failure,
        first_failed_at=NOW - 90,
        failed_at=NOW - 30,
    )


def dead(reason=DeadReason.FAILED, failure=FAILURE, **more):
    job = replace(JOB, starts=3)
    return facts(JobState.DEAD, job, letter=letter(reason, failure, job), finished_at=NOW - 30, **more)


def attempt(outcome=OutcomeKind.RAISED, failure=FAILURE, number=1):
    return Attempt(
        number=number, worker_id="w1-ab", started_at=NOW - 50, ended_at=NOW - 40, outcome=outcome, failure=failure
    )


def leased(**more):
    given = {"lease_until": NOW + 10, "running": Running(worker_id="w1-ab", started_at=NOW - 200)} | more
    return facts(JobState.LEASED, **given)


SITUATIONS = {
    "its queue is paused": (
        facts(queue=QueueCounts(queue="mails", ready=1, paused=True)),
        "paused",
        "The queue 'mails' is paused.",
    ),
    "no worker runs at all": (facts(workers=()), "no_worker", "No worker is running."),
    "no live worker serves its queue": (
        facts(workers=(replace(WORKER, queues=("default", "reports")),)),
        "no_worker",
        "No live worker serves the queue 'mails'; 1 live worker serves default, reports.",
    ),
    "all slots are busy": (
        facts(workers=(replace(WORKER, running=4), replace(WORKER, incarnation="w2", running=4))),
        "busy",
        "All 8 slots of 2 workers serving this queue are busy.",
    ),
    "its concurrency limit is full": (
        facts(
            job=replace(JOB, limit=JobLimit(concurrency_key="tenant:7", count=2)),
            permit_holders=("j8", "j9"),
        ),
        "limit_full",
        "Its limit 'tenant:7' is full: 2 of 2 run, held by j8, j9.",
    ),
    "its rate is used up": (
        facts(job=replace(JOB, limit=JobLimit(rate_key="api", interval=6.0)), rate_free_at=NOW + 4.5),
        "rate_limited",
        "Its rate 'api' lets the next job start in 4.5 s.",
    ),
    "it waits for its time": (
        facts(JobState.SCHEDULED, replace(JOB, run_after=NOW + 200)),
        "not_due",
        "It waits for its time: due in 3 min 20 s, at 2027-01-15 08:03:20 UTC.",
    ),
    "it waits for its next attempt": (
        facts(JobState.SCHEDULED, replace(JOB, run_after=NOW + 30, starts=1, attempts=(attempt(),))),
        "not_due",
        "It waits for its next attempt after attempt 1 failed with ValueError: no such customer: due in 30 s, "
        "at 2027-01-15 08:00:30 UTC.",
    ),
    "it snoozed": (
        facts(
            JobState.SCHEDULED,
            replace(JOB, run_after=NOW + 30, attempts=(attempt(OutcomeKind.SNOOZED, None),)),
        ),
        "not_due",
        "Attempt 1 snoozed: due in 30 s, at 2027-01-15 08:00:30 UTC.",
    ),
    "it is due and nobody made it ready": (
        facts(JobState.SCHEDULED, replace(JOB, run_after=NOW - 90), workers=()),
        "overdue",
        "It has been due for 1 min 30 s and was not made ready yet.",
    ),
    "it is behind others, some of higher priority": (
        facts(ahead=1200, ahead_by_priority=1000),
        "behind",
        "It is behind 1,200 jobs of the queue 'mails', 1,000 of them of higher priority than its 0.",
    ),
    "it is behind more than are counted": (
        facts(ahead=10_000),
        "behind",
        "It is behind at least 10,000 jobs of the queue 'mails'.",
    ),
    "its task does not exist": (
        facts(task_problem="there is no module 'shop'"),
        "unknown_task",
        "Its task does not exist in this code: there is no module 'shop'",
    ),
    "it expired": (
        facts(job=replace(JOB, expires_at=NOW - 5)),
        "expired",
        "It expired 5 s ago, so it will not be started.",
    ),
    "nothing keeps it": (facts(), "next", "It is the next job of the queue 'mails'."),
    "it is running": (
        leased(),
        "running",
        "It is running on worker w1 (host app-3, pid 412) since 2027-01-15 07:56:40 UTC, for 3 min 20 s (attempt 1).",
    ),
    "the lease of its worker ran out": (
        leased(lease_until=None, workers=()),
        "lease_expired",
        "It was running on w1-ab since 2027-01-15 07:56:40 UTC, for 3 min 20 s; that worker's lease has run out.",
    ),
    "it failed": (
        dead(),
        "dead",
        "It became a dead letter 30 s ago: it failed after 3 attempts with ValueError: no such customer.",
    ),
    "it was cancelled": (dead(DeadReason.CANCELLED), "dead", "It became a dead letter 30 s ago: it was cancelled."),
    "its workers died": (
        dead(DeadReason.RESCUED_TOO_OFTEN, Failure(exception_class="x", message="expired on w1, w2")),
        "dead",
        "It became a dead letter 30 s ago: its workers died too often. expired on w1, w2",
    ),
    "its bytes are no job": (
        dead(DeadReason.UNDECODABLE, Failure(exception_class="x", message="not JSON")),
        "dead",
        "It became a dead letter 30 s ago: its bytes are not a job. not JSON",
    ),
    "its task was unknown to the worker": (
        dead(DeadReason.UNKNOWN_TASK, Failure(exception_class="x", message="no module 'shop'")),
        "dead",
        "It became a dead letter 30 s ago: its task was not found. no module 'shop'",
    ),
    "it timed out": (
        dead(DeadReason.TIMED_OUT, Failure(exception_class="x", message="ran longer than 5 s")),
        "dead",
        "It became a dead letter 30 s ago: it timed out after 3 attempts. ran longer than 5 s",
    ),
    "it waited too long": (
        dead(DeadReason.EXPIRED),
        "dead",
        "It became a dead letter 30 s ago: it was not started before it expired.",
    ),
    "its letter is gone": (
        facts(JobState.DEAD, replace(JOB, starts=1, attempts=(attempt(),)), finished_at=NOW - 30),
        "dead",
        "It ended 30 s ago: it failed after 1 attempt with ValueError: no such customer.",
    ),
    "it succeeded": (
        facts(JobState.SUCCEEDED, finished_at=NOW - 30),
        "succeeded",
        "It succeeded 30 s ago, at 2027-01-15 07:59:30 UTC.",
    ),
    "its task discarded it": (
        facts(
            JobState.DISCARDED,
            replace(JOB, attempts=(attempt(OutcomeKind.DISCARDED, Failure(exception_class="d", message="old")),)),
            finished_at=NOW - 30,
        ),
        "discarded",
        "Its task discarded it 30 s ago: old.",
    ),
}


@pytest.mark.parametrize(("given", "code", "text"), SITUATIONS.values(), ids=SITUATIONS)
def test_the_decisive_reason_is_the_first(given, code, text):
    first = explain(given)[0]
    assert (first.code, first.text) == (code, text)


def codes(given):
    return [reason.code for reason in explain(given)]


def test_everything_that_keeps_a_ready_job_is_told():
    paused = QueueCounts(queue="mails", ready=9, paused=True)
    assert codes(facts(queue=paused, workers=(), ahead=3)) == ["paused", "no_worker", "behind"]


def test_busy_slots_are_not_blamed_when_the_queue_is_paused():
    paused = QueueCounts(queue="mails", ready=9, paused=True)
    assert codes(facts(queue=paused, workers=(replace(WORKER, running=4),))) == ["paused"]


def test_a_job_that_is_next_is_not_called_next_while_something_keeps_it():
    assert "next" not in codes(facts(workers=()))


@pytest.mark.parametrize(
    ("limit", "standing"),
    [
        (JobLimit(concurrency_key="k", count=2), {"permit_holders": ("j8",)}),
        (JobLimit(rate_key="k", interval=6.0), {"rate_free_at": NOW - 1}),
        (JobLimit(rate_key="k", interval=6.0), {}),
        (None, {}),
    ],
)
def test_a_limit_that_is_not_reached_is_not_blamed(limit, standing):
    assert codes(facts(job=replace(JOB, limit=limit), **standing)) == ["next"]


def test_the_holders_of_a_limit_are_linked_and_only_some_are_named():
    holders = tuple(f"j{number}" for number in range(10))
    job = replace(JOB, limit=JobLimit(concurrency_key="k", count=10))
    reason = explain(facts(job=job, permit_holders=holders))[0]
    assert reason.jobs == holders[:5]
    assert reason.text == "Its limit 'k' is full: 10 of 10 run, held by j0, j1, j2, j3, j4 and 5 more."


def test_a_delayed_job_tells_what_will_keep_it_when_its_time_comes():
    paused = QueueCounts(queue="mails", scheduled=1, paused=True)
    assert codes(facts(JobState.SCHEDULED, replace(JOB, run_after=NOW + 9), queue=paused)) == ["not_due", "paused"]


def test_a_running_job_tells_its_progress_and_its_cancellation():
    progress = Progress(done=40, total=100, message="mailing", updated_at=NOW - 3)
    reasons = explain(leased(progress=progress, cancel_requested=True))
    assert [reason.code for reason in reasons] == ["running", "cancelling", "progress"]
    assert reasons[-1].text == "It has done 40 of 100 (mailing), as told 3 s ago."


@pytest.mark.parametrize(
    ("rescues", "limit", "text"),
    [(0, 0, "it becomes a dead letter"), (1, 3, "it is started again (rescue 2 of 3)")],
)
def test_a_lost_lease_tells_what_happens_next(rescues, limit, text):
    job = replace(JOB, rescue_count=rescues, max_rescues=limit)
    assert text in explain(leased(job=job, lease_until=NOW - 1))[0].hint


def test_a_lost_lease_without_any_worker_says_that_nobody_takes_over():
    assert explain(leased(lease_until=None, workers=()))[0].hint.startswith("No worker is running that could take")


@pytest.mark.parametrize(("holder", "named"), [("j7", "j7"), ("", "another job")])
def test_a_dead_letter_tells_who_holds_its_unique_key(holder, named):
    reason = explain(dead(key_holder=holder))[1]
    assert reason.code == "key_held"
    assert reason.text == f"A retry would be refused: its unique key is held by {named}."
    assert reason.jobs == ((holder,) if holder else ())


def test_a_dead_letter_whose_task_is_gone_says_so():
    assert codes(dead(task_problem="gone")) == ["dead", "unknown_task"]


def test_an_unknown_id_tells_what_may_have_become_of_it():
    (reason,) = unknown("nope")
    assert reason.code == "unknown"
    assert "'nope'" in reason.text
    assert "duplicate" in reason.hint

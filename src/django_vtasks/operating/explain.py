"""Why a job is not running, or what became of it: from facts to reasons. Pure.

A reason has a code for programs and a sentence for people; the first one is what keeps the job, the others hold too.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ..jobs.model import DeadReason, Failure, Job, JobRecord, JobState, OutcomeKind
from ..stores.base import MAX_AHEAD, QueueCounts, Standing, WorkerInfo
from .wording import counted, duration, moment, short_class, shortened

SHOWN_HOLDERS = 5
"""How many holders of a limit are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about one job at one moment.

    `queue` are the counts of its queue (None when the store lists no such queue), `workers` are all live ones, and
    `task_problem` says why its task cannot be found in this code (None = it is there).
    """

    standing: Standing
    queue: QueueCounts | None = None
    workers: tuple[WorkerInfo, ...] = ()
    task_problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that is so, and what can be done about it. `jobs` are the ids of other jobs it speaks of."""

    code: str
    text: str
    hint: str = ""
    jobs: tuple[str, ...] = ()


def explain(facts: Facts) -> tuple[Reason, ...]:
    """The reasons, the decisive one first; never empty."""
    return tuple(_BY_STATE[facts.standing.record.state](facts))


def unknown(job_id: str) -> tuple[Reason, ...]:
    """The reasons for an id of which the store knows nothing."""
    return (
        Reason(
            code="unknown",
            text=f"Nothing is known of a job {job_id!r}.",
            hint="It never was, its result was kept its time and is gone, its enqueue was refused as a duplicate of a "
            "unique job, or its transaction was rolled back.",
        ),
    )


# --- waiting ---------------------------------------------------------------------------------------------------------


def _ready(facts: Facts) -> Iterator[Reason]:
    standing, job = facts.standing, facts.standing.record.job
    yield from _doomed(facts)
    blocked = [*_paused(facts), *_without_worker(facts)]
    yield from blocked
    if not blocked:
        blocked = [*_busy(facts), *_limited(standing, job)]
        yield from blocked
    yield from _behind(standing, job)
    if standing.ahead == 0 and not blocked:
        yield Reason(code="next", text=f"It is the next job of the queue {job.queue!r}.")


def _scheduled(facts: Facts) -> Iterator[Reason]:
    standing, job = facts.standing, facts.standing.record.job
    due = job.run_after or 0.0
    if due > standing.now:
        yield Reason(
            code="not_due",
            text=f"{_why_later(job)}: due in {duration(due - standing.now)}, at {moment(due)}.",
            hint="Run it now, if it shall not wait.",
        )
    else:
        yield Reason(
            code="overdue",
            text=f"It has been due for {duration(standing.now - due)} and was not made ready yet.",
            hint="A live worker does this every second.",
        )
    yield from _doomed(facts)
    yield from _paused(facts)
    yield from _without_worker(facts)


def _why_later(job: Job) -> str:
    last = job.attempts[-1] if job.attempts else None
    if last is None:
        return "It waits for its time"
    if last.outcome is OutcomeKind.SNOOZED:
        return f"Attempt {last.number} snoozed"
    if last.failure is None:
        return f"It waits for its next attempt after attempt {last.number} ({last.outcome.value})"
    return f"It waits for its next attempt after attempt {last.number} failed with {_failure(last.failure)}"


def _doomed(facts: Facts) -> Iterator[Reason]:
    standing, job = facts.standing, facts.standing.record.job
    if facts.task_problem:
        yield Reason(
            code="unknown_task",
            text=f"Its task does not exist in this code: {facts.task_problem}",
            hint="A worker that runs this code makes it a dead letter. Deploy the task, then retry it.",
        )
    if job.expires_at is not None and job.expires_at <= standing.now:
        yield Reason(
            code="expired",
            text=f"It expired {duration(standing.now - job.expires_at)} ago, so it will not be started.",
            hint="The worker that claims it makes it a dead letter.",
        )


def _paused(facts: Facts) -> Iterator[Reason]:
    queue = facts.queue
    if queue and queue.paused:
        yield Reason(
            code="paused",
            text=f"The queue {queue.queue!r} is paused.",
            hint=f"Resume it: manage.py vtasks resume {queue.queue}",
        )


def _without_worker(facts: Facts) -> Iterator[Reason]:
    name = facts.standing.record.job.queue
    if not facts.workers:
        yield Reason(
            code="no_worker",
            text="No worker is running.",
            hint=f"Start one: manage.py runworker --queue {name}",
        )
    elif not _serving(facts):
        others = sorted({queue for worker in facts.workers for queue in worker.queues})
        running = counted(len(facts.workers), "live worker serves", "live workers serve")
        yield Reason(
            code="no_worker",
            text=f"No live worker serves the queue {name!r}; {running} {', '.join(others) or 'no queue'}.",
            hint=f"Start one: manage.py runworker --queue {name}, or add the queue to VTASKS_QUEUES.",
        )


def _serving(facts: Facts) -> list[WorkerInfo]:
    return [worker for worker in facts.workers if facts.standing.record.job.queue in worker.queues]


def _busy(facts: Facts) -> Iterator[Reason]:
    serving = _serving(facts)
    slots = sum(worker.concurrency for worker in serving)
    used = sum(worker.running for worker in serving)
    if used >= slots:
        yield Reason(
            code="busy",
            text=f"All {counted(slots, 'slot')} of {counted(len(serving), 'worker')} serving this queue are busy.",
            hint="See what they run; more workers or a higher --concurrency start it sooner.",
        )


def _limited(standing: Standing, job: Job) -> Iterator[Reason]:
    limit = job.limit
    if limit is None:
        return
    holders = standing.permit_holders
    if limit.concurrency_key is not None and len(holders) >= limit.count:
        more = len(holders) - SHOWN_HOLDERS
        some = ", ".join(holders[:SHOWN_HOLDERS]) + (f" and {more:,} more" if more > 0 else "")
        yield Reason(
            code="limit_full",
            text=f"Its limit {limit.concurrency_key!r} is full: {len(holders)} of {limit.count} run, held by {some}.",
            hint="It starts when one of them ends.",
            jobs=holders[:SHOWN_HOLDERS],
        )
    if standing.rate_free_at is not None and standing.rate_free_at > standing.now:
        wait = duration(standing.rate_free_at - standing.now)
        yield Reason(code="rate_limited", text=f"Its rate {limit.rate_key!r} lets the next job start in {wait}.")


def _behind(standing: Standing, job: Job) -> Iterator[Reason]:
    if not standing.ahead:
        return
    more = "at least " if standing.ahead >= MAX_AHEAD else ""
    text = f"It is behind {more}{counted(standing.ahead, 'job')} of the queue {job.queue!r}"
    if standing.ahead_by_priority:
        text += f", {standing.ahead_by_priority:,} of them of higher priority than its {job.priority}"
    yield Reason(code="behind", text=f"{text}.")


# --- running ---------------------------------------------------------------------------------------------------------


def _leased(facts: Facts) -> Iterator[Reason]:
    standing, record = facts.standing, facts.standing.record
    if record.running is None:
        yield Reason(code="running", text="It is running; the store does not say where.")
        return
    worker_id, since = record.running.worker_id, record.running.started_at
    for_so_long = f"since {moment(since)}, for {duration(standing.now - since)}"
    if standing.lease_until is None or standing.lease_until <= standing.now:
        yield _lease_lost(facts, worker_id, for_so_long)
    else:
        where = next((_place(worker) for worker in facts.workers if worker.incarnation == worker_id), worker_id)
        attempt = f"attempt {record.job.starts + 1}"
        yield Reason(code="running", text=f"It is running on {where} {for_so_long} ({attempt}).")
    yield from _cancelling(standing)
    yield from _progress(standing)


def _place(worker: WorkerInfo) -> str:
    return f"worker {worker.worker_id} (host {worker.host}, pid {worker.pid})"


def _lease_lost(facts: Facts, worker_id: str, for_so_long: str) -> Reason:
    job = facts.standing.record.job
    after = (
        f"its rescue limit is reached ({job.rescue_count} of {job.max_rescues}), so it becomes a dead letter"
        if job.rescue_count >= job.max_rescues
        else f"it is started again (rescue {job.rescue_count + 1} of {job.max_rescues})"
    )
    hint = f"A live worker takes it over within VTASKS_RESCUE_INTERVAL seconds: {after}."
    if not facts.workers:
        hint = f"No worker is running that could take it over. Start one: {after}."
    return Reason(
        code="lease_expired",
        text=f"It was running on {worker_id} {for_so_long}; that worker's lease has run out.",
        hint=hint,
    )


def _cancelling(standing: Standing) -> Iterator[Reason]:
    if standing.cancel_requested:
        yield Reason(code="cancelling", text="Its cancellation is requested; its worker is told within a second.")


def _progress(standing: Standing) -> Iterator[Reason]:
    progress = standing.record.progress
    if progress is None:
        return
    done = f"{progress.done:g}" if progress.total is None else f"{progress.done:g} of {progress.total:g}"
    message = f" ({progress.message})" if progress.message else ""
    ago = duration(standing.now - progress.updated_at)
    yield Reason(code="progress", text=f"It has done {done}{message}, as told {ago} ago.")


# --- over ------------------------------------------------------------------------------------------------------------


def _dead(facts: Facts) -> Iterator[Reason]:
    standing, record = facts.standing, facts.standing.record
    when = f"{duration(standing.now - record.finished_at)} ago" if record.finished_at else "some time ago"
    kept = record.letter is not None
    yield Reason(
        code="dead",
        text=f"{'It became a dead letter' if kept else 'It ended'} {when}: {_dead_because(record)}",
        hint=_DEAD_HINTS.get(record.letter.reason, "") if record.letter else "Its dead letter was removed.",
    )
    if standing.key_holder is not None and kept:
        yield Reason(
            code="key_held",
            text=f"A retry would be refused: its unique key is held by {standing.key_holder or 'another job'}.",
            jobs=(standing.key_holder,) if standing.key_holder else (),
        )
    if facts.task_problem and record.letter and record.letter.job:
        yield Reason(code="unknown_task", text=f"Its task does not exist in this code: {facts.task_problem}")


_DEAD_HINTS = {
    DeadReason.FAILED: "Retry it once the cause is removed.",
    DeadReason.TIMED_OUT: "Retry it, with a longer timeout if the task needs one.",
    DeadReason.RESCUED_TOO_OFTEN: "Find out what killed these workers (out of memory?) before retrying it.",
    DeadReason.EXPIRED: "It waited longer than its `expires` allows: look at the workers of its queue.",
    DeadReason.UNDECODABLE: "Its bytes are kept; export it to see them.",
    DeadReason.UNKNOWN_TASK: "Deploy the task's code, then retry it.",
}


def _dead_because(record: JobRecord) -> str:
    failure = _last_failure(record)
    attempts = counted(record.job.starts, "attempt")
    reason = record.letter.reason if record.letter else None
    match reason:
        case DeadReason.CANCELLED:
            return "it was cancelled."
        case DeadReason.EXPIRED:
            return "it was not started before it expired."
        case DeadReason.RESCUED_TOO_OFTEN:
            return f"its workers died too often. {_message(failure)}"
        case DeadReason.UNDECODABLE:
            return f"its bytes are not a job. {_message(failure)}"
        case DeadReason.UNKNOWN_TASK:
            return f"its task was not found. {_message(failure)}"
        case DeadReason.TIMED_OUT:
            return f"it timed out after {attempts}. {_message(failure)}"
        case _:
            return f"it failed after {attempts} with {_failure(failure)}."


def _last_failure(record: JobRecord) -> Failure:
    if record.letter:
        return record.letter.failure
    failures = [attempt.failure for attempt in record.job.attempts if attempt.failure]
    return failures[-1] if failures else Failure(exception_class="", message="")


def _message(failure: Failure) -> str:
    return shortened(failure.message, 300)


def _failure(failure: Failure) -> str:
    name = short_class(failure.exception_class) or "an error"
    return f"{name}: {_message(failure)}" if failure.message else name


def _finished(facts: Facts) -> Iterator[Reason]:
    standing, record = facts.standing, facts.standing.record
    when = f"{duration(standing.now - record.finished_at)} ago" if record.finished_at else "some time ago"
    if record.state is JobState.SUCCEEDED:
        yield Reason(code="succeeded", text=f"It succeeded {when}, at {moment(record.finished_at)}.")
        return
    failure = _last_failure(record)
    because = f": {_message(failure)}" if failure.message else ""
    yield Reason(code="discarded", text=f"Its task discarded it {when}{because}.")


_BY_STATE = {
    JobState.SCHEDULED: _scheduled,
    JobState.READY: _ready,
    JobState.LEASED: _leased,
    JobState.DEAD: _dead,
    JobState.SUCCEEDED: _finished,
    JobState.DISCARDED: _finished,
}

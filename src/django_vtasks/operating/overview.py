"""One alias at a glance: queues, workers and what they run, and what needs attention."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ..jobs.errors import QueueError
from ..jobs.model import JobRecord, JobState
from ..stores.base import AdminStore, JobFilter, LetterGroup, QueueCounts, WorkerInfo
from ..tasks.redaction import veiled_group
from .aliases import Alias
from .history import NO_HISTORY, History, histories
from .wording import counted, duration, short_class, shortened

LONG_WAIT = 300.0
"""Seconds after which the wait of a ready job needs attention."""

LONG_RUN = 3600.0
"""Seconds after which a running attempt needs attention."""

SHOWN = 200
"""How many running jobs are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One queue: its counts, the slots of the live workers that serve it, and its last hour."""

    counts: QueueCounts
    workers: int
    slots: int
    busy: int
    history: History = NO_HISTORY

    def oldest_wait(self, now: float) -> float | None:
        """How long the oldest ready job has been waiting, in seconds."""
        oldest = self.counts.oldest_ready_at
        return None if oldest is None else max(0.0, now - oldest)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One live worker and the jobs it runs (the longest first)."""

    info: WorkerInfo
    running: tuple[JobRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that needs attention. `state`, `queue` and `fingerprint` say which jobs it is about."""

    severity: str
    text: str
    hint: str = ""
    queue: str | None = None
    state: JobState | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """One alias at one moment. With a `problem` (the store cannot be reached) all else is empty."""

    alias: str
    at: float
    queues: tuple[QueueView, ...] = ()
    workers: tuple[WorkerView, ...] = ()
    lost: tuple[JobRecord, ...] = ()
    groups: tuple[LetterGroup, ...] = ()
    findings: tuple[Finding, ...] = ()
    problem: str | None = None

    def total(self, field: str) -> int:
        """The sum of one count over all queues: ready, scheduled, leased or dead."""
        return sum(int(getattr(queue.counts, field)) for queue in self.queues)


def overview_of(alias: Alias, *, now: float | None = None) -> Overview:
    """The alias as it is; never raises for a store that cannot be reached."""
    at = time.time() if now is None else now
    try:
        return _look(alias.name, alias.admin, alias.configured_queues(), at)
    except QueueError as error:
        return Overview(alias=alias.name, at=at, problem=str(error))


def _look(name: str, store: AdminStore, configured: set[str], at: float) -> Overview:
    infos = store.workers()
    counts = {count.queue: count for count in store.counts()}
    served = {queue for info in infos for queue in info.queues}
    for queue in (configured | served) - counts.keys():
        counts[queue] = QueueCounts(queue=queue)
    running = store.page(JobFilter(state=JobState.LEASED), limit=SHOWN).records
    live = {info.incarnation for info in infos}
    past = histories(store.samples(), at)
    queues = tuple(_queue_view(counts[queue], infos, past.get(queue, NO_HISTORY)) for queue in sorted(counts))
    workers = tuple(_worker_view(info, running) for info in infos)
    lost = tuple(record for record in running if record.running and record.running.worker_id not in live)
    groups = tuple(map(veiled_group, store.letter_groups(limit=5) if any(c.dead for c in counts.values()) else ()))
    seen = Overview(
        alias=name, at=at, queues=queues, workers=workers, lost=lost, groups=tuple(map(veiled_group, groups))
    )
    return Overview(
        alias=name,
        at=at,
        queues=queues,
        workers=workers,
        lost=lost,
        groups=groups,
        findings=tuple(findings(seen)),
    )


def _queue_view(counts: QueueCounts, infos: Sequence[WorkerInfo], history: History) -> QueueView:
    serving = [info for info in infos if counts.queue in info.queues]
    return QueueView(
        counts=counts,
        workers=len(serving),
        slots=sum(info.concurrency for info in serving),
        busy=sum(info.running for info in serving),
        history=history,
    )


def _worker_view(info: WorkerInfo, running: Sequence[JobRecord]) -> WorkerView:
    mine = [record for record in running if record.running and record.running.worker_id == info.incarnation]
    return WorkerView(info=info, running=tuple(sorted(mine, key=_since)))


def _since(record: JobRecord) -> float:
    return record.running.started_at if record.running else 0.0


# --- what needs attention --------------------------------------------------------------------------------------------


def findings(seen: Overview) -> Iterator[Finding]:
    """What an operator should look at, the worst first. Pure."""
    found = [finding for queue in seen.queues for finding in _about_queue(queue, seen)]
    found += [*_about_lost(seen), *_about_long_runs(seen), *_about_letters(seen)]
    yield from sorted(found, key=lambda finding: _SEVERITIES.index(finding.severity))


_SEVERITIES = ("error", "warning", "info")


def _about_queue(queue: QueueView, seen: Overview) -> Iterator[Finding]:
    counts = queue.counts
    name = repr(counts.queue)
    waiting = counts.ready + counts.scheduled
    state = JobState.READY if counts.ready else JobState.SCHEDULED
    if not waiting and not counts.paused:
        return
    if counts.paused:
        text = f"The queue {name} is paused; {counted(counts.ready, 'ready job waits', 'ready jobs wait')}."
        severity = "warning" if waiting else "info"
        yield Finding(severity=severity, text=text, queue=counts.queue, state=state)
    elif not queue.workers:
        what = "No worker is running" if not seen.workers else f"No live worker serves the queue {name}"
        yield Finding(
            severity="error" if counts.ready else "warning",
            text=f"{what}: {counted(waiting, 'job waits', 'jobs wait')} in {name}.",
            hint=f"Start one: manage.py runworker --queue {counts.queue}",
            queue=counts.queue,
            state=state,
        )
    elif (wait := queue.oldest_wait(seen.at) or 0.0) > LONG_WAIT:
        why = "all slots are busy" if queue.busy >= queue.slots else "slots are free: see why it is not running"
        text = f"The oldest ready job of {name} has been waiting for {duration(wait)}; {why}."
        yield Finding(severity="warning", text=text, queue=counts.queue, state=JobState.READY)


def _about_lost(seen: Overview) -> Iterator[Finding]:
    if not seen.lost:
        return
    owners = sorted({record.running.worker_id for record in seen.lost if record.running})
    held = counted(len(seen.lost), "job is", "jobs are")
    yield Finding(
        severity="warning" if seen.workers else "error",
        text=f"{held} held by {', '.join(owners[:3])}, of which nothing is heard.",
        hint="A live worker takes them over when the lease has run out."
        if seen.workers
        else "No worker is running that could take them over.",
        state=JobState.LEASED,
    )


def _about_long_runs(seen: Overview) -> Iterator[Finding]:
    records = [record for worker in seen.workers for record in worker.running]
    long = sorted((r for r in records if seen.at - _since(r) > LONG_RUN), key=lambda record: record.job.func)
    for func, group in groupby(long, key=lambda record: record.job.func):
        runs = list(group)
        longest = duration(seen.at - min(map(_since, runs)))
        text = f"{counted(len(runs), 'attempt')} of {func} running for up to {longest}."
        yield Finding(severity="info", text=text, state=JobState.LEASED)


def _about_letters(seen: Overview) -> Iterator[Finding]:
    for group in seen.groups:
        ago = duration(seen.at - group.last_failed_at)
        yield Finding(
            severity="info",
            text=f"{counted(group.count, 'dead letter')}: {_what_failed(group)}, last {ago} ago.",
            state=JobState.DEAD,
            fingerprint=group.fingerprint,
        )


def _what_failed(group: LetterGroup) -> str:
    where = group.func or "undecodable jobs"
    if group.exception_class:
        return f"{short_class(group.exception_class)} in {where}"
    # The 3.2 line tells the class in the traceback only, and for a job that lost its workers there is none.
    return f"{where} failed" + (f" ({shortened(group.message, 60)})" if group.message else "")

"""What must be true when nothing is left to do, whatever happened before. Each check returns sentences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django_vtasks.jobs.model import DeadReason, JobRecord, JobState, OutcomeKind
from gauntlet.feed import BATCHED, Call
from gauntlet.fleet import Worker
from gauntlet.ledger import Run

RESCUED_TOO_OFTEN = DeadReason.RESCUED_TOO_OFTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known at the end. `rescues` says how often a job of a kind may be rescued, `forgotten` which jobs
    the store may know nothing of, because it lost its data."""

    accepted: Mapping[str, Call]
    unsure: Iterable[Call]
    records: Mapping[str, JobRecord | None]
    runs: Mapping[str, list[Run]]
    workers: list[Worker]
    rescues: Mapping[str, int]
    forgotten: Collection[str] = ()


def problems(evidence: Evidence) -> list[str]:
    """Everything that is wrong with the jobs."""
    found = list(_strangers(evidence))
    for job_id, call in evidence.accepted.items():
        judge = _Judge(evidence, job_id, call)
        found += [f"{call.label} ({job_id}): {problem}" for problem in judge.problems()]
    return found


def _strangers(evidence: Evidence) -> Iterator[str]:
    """A job that ran was accepted, or its call raised at a moment when it may have been."""
    labels = {call.label for call in evidence.unsure}
    for job_id, runs in evidence.runs.items():
        if job_id not in evidence.accepted:
            if runs[0].label not in labels:
                yield f"{runs[0].label} ({job_id}): ran, but was never enqueued, or is there twice"
            labels.discard(runs[0].label)


class _Judge:
    """Judges one job by its record and its runs."""

    def __init__(self, evidence: Evidence, job_id: str, call: Call) -> None:
        self.record = evidence.records[job_id]
        self.runs = evidence.runs.get(job_id, [])
        self.call = call
        self.rescues = evidence.rescues.get(call.kind, 0)
        self.forgotten = job_id in evidence.forgotten
        self.workers = {worker.pid: worker for worker in evidence.workers}
        self.by_incarnation = {worker.incarnation: worker for worker in evidence.workers}

    def problems(self) -> Iterator[str]:
        record = self.record
        if record is None:
            if not self.forgotten:
                yield "lost: the store knows nothing of it"
            yield from self._doubles()
            return
        if record.state not in (JobState.SUCCEEDED, JobState.DEAD):
            yield f"is {record.state} although nothing is left to do"
            return
        yield from self._history(record)
        yield from self._runs(record)
        if record.state is JobState.SUCCEEDED:
            yield from self._success(record)
        else:
            yield from self._death(record)

    def _doubles(self) -> Iterator[str]:
        for attempt, count in Counter(run.attempt for run in self.runs).items():
            if count > 1:
                yield f"attempt {attempt} ran {count} times"

    def _history(self, record: JobRecord) -> Iterator[str]:
        """Every attempt but the last ended for a reason that the scenario gave."""
        attempts = record.job.attempts
        if [attempt.number for attempt in attempts] != list(range(1, len(attempts) + 1)):
            yield f"has attempts numbered {[attempt.number for attempt in attempts]}"
        for attempt in attempts:
            worker = self.by_incarnation.get(attempt.worker_id)
            if worker is None:
                yield f"attempt {attempt.number} was made by {attempt.worker_id}, which is no worker of this run"
            elif attempt.outcome is OutcomeKind.LEASE_EXPIRED and not worker.lapsed:
                yield f"was taken from {worker.name}, whose lease cannot have run out"
            elif attempt.outcome is OutcomeKind.INTERRUPTED and not worker.stopped:
                yield f"was interrupted on {worker.name}, which nobody stopped"
        outcomes = [attempt.outcome for attempt in attempts]
        rescued = outcomes.count(OutcomeKind.LEASE_EXPIRED)
        allowed = self.rescues + (record.state is JobState.DEAD)
        if rescued > allowed:
            yield f"lost its lease {rescued} times, at most {allowed} are allowed"
        if record.state is JobState.SUCCEEDED and rescued != record.job.rescue_count:
            yield f"lost its lease {rescued} times, but counts {record.job.rescue_count} rescues"
        raised = outcomes.count(OutcomeKind.RAISED)
        if raised != (self.call.kind == "retried") and not (raised == 0 and rescued):
            yield f"raised {raised} times"

    def _runs(self, record: JobRecord) -> Iterator[str]:
        """No attempt ran twice, none ran that the history does not know, and each ran where the history says."""
        attempts = {attempt.number: attempt for attempt in record.job.attempts}
        yield from self._doubles()
        for run in self.runs:
            attempt, worker = attempts.get(run.attempt), self.workers.get(run.pid)
            if attempt is None:
                yield f"attempt {run.attempt} ran, but the job ended with attempt {max(attempts, default=0)}"
            elif worker is None or attempt.worker_id != worker.incarnation:
                yield f"attempt {run.attempt} ran on {worker.name if worker else run.pid}, not on {attempt.worker_id}"

    def _success(self, record: JobRecord) -> Iterator[str]:
        """The settled outcome is that of the last attempt, which ran to its end."""
        last = record.job.attempts[-1] if record.job.attempts else None
        if last is None or last.outcome is not OutcomeKind.SUCCEEDED:
            yield f"succeeded, but its last attempt is {last and last.outcome}"
            return
        runs = [run for run in self.runs if run.attempt == last.number]
        if not runs or runs[0].ended is None:
            yield f"succeeded, but attempt {last.number} did not run to its end"
            return
        value: Any = json.loads(record.value or b"null")
        if self.call.kind not in BATCHED and value != runs[0].nonce:
            yield f"its value {value} is not what attempt {last.number} returned"

    def _death(self, record: JobRecord) -> Iterator[str]:
        """A dead letter is that of a job whose workers died more often than it may be rescued; it names them."""
        letter = record.letter
        if letter is None or not letter.raw:
            yield "is dead, but its letter is gone"
            return
        if letter.reason is not RESCUED_TOO_OFTEN:
            yield f"is a dead letter: {letter.reason}, {letter.failure.message}"
            return
        expired = [a.worker_id for a in record.job.attempts if a.outcome is OutcomeKind.LEASE_EXPIRED]
        if len(expired) != self.rescues + 1:
            yield f"is a dead letter after {len(expired)} crashes, {self.rescues + 1} are the limit"
        if unnamed := [worker for worker in expired if worker not in letter.failure.message]:
            yield f"its letter does not name {', '.join(unnamed)}"


def summary(evidence: Evidence) -> dict[str, int]:
    """Numbers for the report."""
    records = [record for record in evidence.records.values() if record is not None]
    return {
        "jobs": len(evidence.accepted),
        "unsure": len(list(evidence.unsure)),
        "runs": sum(map(len, evidence.runs.values())),
        "rescued": sum(record.job.rescue_count > 0 for record in records),
        "dead": sum(record.state is JobState.DEAD for record in records),
    }

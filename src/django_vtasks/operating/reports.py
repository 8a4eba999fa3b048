"""What the store says, as JSON for programs. Moments are ISO 8601 with their zone, arguments are redacted."""

from dataclasses import asdict
from typing import Any

import orjson

from ..jobs.model import Attempt, Failure, JobRecord
from ..stores.base import LetterGroup
from ..tasks.redaction import Hide, Redaction, hiding, redaction_of, shown_value
from .explain import Reason
from .overview import Overview, QueueView, WorkerView
from .wording import iso

NOTHING_HIDDEN = Redaction(hides_secrets=False)
"""For operators who ask to see everything."""


def overview_report(seen: Overview) -> dict[str, Any]:
    """One alias at a glance."""
    return {
        "alias": seen.alias,
        "problem": seen.problem,
        "queues": [queue_report(queue, seen.at) for queue in seen.queues],
        "workers": [worker_report(worker) for worker in seen.workers],
        "findings": [
            {"severity": finding.severity, "text": finding.text, "hint": finding.hint, "queue": finding.queue}
            for finding in seen.findings
        ],
    }


def queue_report(queue: QueueView, at: float) -> dict[str, Any]:
    """One queue; `oldest_ready_seconds` is how long its oldest ready job waits, `per_minute` how fast it goes now."""
    counts = queue.counts
    return {
        "queue": counts.queue,
        "ready": counts.ready,
        "delayed": counts.scheduled,
        "running": counts.leased,
        "dead": counts.dead,
        "oldest_ready_seconds": queue.oldest_wait(at),
        "paused": counts.paused,
        "workers": queue.workers,
        "slots": queue.slots,
        "busy": queue.busy,
        "per_minute": asdict(queue.history.rates),
    }


def worker_report(worker: WorkerView) -> dict[str, Any]:
    """One worker and the ids of the jobs it runs."""
    info = worker.info
    return {
        "worker": info.worker_id,
        "incarnation": info.incarnation,
        "host": info.host,
        "pid": info.pid,
        "version": info.version,
        "queues": list(info.queues),
        "slots": info.concurrency,
        "busy": info.running,
        "started": iso(info.started_at),
        "seen": iso(info.seen_at),
        "running": [record.job.id for record in worker.running],
    }


def job_report(alias: str, record: JobRecord, redaction: Redaction | None = None) -> dict[str, Any]:
    """One job with its history."""
    job, hide = record.job, redaction or redaction_of(record.job)
    args, kwargs = hide.arguments(job.args, job.kwargs)
    hidden = hiding(hide, [(job.args, job.kwargs)])
    report: dict[str, Any] = {
        "id": job.id,
        "alias": alias,
        "state": record.state.value,
        "task": job.func,
        "args": args,
        "kwargs": kwargs,
        "queue": job.queue,
        "priority": job.priority,
        "enqueued": iso(job.enqueued_at or None),
        "due": iso(job.run_after),
        "attempts": [_attempt(attempt, hidden) for attempt in job.attempts],
        "metadata": shown_value(job, job.metadata, hide),
        "retry_of": job.retry_of,
        "finished": iso(record.finished_at),
    }
    if record.running:
        report["running"] = {"worker": record.running.worker_id, "since": iso(record.running.started_at)}
    if record.progress:
        progress = record.progress
        report["progress"] = {"done": progress.done, "total": progress.total, "message": hidden(progress.message)}
    if record.value is not None:
        report["value"] = shown_value(job, orjson.loads(record.value), hide)
    if record.letter:
        letter = record.letter
        report["letter"] = {
            "reason": letter.reason.value,
            "first_failed": iso(letter.first_failed_at),
            "failed": iso(letter.failed_at),
            **_failure(letter.failure, hidden),
        }
    return report


def group_report(group: LetterGroup) -> dict[str, Any]:
    """Dead letters that look alike."""
    return {
        "fingerprint": group.fingerprint,
        "task": group.func,
        "class": group.exception_class,
        "message": group.message,
        "count": group.count,
        "first_failed": iso(group.first_failed_at),
        "last_failed": iso(group.last_failed_at),
    }


def reason_report(reason: Reason) -> dict[str, Any]:
    """One reason why a job is not running."""
    return {"code": reason.code, "text": reason.text, "hint": reason.hint, "jobs": list(reason.jobs)}


def _attempt(attempt: Attempt, hide: Hide) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "worker": attempt.worker_id,
        "started": iso(attempt.started_at),
        "ended": iso(attempt.ended_at),
        "outcome": attempt.outcome.value,
        "failure": _failure(attempt.failure, hide) if attempt.failure else None,
    }


def _failure(failure: Failure, hide: Hide) -> dict[str, Any]:
    return {
        "class": failure.exception_class,
        "message": hide(failure.message),
        "traceback": hide(failure.traceback),
        "fingerprint": failure.fingerprint,
    }

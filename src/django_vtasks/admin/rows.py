"""From a store's records to what a page shows; arguments are redacted here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ..jobs.model import Attempt, JobRecord, JobState
from ..operating.wording import duration, short_class, shortened
from ..tasks.redaction import Hide, hiding_of, redaction_of, shown_value
from . import links

MAX_SHOWN = 20_000
"""Characters of one JSON text that are shown."""

STATE_LABELS: Mapping[JobState, str] = {
    JobState.READY: "Ready",
    JobState.SCHEDULED: "Delayed",
    JobState.LEASED: "Running",
    JobState.SUCCEEDED: "Succeeded",
    JobState.DISCARDED: "Discarded by task",
    JobState.DEAD: "Dead",
}

TIME_LABELS: Mapping[JobState, str] = {
    JobState.READY: "Enqueued",
    JobState.SCHEDULED: "Due",
    JobState.LEASED: "Started",
    JobState.SUCCEEDED: "Finished",
    JobState.DISCARDED: "Finished",
    JobState.DEAD: "Failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One line of a list."""

    id: str
    url: str
    name: str
    module: str
    arguments: str
    queue: str
    priority: int
    attempts: int
    at: float | None
    detail: str
    progress: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """One attempt of a job's history."""

    number: int
    worker_id: str
    started_at: float
    took: str
    outcome: str
    failed: bool
    error: str
    traceback: str


def job_row(alias: str, record: JobRecord) -> JobRow:
    """The line of a job."""
    job = record.job
    module, _, name = job.func.rpartition(".")
    return JobRow(
        id=job.id,
        url=links.job(alias, job.id),
        name=name or "undecodable",
        module=module,
        arguments=_call(record),
        queue=job.queue,
        priority=job.priority,
        attempts=job.starts + (record.running is not None),
        at=_moment(record),
        detail=_detail(record),
        progress=percent(record),
    )


def percent(record: JobRecord) -> int | None:
    """How much of a job is done, None when it does not tell."""
    progress = record.progress
    if progress is None or not progress.total:
        return None
    return round(100 * min(1.0, max(0.0, progress.done / progress.total)))


def attempt_rows(record: JobRecord) -> list[AttemptRow]:
    """The history of a job, the latest attempt first; what is hidden of its arguments is hidden in errors too."""
    hide = hiding_of(record.job)
    return [_attempt_row(attempt, hide) for attempt in reversed(record.job.attempts)]


def letter_traceback(record: JobRecord) -> str:
    """The traceback of a dead letter, unless the history shows the same."""
    if record.letter is None:
        return ""
    shown = [attempt.failure.traceback for attempt in record.job.attempts if attempt.failure]
    traceback = record.letter.failure.traceback
    return "" if traceback in shown else hiding_of(record.job)(traceback)


def arguments(record: JobRecord) -> tuple[str, str]:
    """The positional and the named arguments as JSON, redacted."""
    args, kwargs = redaction_of(record.job).arguments(record.job.args, record.job.kwargs)
    return pretty(args), pretty(kwargs)


def value_of(record: JobRecord) -> str | None:
    """The return value as JSON, redacted; None when there is none."""
    if record.value is None:
        return None
    try:
        return pretty(shown_value(record.job, orjson.loads(record.value)))
    except ValueError:
        return shortened(record.value.decode("utf-8", "replace"), MAX_SHOWN)


def raw_of(record: JobRecord) -> str | None:
    """The bytes of a dead letter that are not a job, as far as they can be read; None for any other."""
    letter = record.letter
    if letter is None or letter.job is not None:
        return None
    return letter.raw[:MAX_SHOWN].decode("utf-8", "backslashreplace")


def metadata_of(record: JobRecord) -> str | None:
    """The metadata as JSON, redacted; None when there is none."""
    return pretty(shown_value(record.job, record.job.metadata)) if record.job.metadata else None


def pretty(value: Any) -> str:
    """JSON for people, cut where it gets too long to read."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}\n… ({len(text):,} characters in all)"


def _attempt_row(attempt: Attempt, hide: Hide) -> AttemptRow:
    failure = attempt.failure
    return AttemptRow(
        number=attempt.number,
        worker_id=attempt.worker_id,
        started_at=attempt.started_at,
        took=duration(attempt.ended_at - attempt.started_at),
        outcome=attempt.outcome.value.replace("_", " "),
        failed=failure is not None,
        error=_error(failure.exception_class, hide(failure.message)) if failure else "",
        traceback=hide(failure.traceback) if failure else "",
    )


def _call(record: JobRecord) -> str:
    args, kwargs = redaction_of(record.job).arguments(record.job.args, record.job.kwargs)
    parts = [_short_json(value) for value in args]
    parts += [f"{name}={_short_json(value)}" for name, value in kwargs.items()]
    return shortened(", ".join(parts), 120)


def _short_json(value: Any) -> str:
    return shortened(orjson.dumps(value).decode(), 60)


def _moment(record: JobRecord) -> float | None:
    job = record.job
    match record.state:
        case JobState.READY:
            return job.enqueued_at or None
        case JobState.SCHEDULED:
            return job.run_after
        case JobState.LEASED:
            return record.running.started_at if record.running else None
        case _:
            return record.finished_at or None


def _detail(record: JobRecord) -> str:
    hide = hiding_of(record.job)
    if record.letter:
        failure = record.letter.failure
        return _error(failure.exception_class, hide(failure.message)) or record.letter.reason.value
    if record.running:
        message = hide(record.progress.message) if record.progress else ""
        return f"{record.running.worker_id}{': ' if message else ''}{message}"
    last = record.job.attempts[-1] if record.job.attempts else None
    if last is None:
        return ""
    if last.failure:
        return f"attempt {last.number}: {_error(last.failure.exception_class, hide(last.failure.message))}"
    if record.state is JobState.SUCCEEDED:
        return f"took {duration(last.ended_at - last.started_at)}"
    return f"attempt {last.number}: {last.outcome.value.replace('_', ' ')}"


def _error(exception_class: str, message: str) -> str:
    name = short_class(exception_class)
    return shortened(": ".join(part for part in (name, message) if part), 200)

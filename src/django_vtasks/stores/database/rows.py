"""From rows to claims and records."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from ...jobs.codec import decode, decode_letter
from ...jobs.errors import CodecError
from ...jobs.model import Claim, DeadLetter, Job, JobRecord, JobState, Lease, Progress, Running, evolve_job
from ...jobs.payload import attempt_from_json, attempt_to_json
from .names import column_text
from .queries.vendor import Vendor

CLAIM_COLUMNS = ("id", "queue", "data", "worker_id", "lease_token", "claimed_at", "metadata")
JOB_COLUMNS = (
    *CLAIM_COLUMNS,
    *("status", "run_after", "progress", "progress_at", "failed_at", "first_failed_at", "created_at"),
)
RESULT_COLUMNS = ("id", "queue", "state", "data", "ending", "value", "progress", "progress_at", "finished_at")

_MOMENTS = frozenset(
    ("claimed_at", "run_after", "progress_at", "failed_at", "first_failed_at", "created_at", "finished_at")
)


def columns(vendor: Vendor, names: tuple[str, ...], table: str = "") -> str:
    """The select list that the functions below read."""
    return ", ".join(_expression(vendor, name, f"{table}.{name}" if table else name) for name in names)


def _expression(vendor: Vendor, name: str, column: str) -> str:
    if name == "id":
        return vendor.id_column(column)
    return vendor.epoch_column(column) if name in _MOMENTS else column


def claim_of(row: Any, vendor: Vendor) -> Claim:
    """The claim in a row of CLAIM_COLUMNS."""
    raw_id, queue, data, owner, token, claimed_at, metadata = row[: len(CLAIM_COLUMNS)]
    job_id = vendor.id_out(raw_id)
    raw = payload_of(data)
    lease = Lease(job_id=job_id, token=lease_token(token, job_id), owner=owner or "")
    started_at = vendor.epoch_out(claimed_at) or 0.0
    try:
        job = job_of(raw, job_id, queue, metadata)
    except CodecError as error:
        return Claim(lease=lease, raw=raw, queue=queue, started_at=started_at, job=None, defect=str(error))
    return Claim(lease=lease, raw=raw, queue=job.queue, started_at=started_at, job=job)


def claims_of_round(rows: Iterable[Any], vendor: Vendor, owner: str, token: str, started_at: float) -> list[Claim]:
    """The claims of one round; each row begins with id, queue and data."""
    return [_claim(vendor.id_out(row[0]), row[1], row[2], owner, token, started_at) for row in rows]


def _claim(job_id: str, queue: str, data: Any, owner: str, token: str, started_at: float) -> Claim:
    raw = payload_of(data)
    lease = Lease(job_id=job_id, token=f"{token}.{job_id}", owner=owner)
    try:
        job = job_of(raw, job_id, queue)
    except CodecError as error:
        return Claim(lease=lease, raw=raw, queue=queue, started_at=started_at, job=None, defect=str(error))
    return Claim(lease=lease, raw=raw, queue=job.queue, started_at=started_at, job=job)


def payload_of(data: Any) -> bytes:
    """The bytes in a column of bytes. SQLite keeps there what a foreign producer wrote: text, or a number."""
    if type(data) is bytes:
        return data
    return str(data).encode() if isinstance(data, str | int | float) else bytes(data)


def lease_token(round_token: str | None, job_id: str) -> str:
    """The token of one claim of a round; a claim of the 3.2 line has an empty round."""
    return f"{round_token or ''}.{job_id}"


def round_of(token: str) -> str:
    """The round that a token belongs to."""
    return token.partition(".")[0]


def job_of(raw: bytes, job_id: str, queue: str, metadata: str | None = None) -> Job:
    """The job in a payload. Row id and queue count, whatever a foreign producer wrote. Raises CodecError."""
    job = decode(raw, fallback_id=job_id, fallback_queue=queue)
    if job.id != job_id or (job.queue != queue and column_text(job.queue) != queue):
        job = replace(job, id=job_id, queue=queue)
    return job if metadata is None else replace(job, metadata=_object(metadata))


def record_of(row: Any, vendor: Vendor) -> JobRecord:
    """The record in a row of JOB_COLUMNS."""
    values = dict(zip(JOB_COLUMNS, row, strict=True))
    job_id, raw, queue = vendor.id_out(values["id"]), payload_of(values["data"]), values["queue"]
    progress = progress_of(values, vendor)
    if values["status"] == "FAILED":
        return _dead(letter_of(values, vendor), progress)
    try:
        job = job_of(raw, job_id, queue, values["metadata"])
    except CodecError:
        job = Job(id=job_id, func="", queue=queue)
    if values["status"] == "PROCESSING":
        started_at = vendor.epoch_out(values["claimed_at"]) or vendor.epoch_out(values["created_at"]) or 0.0
        running = Running(worker_id=values["worker_id"] or "", started_at=started_at)
        return JobRecord(job=job, state=JobState.LEASED, running=running, progress=progress)
    due = vendor.epoch_out(values["run_after"])
    if due is None:
        return JobRecord(job=job, state=JobState.READY, progress=progress)
    return JobRecord(job=replace(job, run_after=due), state=JobState.SCHEDULED, progress=progress)


def letter_of(values: Mapping[str, Any], vendor: Vendor) -> DeadLetter:
    """The dead letter in a row; what the 3.2 line did not write is taken from the columns."""
    job_id, queue = vendor.id_out(values["id"]), values["queue"]
    letter = decode_letter(payload_of(values["data"]), fallback_id=job_id, fallback_queue=queue)
    job = letter.job and replace(letter.job, id=job_id)
    failed_at = letter.failed_at or vendor.epoch_out(values["failed_at"]) or vendor.epoch_out(values["created_at"])
    failed_at = failed_at or 0.0
    first_failed_at = letter.first_failed_at or failed_at
    return replace(letter, id=job_id, job=job, failed_at=failed_at, first_failed_at=first_failed_at)


def result_of(row: Any, vendor: Vendor) -> JobRecord:
    """The record in a row of RESULT_COLUMNS."""
    values = dict(zip(RESULT_COLUMNS, row, strict=True))
    job_id, raw, queue = vendor.id_out(values["id"]), payload_of(values["data"]), values["queue"]
    progress = progress_of(values, vendor)
    finished_at = vendor.epoch_out(values["finished_at"])
    state = JobState(values["state"])
    if state is JobState.DEAD:
        letter = decode_letter(raw, fallback_id=job_id, fallback_queue=queue)
        return replace(_dead(replace(letter, id=job_id), progress), letter=None, finished_at=finished_at)
    try:
        job = _with_ending(job_of(raw, job_id, queue), values["ending"])
    except CodecError:
        job = Job(id=job_id, func="", queue=queue)
    value = values["value"]
    return JobRecord(
        job=job,
        state=state,
        finished_at=finished_at,
        value=None if value is None else payload_of(value),
        progress=progress,
    )


def ending_of(before: Job, after: Job) -> str | None:
    """What one more attempt adds to a job, as the column's text; None when more than that has changed.

    With it a result keeps the payload that is in the table already, which need not be encoded and sent again.
    """
    if (
        after.attempts
        and not after.metadata
        and after.attempts[:-1] == before.attempts
        and after.failures == before.failures
        and after.args is before.args
        and after.kwargs is before.kwargs
        and after.extra is before.extra
    ):
        parts = {"starts": after.starts, "attempt": attempt_to_json(after.attempts[-1])}
        text = orjson.dumps(parts).decode()
        return text if text.isascii() else ascii_json(parts)
    return None


def _with_ending(job: Job, ending: str | None) -> Job:
    if ending is None:
        return job
    parts = json.loads(ending)
    attempts = (*job.attempts, attempt_from_json(parts["attempt"]))
    return evolve_job(job, starts=parts["starts"], attempts=attempts)


def _dead(letter: DeadLetter, progress: Progress | None) -> JobRecord:
    return JobRecord(
        job=letter.job or Job(id=letter.id, func="", queue=letter.queue),
        state=JobState.DEAD,
        finished_at=letter.failed_at,
        progress=progress,
        letter=letter,
    )


def progress_of(values: Mapping[str, Any], vendor: Vendor) -> Progress | None:
    """The progress in a row."""
    if values["progress"] is None:
        return None
    data = _object(values["progress"])
    return Progress(
        done=data.get("done", 0.0),
        total=data.get("total"),
        message=data.get("message", ""),
        updated_at=vendor.epoch_out(values["progress_at"]) or 0.0,
    )


def progress_text(progress: Progress) -> str:
    """The column's text for a progress; its time has a column of its own."""
    return ascii_json({"done": progress.done, "total": progress.total, "message": progress.message})


def ascii_json(value: Any) -> str:
    """JSON for a text column: without NUL and surrogates as such, and fit for a table of any encoding."""
    return json.dumps(value, separators=(",", ":"))


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}

"""What is kept of a job beside its queue: the bytes of its record, and the `JobRecord` read from them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ...jobs.codec import decode, decode_letter, from_payload, history_to_json, pack, squeeze, to_payload, unpack
from ...jobs.errors import CodecError
from ...jobs.model import Claim, DeadLetter, Job, JobRecord, JobState, Progress, Running, evolve_job
from ...jobs.transitions import Finish

WAITING = b"w"
FINISHED = b"f"
DUPLICATE = b"d"


def is_tracked(job: Job, default_ttl: float | None) -> bool:
    """Whether a record is kept while the job waits: somebody may ask for it, or its unique key names it as holder."""
    return (default_ttl if job.result_ttl is None else job.result_ttl) != 0 or job.unique is not None


def finished_record(finish: Finish, claim: Claim) -> bytes:
    """The record of a job that succeeded or was discarded."""
    value = finish.value.decode() if finish.state is JobState.SUCCEEDED else None
    ended = _ending(finish.state, finish.finished_at, finish.result_ttl, value)
    return _appended(finish.job, claim, ended) or _record(finish.job, ended)


def dead_record(letter: DeadLetter, result_ttl: float) -> bytes:
    """The record of a job that became a dead letter; it outlives the letter when that is evicted or redriven."""
    job = letter.job or Job(id=letter.id, func="", queue=letter.queue)
    return _record(job, _ending(JobState.DEAD, letter.failed_at, result_ttl, None))


def _ending(state: JobState, at: float, result_ttl: float, value: str | None) -> dict[str, Any]:
    return {"state": state.value, "finished_at": at, "until": at + result_ttl, "value": value}


def _record(job: Job, ended: Mapping[str, Any]) -> bytes:
    payload = to_payload(job)
    payload["ended"] = ended
    return FINISHED + pack(payload)


def _appended(job: Job, claim: Claim, ended: Mapping[str, Any]) -> bytes | None:
    """The record of a job that ended in its first attempt: the payload as it came and what is new. None for others.

    To write the payload anew is a twentieth of all that a worker computes for a job that does nothing.
    """
    raw, before = claim.raw, claim.job
    if before is None or before.extra or job.metadata or b'"ext"' in raw or not raw.startswith(b"{"):
        return None
    if not raw.endswith(b'"id":"%b"}' % job.id.encode()):
        return None
    return FINISHED + squeeze(
        raw[:-1] + b"," + pack({"ext": history_to_json(job), "ended": ended}, compress=False)[1:]
    )


def read_record(reply: Sequence[Any]) -> JobRecord | None:
    """What the script `get` knows of a job: see there for the parts of the reply."""
    now, record, letter, progress, place, owner, claim = reply
    told = dict(zip(progress[::2], progress[1::2], strict=True))
    if letter is not None:
        return letter_record(decode_letter(letter), _progress(told))
    if place == b"leased":
        return leased_record(owner, claim, told)
    if record is None or record[:1] == DUPLICATE:
        return None
    if record[:1] == FINISHED:
        return ended_record(record, _progress(told), float(now))
    return _waiting(record, _progress(told), float(owner) if place == b"scheduled" else None)


def holder_of(reply: Sequence[Any]) -> str | None:
    """The id of the job that stands for the one asked for, which was a duplicate; None when it was none."""
    record: bytes | None = reply[1]
    return record[1:].decode() if record is not None and record[:1] == DUPLICATE else None


def ended_record(record: bytes, progress: Progress | None, now: float) -> JobRecord | None:
    """The record of an ended job; None when its result was to be kept until before now."""
    payload = unpack(record[1:])
    ended = payload.pop("ended")
    if ended["until"] <= now:
        return None
    state = JobState(ended["state"])
    return JobRecord(
        job=from_payload(payload),
        state=state,
        finished_at=ended["finished_at"],
        value=ended["value"].encode() if state is JobState.SUCCEEDED else None,
        progress=progress,
    )


def letter_record(letter: DeadLetter, progress: Progress | None = None) -> JobRecord:
    """The record of a dead letter."""
    return JobRecord(
        job=letter.job or Job(id=letter.id, func="", queue=letter.queue),
        state=JobState.DEAD,
        finished_at=letter.failed_at,
        progress=progress,
        letter=letter,
    )


def leased_record(owner: bytes, claim: bytes, told: Mapping[bytes, bytes]) -> JobRecord:
    """The record of a job in flight, from the value of its claim."""
    _, started_at, queue, raw = claim.split(b"\n", 3)
    try:
        job = decode(raw, fallback_queue=queue.decode())
    except CodecError:
        job = Job(id="", func="", queue=queue.decode())
    if b"metadata" in told:
        job = evolve_job(job, metadata=orjson.loads(told[b"metadata"]))
    running = Running(worker_id=owner.decode(), started_at=float(started_at))
    return JobRecord(job=job, state=JobState.LEASED, running=running, progress=_progress(told))


def waiting_parts(record: bytes) -> tuple[str, bytes]:
    """Queue and payload in the record of a waiting job."""
    queue, _, raw = record[1:].split(b"\n", 2)
    return queue.decode(), raw


def _waiting(record: bytes, progress: Progress | None, due: float | None) -> JobRecord:
    queue, raw = waiting_parts(record)
    job = decode(raw, fallback_queue=queue)
    if due is None:
        return JobRecord(job=job, state=JobState.READY, progress=progress)
    return JobRecord(job=evolve_job(job, run_after=due), state=JobState.SCHEDULED, progress=progress)


def is_over(record: bytes, now: float) -> bool:
    """Whether the record is of an ended job whose result was to be kept until before now."""
    return record[:1] == FINISHED and unpack(record[1:])["ended"]["until"] <= now


# --- progress ----------------------------------------------------------------------------------------------------


def progress_text(progress: Progress | None) -> bytes:
    """What is stored of a progress; empty for none."""
    return orjson.dumps([progress.done, progress.total, progress.message]) if progress else b""


def _progress(told: Mapping[bytes, bytes]) -> Progress | None:
    if b"progress" not in told:
        return None
    done, total, message = orjson.loads(told[b"progress"])
    return Progress(done=done, total=total, message=message, updated_at=float(told[b"at"]))

"""Wire format version 1: one JSON object, behind `zstd:` and compressed when longer than 1024 bytes.

The first fifteen fields are those of the 3.2 line, in its order, so that its workers run what is written here and
what its producers write is run here. What that line does not know travels in one more field, `ext`, absent when
empty. Fields unknown here are kept in `Job.extra` and written back.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from . import zstd
from .errors import CodecError
from .model import Attempt, DeadLetter, DeadReason, Failure, Job, OutcomeKind, Unique, UniqueMode

COMPRESS_THRESHOLD = 1024
"""Bytes of JSON above which a payload is compressed."""

MARKER = b"zstd:"

_KNOWN = frozenset(
    ("func", "args", "kwargs", "queue", "priority", "ts", "retries", "unique", "unique_key", "ttl",
     "remove_unique_on_complete", "max_rescues", "_rescue_count", "run_after", "id", "ext"),
)  # fmt: skip
_LETTER_FIELDS = frozenset(("error_msg", "error_traceback", "failed_at", "letter"))


def encode(job: Job, *, compress: bool = True) -> bytes:
    """The payload of a job. Raises CodecError when a value is not JSON."""
    return pack(to_payload(job), compress=compress)


def decode(raw: bytes, *, fallback_id: str = "", fallback_queue: str = "default") -> Job:
    """The job in a payload; the fallbacks stand in for an absent `id` or `queue`. Raises CodecError."""
    return from_payload(unpack(raw), fallback_id=fallback_id, fallback_queue=fallback_queue)


def pack(payload: Mapping[str, Any], *, compress: bool = True) -> bytes:
    """JSON bytes of an object, compressed above the threshold. Raises CodecError for what is not JSON."""
    try:
        data = orjson.dumps(payload)
    except TypeError as error:
        raise CodecError(f"not JSON: {error}") from error
    if compress and len(data) > COMPRESS_THRESHOLD:
        return MARKER + zstd.compress(data)
    return data


def unpack(raw: bytes) -> dict[str, Any]:
    """The JSON object in a payload. Raises CodecError for anything else."""
    data = zstd.decompress(raw[len(MARKER) :]) if raw.startswith(MARKER) else raw
    try:
        payload = orjson.loads(data)
    except ValueError as error:
        raise CodecError(f"not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise CodecError(f"the JSON is no object but a {type(payload).__name__}")
    return payload


def to_payload(job: Job) -> dict[str, Any]:
    """The fields of a job in wire order."""
    unique = job.unique
    payload: dict[str, Any] = {
        "func": job.func,
        "args": job.args,
        "kwargs": job.kwargs,
        "queue": job.queue,
        "priority": job.priority,
        "ts": job.enqueued_at,
        "retries": 0,
        "unique": unique is not None,
        "unique_key": unique.key if unique else None,
        "ttl": _wire_ttl(unique),
        "remove_unique_on_complete": unique is None or unique.mode is not UniqueMode.WINDOW,
        "max_rescues": job.max_rescues,
        "_rescue_count": job.rescue_count,
        "run_after": job.run_after,
        "id": job.id,
    }
    extension = _extension(job)
    if extension:
        payload["ext"] = extension
    if job.extra:
        payload |= job.extra
    return payload


def _wire_ttl(unique: Unique | None) -> int | None:
    if unique is None or unique.window is None:
        return None
    return max(1, round(unique.window))


def _extension(job: Job) -> dict[str, Any]:
    extension: dict[str, Any] = {}
    if job.unique and (job.unique.mode in _MODES_OF_OURS or job.unique.window not in (None, _wire_ttl(job.unique))):
        extension["mode"] = job.unique.mode.value
        extension["window"] = job.unique.window
    if job.starts:
        extension["starts"] = job.starts
        extension["failures"] = job.failures
        extension["attempts"] = [attempt_to_json(attempt) for attempt in job.attempts]
    for name in ("result_ttl", "expires_at", "retry_of"):
        value = getattr(job, name)
        if value is not None:
            extension[name] = value
    if job.metadata:
        extension["metadata"] = job.metadata
    if job.trace:
        extension["trace"] = job.trace
    return extension


_MODES_OF_OURS = frozenset((UniqueMode.UNTIL_STARTED, UniqueMode.DEBOUNCE))


def from_payload(payload: Mapping[str, Any], *, fallback_id: str = "", fallback_queue: str = "default") -> Job:
    """The job that a payload's fields describe. Raises CodecError naming the field that is wrong."""
    extension = payload.get("ext") or _NOTHING
    try:
        return Job(
            id=_text(payload, "id", fallback_id),
            func=_required_text(payload, "func"),
            args=_of(payload, "args", list),
            kwargs=_of(payload, "kwargs", dict),
            queue=_text(payload, "queue", fallback_queue),
            priority=_whole(payload, "priority"),
            enqueued_at=_number(payload, "ts") or 0.0,
            run_after=_number(payload, "run_after"),
            unique=_unique(payload, extension) if payload.get("unique") else None,
            max_rescues=_whole(payload, "max_rescues"),
            rescue_count=_whole(payload, "_rescue_count"),
            extra=_unknown(payload),
            **(_extended(extension) if extension else _NOTHING),
        )
    except CodecError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise CodecError(f"the field `ext` is damaged: {error!r}") from error


_NOTHING: dict[str, Any] = {}


def _unknown(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    if payload.keys() <= _KNOWN:
        return _NOTHING
    return {key: value for key, value in payload.items() if key not in _KNOWN and key not in _LETTER_FIELDS}


def _extended(extension: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "starts": int(extension.get("starts", 0)),
        "failures": int(extension.get("failures", 0)),
        "attempts": tuple(attempt_from_json(item) for item in extension.get("attempts", ())),
        "result_ttl": _number(extension, "result_ttl"),
        "expires_at": _number(extension, "expires_at"),
        "retry_of": extension.get("retry_of"),
        "metadata": dict(extension.get("metadata", _NOTHING)),
        "trace": dict(extension.get("trace", _NOTHING)),
    }


def _unique(payload: Mapping[str, Any], extension: Mapping[str, Any]) -> Unique:
    key = _required_text(payload, "unique_key")
    if "mode" in extension:
        return Unique(key=key, mode=UniqueMode(extension["mode"]), window=_number(extension, "window"))
    if payload.get("remove_unique_on_complete", True):
        return Unique(key=key, window=_number(payload, "ttl"))
    return Unique(key=key, mode=UniqueMode.WINDOW, window=_number(payload, "ttl"))


def _required_text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str) or not value:
        raise CodecError(f"the field `{name}` is missing or no text")
    return value


def _text(payload: Mapping[str, Any], name: str, fallback: str) -> str:
    value = payload.get(name)
    if value is None:
        return fallback
    if not isinstance(value, str):
        raise CodecError(f"the field `{name}` is no text")
    return value


def _of[T: (list[Any], dict[str, Any])](payload: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = payload.get(name)
    if not isinstance(value, kind):
        raise CodecError(f"the field `{name}` is missing or no {'list' if kind is list else 'object'}")
    return value


def _number(payload: Mapping[str, Any], name: str) -> float | None:
    value = payload.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CodecError(f"the field `{name}` is no number")
    return float(value)


def _whole(payload: Mapping[str, Any], name: str) -> int:
    value = payload.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise CodecError(f"the field `{name}` is no whole number")
    return value


def failure_to_json(failure: Failure) -> dict[str, Any]:
    """A failure as a JSON object."""
    return {
        "class": failure.exception_class,
        "message": failure.message,
        "traceback": failure.traceback,
        "fingerprint": failure.fingerprint,
    }


def failure_from_json(data: Mapping[str, Any]) -> Failure:
    """The failure in a JSON object; absent parts are empty."""
    return Failure(
        exception_class=str(data.get("class", "")),
        message=str(data.get("message", "")),
        traceback=str(data.get("traceback", "")),
        fingerprint=str(data.get("fingerprint", "")),
    )


def attempt_to_json(attempt: Attempt) -> dict[str, Any]:
    """An attempt as a JSON object."""
    data: dict[str, Any] = {
        "number": attempt.number,
        "worker": attempt.worker_id,
        "started": attempt.started_at,
        "ended": attempt.ended_at,
        "outcome": attempt.outcome.value,
    }
    if attempt.failure:
        data["failure"] = failure_to_json(attempt.failure)
    return data


def attempt_from_json(data: Mapping[str, Any]) -> Attempt:
    """The attempt in a JSON object. Raises KeyError, TypeError or ValueError when it is damaged."""
    return Attempt(
        number=int(data["number"]),
        worker_id=str(data["worker"]),
        started_at=float(data["started"]),
        ended_at=float(data["ended"]),
        outcome=OutcomeKind(data["outcome"]),
        failure=failure_from_json(data["failure"]) if "failure" in data else None,
    )


def encode_letter(letter: DeadLetter, *, compress: bool = True) -> bytes:
    """A dead letter: the job's payload plus the 3.2 line's `error_msg`, `error_traceback`, `failed_at`, plus `letter`.

    Bytes that do not decode are kept inside `letter.raw` (latin-1 text), so that they are never lost.
    """
    if letter.job is None:
        payload: dict[str, Any] = {"func": "", "args": [], "kwargs": {}, "queue": letter.queue, "id": letter.id}
    else:
        payload = to_payload(letter.job)
    detail: dict[str, Any] = {
        "reason": letter.reason.value,
        "class": letter.failure.exception_class,
        "fingerprint": letter.failure.fingerprint,
        "first_failed_at": letter.first_failed_at,
    }
    if letter.job is None:
        detail["raw"] = letter.raw.decode("latin-1")
    payload |= {
        "error_msg": letter.failure.message,
        "error_traceback": letter.failure.traceback,
        "failed_at": letter.failed_at,
        "letter": detail,
    }
    return pack(payload, compress=compress)


def decode_letter(raw: bytes, *, fallback_id: str = "", fallback_queue: str = "default") -> DeadLetter:
    """The dead letter in a payload, ours or the 3.2 line's; bytes that do not decode make an undecodable letter."""
    try:
        payload = unpack(raw)
        detail = payload.get("letter") or {}
        if "raw" in detail:
            return _undecodable_letter(payload, detail, fallback_id, fallback_queue)
        job = from_payload(payload, fallback_id=fallback_id, fallback_queue=fallback_queue)
        failed_at = _number(payload, "failed_at") or 0.0
        return DeadLetter(
            id=job.id,
            raw=encode(replace(job, extra=_unknown(payload))),
            queue=job.queue,
            job=job,
            reason=DeadReason(detail.get("reason", DeadReason.FAILED)),
            failure=_letter_failure(payload, detail),
            first_failed_at=_number(detail, "first_failed_at") or failed_at,
            failed_at=failed_at,
        )
    except (CodecError, ValueError, AttributeError, TypeError) as error:
        failure = Failure(exception_class="django_vtasks.jobs.errors.JobUndecodable", message=str(error))
        return DeadLetter(
            id=fallback_id,
            raw=raw,
            queue=fallback_queue,
            job=None,
            reason=DeadReason.UNDECODABLE,
            failure=failure,
            first_failed_at=0.0,
            failed_at=0.0,
        )


def _letter_failure(payload: Mapping[str, Any], detail: Mapping[str, Any]) -> Failure:
    return Failure(
        exception_class=str(detail.get("class") or ""),
        message=str(payload.get("error_msg") or ""),
        traceback=str(payload.get("error_traceback") or ""),
        fingerprint=str(detail.get("fingerprint") or ""),
    )


def _undecodable_letter(
    payload: Mapping[str, Any], detail: Mapping[str, Any], fallback_id: str, fallback_queue: str
) -> DeadLetter:
    return DeadLetter(
        id=_text(payload, "id", fallback_id),
        raw=str(detail["raw"]).encode("latin-1"),
        queue=_text(payload, "queue", fallback_queue),
        job=None,
        reason=DeadReason(detail.get("reason", DeadReason.UNDECODABLE)),
        failure=_letter_failure(payload, detail),
        first_failed_at=_number(detail, "first_failed_at") or 0.0,
        failed_at=_number(payload, "failed_at") or 0.0,
    )

"""From a job to the JSON object that is stored, and back; see `codec` for the format."""

from collections.abc import Mapping
from typing import Any

import orjson

from . import zstd
from .errors import CodecError
from .fields import LATEST, container, mapping, moment, number, optional_text, required_text, text, whole
from .limits import JobLimit
from .model import Attempt, Failure, Job, OutcomeKind, Unique, UniqueMode, assemble_job

COMPRESS_THRESHOLD = 1024
"""Bytes of JSON above which a payload is compressed."""

MARKER = b"zstd:"

_IN_WIRE_ORDER = (
    "func", "args", "kwargs", "queue", "priority", "ts", "retries", "unique", "unique_key", "ttl",
    "remove_unique_on_complete", "max_rescues", "_rescue_count", "run_after", "id",
)  # fmt: skip
_IN_WIRE_ORDER_WITH_EXT = (*_IN_WIRE_ORDER[:-1], "ext", "id")
_LETTER_FIELDS = frozenset(("error_msg", "error_traceback", "failed_at", "letter"))
_KNOWN = frozenset(_IN_WIRE_ORDER_WITH_EXT) | _LETTER_FIELDS
_KNOWN_IN_EXT = frozenset(
    ("mode", "window", "starts", "failures", "attempts", "result_ttl", "expires_at", "retry_of", "limit",
     "metadata", "trace"),
)  # fmt: skip

_MAX_DEPTH = 250


def pack(payload: Mapping[str, Any], *, compress: bool = True) -> bytes:
    """JSON bytes of an object, compressed above the threshold. Raises CodecError for what is not JSON."""
    try:
        data = orjson.dumps(payload)
    except TypeError as error:
        raise CodecError(f"not JSON: {error}") from error
    return squeeze(data) if compress else data


def squeeze(data: bytes) -> bytes:
    """JSON bytes, compressed above the threshold."""
    if len(data) > COMPRESS_THRESHOLD:
        return MARKER + zstd.compress(data)
    return data


def squeeze_if_possible(data: bytes) -> bytes:
    """As `squeeze`, but as they are where no zstd provider is installed; a small payload does not even load one."""
    return squeeze(data) if len(data) > COMPRESS_THRESHOLD and zstd.available() else data


def unpack(raw: bytes) -> dict[str, Any]:
    """The JSON object in a payload. Raises CodecError for anything else."""
    data = zstd.decompress(raw[len(MARKER) :]) if raw.startswith(MARKER) else raw
    try:
        payload = orjson.loads(data)
    except ValueError as error:
        raise CodecError(f"not JSON: {error}") from error
    if not isinstance(payload, dict):
        raise CodecError(f"the JSON is no object but a {type(payload).__name__}")
    # The parser allows deeper nesting than the serialiser; what could never be written back is refused here.
    if len(data) > 2 * _MAX_DEPTH and data.count(b"[") + data.count(b"{") > _MAX_DEPTH:
        pack(payload, compress=False)
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
    if job.extra:
        payload |= job.extra
    extension = _extension(job)
    if extension:
        payload["ext"] = payload.get("ext", _NOTHING) | extension
    if extension or job.extra:
        # `id` stays the last field, where a store finds it without reading the rest.
        payload["id"] = payload.pop("id")
    return payload


_NOTHING: dict[str, Any] = {}


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
        extension |= history_to_json(job)
    if job.limit is not None:
        extension["limit"] = _limit_to_json(job.limit)
    scalars = (("result_ttl", job.result_ttl), ("expires_at", job.expires_at), ("retry_of", job.retry_of))
    extension |= {name: value for name, value in scalars if value is not None}
    objects = (("metadata", job.metadata), ("trace", job.trace))
    return extension | {name: values for name, values in objects if values}


def history_to_json(job: Job) -> dict[str, Any]:
    """What is stored of the attempts of a job."""
    attempts = [attempt_to_json(attempt) for attempt in job.attempts]
    return {"starts": job.starts, "failures": job.failures, "attempts": attempts}


_MODES_OF_OURS = frozenset((UniqueMode.UNTIL_STARTED, UniqueMode.DEBOUNCE))


def from_payload(payload: Mapping[str, Any], *, fallback_id: str = "", fallback_queue: str = "default") -> Job:
    """The job that a payload's fields describe. Raises CodecError naming the field that is wrong."""
    return _ordinary(payload) or _checked(payload, fallback_id, fallback_queue)


def _ordinary(payload: Mapping[str, Any]) -> Job | None:
    # Nearly every payload has this shape, in this order; reading it at once takes a fraction of field by field.
    names = tuple(payload)
    if names == _IN_WIRE_ORDER:
        extension = None
        (func, args, kwargs, queue, priority, enqueued_at, _, unique, _, _, _, max_rescues, rescues, run_after,
         job_id) = payload.values()  # fmt: skip
    elif names == _IN_WIRE_ORDER_WITH_EXT:
        (func, args, kwargs, queue, priority, enqueued_at, _, unique, _, _, _, max_rescues, rescues, run_after,
         extension, job_id) = payload.values()  # fmt: skip
    else:
        return None
    if (
        (type(job_id) is type(func) is type(queue) is str and job_id and func and queue)
        and (type(args) is list and type(kwargs) is dict)
        and (type(priority) is type(max_rescues) is type(rescues) is int and -100 <= priority <= 100)
        and (type(enqueued_at) is float and 0 <= enqueued_at <= LATEST)
        and (run_after is None or (type(run_after) is float and 0 <= run_after <= LATEST))
        and (unique is False or unique is True)
        and (extension is None or _says_only_how_long_to_keep_the_result(extension))
    ):
        key = _unique(payload, _NOTHING) if unique else None
        ttl = extension["result_ttl"] if extension else None
        return assemble_job(
            job_id, func, args, kwargs, queue, priority, enqueued_at, run_after, key, max_rescues, rescues,
            0, 0, (), ttl, None, None, None, _NOTHING, _NOTHING, _NOTHING,
        )  # fmt: skip
    return None


def _says_only_how_long_to_keep_the_result(extension: object) -> bool:
    return type(extension) is dict and len(extension) == 1 and type(extension.get("result_ttl")) is float


_NEVER_STARTED = (0, 0, (), None, None, None, None, _NOTHING, _NOTHING)


def _checked(payload: Mapping[str, Any], fallback_id: str, fallback_queue: str) -> Job:
    extension = mapping(payload, "ext")
    return assemble_job(
        text(payload, "id", fallback_id),
        required_text(payload, "func"),
        container(payload, "args", list),
        container(payload, "kwargs", dict),
        text(payload, "queue", fallback_queue),
        max(-100, min(whole(payload, "priority"), 100)),
        moment(payload, "ts") or 0.0,
        moment(payload, "run_after"),
        _unique(payload, extension) if payload.get("unique") else None,
        whole(payload, "max_rescues"),
        whole(payload, "_rescue_count"),
        *(_extended(extension) if extension else _NEVER_STARTED),
        _unknown(payload, extension),
    )


def _unknown(payload: Mapping[str, Any], extension: Mapping[str, Any]) -> Mapping[str, Any]:
    if payload.keys() <= _KNOWN and extension.keys() <= _KNOWN_IN_EXT:
        return _NOTHING
    unknown = {key: value for key, value in payload.items() if key not in _KNOWN}
    unknown_in_ext = {key: value for key, value in extension.items() if key not in _KNOWN_IN_EXT}
    return unknown | {"ext": unknown_in_ext} if unknown_in_ext else unknown


def _extended(extension: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        whole(extension, "starts"),
        whole(extension, "failures"),
        _attempts(extension),
        number(extension, "result_ttl"),
        moment(extension, "expires_at"),
        optional_text(extension, "retry_of"),
        _limit_from_json(mapping(extension, "limit")),
        mapping(extension, "metadata"),
        {key: str(value) for key, value in mapping(extension, "trace").items()},
    )


def _attempts(extension: Mapping[str, Any]) -> tuple[Attempt, ...]:
    if "attempts" not in extension:
        return ()
    return tuple([attempt_from_json(item) for item in container(extension, "attempts", list)])


def _limit_to_json(limit: JobLimit) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if limit.concurrency_key is not None:
        data |= {"key": limit.concurrency_key, "count": limit.count}
    if limit.rate_key is not None:
        data |= {"rate_key": limit.rate_key, "interval": limit.interval, "burst": limit.burst}
    return data


def _limit_from_json(data: Mapping[str, Any]) -> JobLimit | None:
    if not data:
        return None
    return JobLimit(
        concurrency_key=optional_text(data, "key"),
        count=max(1, whole(data, "count")),
        rate_key=optional_text(data, "rate_key"),
        interval=max(0.0, number(data, "interval") or 0.0),
        burst=max(1, whole(data, "burst")),
    )


def _unique(payload: Mapping[str, Any], extension: Mapping[str, Any]) -> Unique:
    key = required_text(payload, "unique_key")
    if "mode" in extension:
        return Unique(key=key, mode=_mode(extension), window=number(extension, "window"))
    if payload.get("remove_unique_on_complete", True):
        return Unique(key=key, window=number(payload, "ttl"))
    return Unique(key=key, mode=UniqueMode.WINDOW, window=number(payload, "ttl"))


def _mode(extension: Mapping[str, Any]) -> UniqueMode:
    try:
        return UniqueMode(extension["mode"])
    except ValueError as error:
        raise CodecError(f"the field `ext.mode` is none of {', '.join(UniqueMode)}") from error


def failure_to_json(failure: Failure) -> dict[str, Any]:
    """A failure as a JSON object; what UTF-8 cannot say is escaped."""
    return {
        "class": printable(failure.exception_class),
        "message": printable(failure.message),
        "traceback": printable(failure.traceback),
        "fingerprint": printable(failure.fingerprint),
    }


def printable(text: str) -> str:
    """The text with lone surrogates escaped, so that it can be stored whatever an exception says."""
    return text.encode("utf-8", "backslashreplace").decode()


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
    """The attempt in a JSON object. Raises CodecError when it is damaged."""
    try:
        return _attempt(data)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise CodecError(f"an attempt in the history is damaged: {error!r}") from error


def _attempt(data: Mapping[str, Any]) -> Attempt:
    return Attempt(
        number=int(data["number"]),
        worker_id=str(data["worker"]),
        started_at=float(data["started"]),
        ended_at=float(data["ended"]),
        outcome=OutcomeKind(data["outcome"]),
        failure=failure_from_json(data["failure"]) if "failure" in data else None,
    )

"""From a dead letter to the bytes that are stored, and back.

A letter is the job's payload plus the 3.2 line's `error_msg`, `error_traceback` and `failed_at`, plus `letter`.
"""

from collections.abc import Mapping
from typing import Any

from .errors import CodecError
from .fields import mapping, moment, optional_text, text
from .model import DeadLetter, DeadReason, Failure, Job
from .payload import from_payload, pack, printable, to_payload, unpack

_RESCUED_MESSAGE = "Exceeded max_rescues"


def encode_letter(letter: DeadLetter, *, compress: bool = True) -> bytes:
    """The bytes of a dead letter. Bytes that are not a job are kept inside it (as latin-1 text), never lost."""
    stand_in = Job(id=letter.id, func="", queue=letter.queue)
    detail: dict[str, Any] = {
        "reason": letter.reason.value,
        "class": printable(letter.failure.exception_class),
        "fingerprint": printable(letter.failure.fingerprint),
        "first_failed_at": letter.first_failed_at,
    }
    if letter.job is None:
        detail["raw"] = letter.raw.decode("latin-1")
    failure = {
        "error_msg": printable(letter.failure.message),
        "error_traceback": printable(letter.failure.traceback),
        "failed_at": letter.failed_at,
        "letter": detail,
    }
    return pack(to_payload(letter.job or stand_in) | failure, compress=compress)


def decode_letter(raw: bytes, *, fallback_id: str = "", fallback_queue: str = "default") -> DeadLetter:
    """The dead letter in stored bytes, ours or the 3.2 line's; never raises, since anything may be found there."""
    try:
        payload = unpack(raw)
    except CodecError as error:
        return _unreadable(Job(id=fallback_id, func="", queue=fallback_queue), raw, str(error))
    try:
        return _letter(payload, raw, fallback_id, fallback_queue)
    except (CodecError, ValueError) as error:
        stand_in = Job(
            id=_any_text(payload, "id") or fallback_id, func="", queue=_any_text(payload, "queue") or fallback_queue
        )
        return _unreadable(stand_in, raw, _any_text(payload, "error_msg") or str(error))


def _letter(payload: Mapping[str, Any], raw: bytes, fallback_id: str, fallback_queue: str) -> DeadLetter:
    detail = mapping(payload, "letter")
    kept = optional_text(detail, "raw")
    job = None if kept is not None else from_payload(payload, fallback_id=fallback_id, fallback_queue=fallback_queue)
    failed_at = moment(payload, "failed_at") or 0.0
    return DeadLetter(
        id=job.id if job else text(payload, "id", fallback_id),
        raw=kept.encode("latin-1") if kept is not None else raw,
        queue=job.queue if job else text(payload, "queue", fallback_queue),
        job=job,
        reason=_reason(payload, detail),
        failure=_failure(payload, detail),
        first_failed_at=moment(detail, "first_failed_at") or failed_at,
        failed_at=failed_at,
    )


def _reason(payload: Mapping[str, Any], detail: Mapping[str, Any]) -> DeadReason:
    if "reason" in detail:
        return DeadReason(detail["reason"])
    rescued = _any_text(payload, "error_msg").startswith(_RESCUED_MESSAGE)
    return DeadReason.RESCUED_TOO_OFTEN if rescued else DeadReason.FAILED


def _failure(payload: Mapping[str, Any], detail: Mapping[str, Any]) -> Failure:
    traceback = _any_text(payload, "error_traceback")
    exception_class = _any_text(detail, "class") or _raised_class(traceback)
    return Failure(
        exception_class=exception_class,
        message=_any_text(payload, "error_msg"),
        traceback=traceback,
        fingerprint=_any_text(detail, "fingerprint") or f"{_any_text(payload, 'func')}:{exception_class}",
    )


def _raised_class(traceback: str) -> str:
    """The exception's class as a traceback names it: in the line below the last frames, whatever the message says."""
    _, header, rest = traceback.rpartition("Traceback (most recent call last):\n")
    lines = [line for line in rest.rstrip().splitlines() if line and not line[0].isspace()] or [""]
    name = (lines[0] if header else lines[-1]).partition(":")[0]
    return name if name.replace(".", "").isidentifier() and name != "NoneType" else ""


def _unreadable(stand_in: Job, raw: bytes, message: str) -> DeadLetter:
    return DeadLetter(
        id=stand_in.id,
        raw=raw,
        queue=stand_in.queue,
        job=None,
        reason=DeadReason.UNDECODABLE,
        failure=Failure(
            exception_class="django_vtasks.jobs.errors.JobUndecodable", message=message, fingerprint="undecodable"
        ),
        first_failed_at=0.0,
        failed_at=0.0,
    )


def _any_text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""

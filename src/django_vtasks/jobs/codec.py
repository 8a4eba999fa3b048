"""Wire format version 1: one JSON object, behind `zstd:` and compressed when longer than 1024 bytes.

The first fifteen fields are those of the 3.2 line, in its order, so that its workers run what is written here and
what its producers write is run here. What that line does not know travels in one more field, `ext`, absent when
empty. Fields unknown here are kept in `Job.extra` and written back. `id` is always the last field.
"""

from collections.abc import Callable

from .letters import decode_letter, encode_letter
from .model import Job
from .payload import (
    COMPRESS_THRESHOLD,
    MARKER,
    from_payload,
    history_to_json,
    pack,
    squeeze,
    squeeze_if_possible,
    to_payload,
    unpack,
)

__all__ = [
    "COMPRESS_THRESHOLD",
    "MARKER",
    "decode",
    "decode_letter",
    "encode",
    "encode_if_possible",
    "encode_letter",
    "from_payload",
    "history_to_json",
    "pack",
    "squeeze",
    "squeeze_if_possible",
    "to_payload",
    "unpack",
]


def encode(job: Job, *, compress: bool = True) -> bytes:
    """The payload of a job. Raises CodecError when a value is not JSON.

    A limited job is never compressed: a store that keeps nothing but payloads reads the limit out of it.
    """
    return _squeezed(job, squeeze) if compress else _plain(job)


def encode_if_possible(job: Job) -> bytes:
    """As `encode`, but compressed only where a zstd provider is installed."""
    return _squeezed(job, squeeze_if_possible)


def _squeezed(job: Job, way: Callable[[bytes], bytes]) -> bytes:
    return way(_plain(job)) if job.limit is None else _plain(job)


def _plain(job: Job) -> bytes:
    return pack(to_payload(job), compress=False) if job.encoded is None else job.encoded


def decode(raw: bytes, *, fallback_id: str = "", fallback_queue: str = "default") -> Job:
    """The job in a payload; the fallbacks stand in for an absent `id` or `queue`. Raises CodecError."""
    return from_payload(unpack(raw), fallback_id=fallback_id, fallback_queue=fallback_queue)

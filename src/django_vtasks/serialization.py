"""The 3.2 line's names for reading and writing payloads; `jobs.codec` has the format."""

from collections.abc import Mapping
from typing import Any

from .jobs.codec import COMPRESS_THRESHOLD, pack, unpack


def serialize(payload: Mapping[str, Any]) -> bytes:
    """The bytes of a payload: JSON, compressed above `COMPRESS_THRESHOLD` bytes. Raises CodecError for non-JSON."""
    return pack(payload)


def deserialize(raw: bytes) -> dict[str, Any]:
    """The fields of a payload. Raises CodecError for bytes that are not a JSON object."""
    return unpack(raw)


__all__ = ["COMPRESS_THRESHOLD", "deserialize", "serialize"]

"""Reading the fields of a stored object that anybody may have written: CodecError names the one that is wrong."""

from collections.abc import Mapping
from typing import Any

from .errors import CodecError

LATEST = 253_402_300_799.0
"""The last second of the year 9999: no time is later, since Python's datetime knows none."""


def required_text(data: Mapping[str, Any], name: str) -> str:
    """A text that is there and not empty."""
    value = data.get(name)
    if not isinstance(value, str) or not value:
        raise CodecError(f"the field `{name}` is missing or no text")
    return value


def text(data: Mapping[str, Any], name: str, fallback: str) -> str:
    """A text; the fallback when it is absent or empty."""
    return optional_text(data, name) or fallback


def optional_text(data: Mapping[str, Any], name: str) -> str | None:
    """A text, or None when it is absent."""
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise CodecError(f"the field `{name}` is no text")
    return value


def container[T: (list[Any], dict[str, Any])](data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A list or an object that is there."""
    value = data.get(name)
    if not isinstance(value, kind):
        raise CodecError(f"the field `{name}` is missing or no {'list' if kind is list else 'object'}")
    return value


def mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object; an empty one when it is absent."""
    return container(data, name, dict) if data.get(name) is not None else {}


def number(data: Mapping[str, Any], name: str) -> float | None:
    """A number, or None when it is absent."""
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CodecError(f"the field `{name}` is no number")
    return float(value)


def moment(data: Mapping[str, Any], name: str) -> float | None:
    """A time in epoch seconds between 1970 and the year 9999, or None when it is absent."""
    value = number(data, name)
    if value is not None and not 0 <= value <= LATEST:
        raise CodecError(f"the field `{name}` is no time in seconds since 1970: {value}")
    return value


def whole(data: Mapping[str, Any], name: str) -> int:
    """A whole number; 0 when it is absent."""
    value = data.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise CodecError(f"the field `{name}` is no whole number")
    return value

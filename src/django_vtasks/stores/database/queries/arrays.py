"""Arrays for PostgreSQL as one text each: quoting their elements one by one costs a driver more than all else."""

from collections.abc import Iterable

_SEPARATOR = "\x1f"
_NULL = "\x1e"


def packed(values: Iterable[str | None]) -> str:
    """The parameter of an `array_of`. The texts must not contain control characters: ids, numbers, hex, JSON."""
    return _SEPARATOR.join([_NULL if value is None else value for value in values])


def array_of(kind: str) -> str:
    """The array of a type that a packed parameter means; of bytes, each is given as hexadecimal digits."""
    array = "string_to_array(%s, E'\\x1f', E'\\x1e')"
    return f"{array}::{kind}[]" if kind != "text" else array


def hexed(data: bytes | None) -> str | None:
    """Bytes as an element of a packed array of `bytea`."""
    return None if data is None else "\\x" + data.hex()

"""Arguments and return values between JSON and the function."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from inspect import iscoroutine
from typing import Any

import orjson

NULL = b"null"
_SCALARS = frozenset((str, int, float, bool, type(None)))


def to_json(value: object) -> bytes:
    """A return value as JSON. Raises TypeError, naming the culprit, for what JSON does not have."""
    if value is None:
        return NULL
    try:
        data = orjson.dumps(value)
    except TypeError as error:
        raise TypeError(f"the task's return value cannot be stored as JSON: {_reason(value, error)}") from None
    # orjson writes NaN and infinities as null, so only a value with a null in it can have one.
    if NULL in data and _has_no_number(value):
        raise TypeError("the task's return value cannot be stored as JSON: NaN and infinity are not JSON")
    return data


def _reason(value: object, error: TypeError) -> str:
    if iscoroutine(value):
        value.close()
        return "it is a coroutine; declare the function with `async def`, or await what it calls"
    return str(error)


def _has_no_number(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_has_no_number(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_has_no_number(item) for item in value)
    if is_dataclass(value):
        return any(_has_no_number(getattr(value, field.name, None)) for field in fields(value))
    return False


def own_copy[Values: (Sequence[Any], Mapping[str, Any])](values: Values) -> Values:
    """Arguments that the function may change: the job keeps its own for the next attempt and the dead letter."""
    for value in values.values() if isinstance(values, dict) else values:
        if type(value) not in _SCALARS:
            return _copied(values)
    return values


def _copied[Values: (Sequence[Any], Mapping[str, Any])](values: Values) -> Values:
    try:
        copied: Values = orjson.loads(orjson.dumps(values))
    except TypeError:
        # Whole numbers beyond 64 bit, which another producer's JSON may have.
        return copy.deepcopy(values)
    return copied

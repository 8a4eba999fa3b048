"""Arguments of a call in JSON form, or an error that names the one that has none."""

import dataclasses
import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ..conf import settings
from ..framework import AnyTask
from ..jobs.errors import JobTooLarge
from ..jobs.mould import Written

ACCEPTED = (
    "JSON arguments are text, numbers (whole ones within 64 bit), booleans, None, lists, tuples, dicts with text "
    "keys, dates, times, UUIDs, enums and dataclasses"
)


def json_arguments(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as the function will receive them, after a round trip through JSON; raises as `written`."""
    json_args, json_kwargs = orjson.loads(written(task, args, kwargs).joined)
    return json_args, json_kwargs


def written(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Written:
    """The JSON of the arguments.

    Raises TypeError for a value that is not JSON, ValueError for NaN and infinity, and JobTooLarge above
    `VTASKS_MAX_JOB_BYTES`.
    """
    if type(args) is not tuple and type(args) is not list:
        args = list(args)
    try:
        data = orjson.dumps((args, kwargs))
    except TypeError as error:
        raise _explained(task, args, kwargs, error) from error
    if b"null" in data:
        _refuse_not_finite(task, args, kwargs)
    if len(data) > settings.VTASKS_MAX_JOB_BYTES:
        raise JobTooLarge(
            f"The arguments of {task.module_path} are {len(data)} bytes of JSON, more than VTASKS_MAX_JOB_BYTES "
            f"({settings.VTASKS_MAX_JOB_BYTES}); store the data elsewhere and pass a reference to it"
        )
    return Written(data, kwargs)


def _explained(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError) -> TypeError:
    for name, value in _named(task, args, kwargs):
        for place, part in _parts(name, value):
            reason = _why_not_json(part)
            if reason:
                return TypeError(f"The argument {place} of {task.module_path} {reason}. {ACCEPTED}.")
    return TypeError(f"An argument of {task.module_path} is not JSON: {error}. {ACCEPTED}.")


def _why_not_json(value: Any) -> str | None:
    """Why this value alone, its parts left aside, is not JSON."""
    if isinstance(value, dict):
        return next((reason for key in value if (reason := _why_no_key(key))), None)
    if isinstance(value, list) or type(value) is tuple or dataclasses.is_dataclass(value):
        return None
    refusal = _refusal(value)
    if refusal is None:
        return None
    if isinstance(value, str):
        return "contains lone surrogates, which are not valid text"
    if isinstance(value, int):
        return f"is {value}, which does not fit into 64 bit"
    return f"is a {type(value).__name__}, which is not JSON ({refusal})"


def _why_no_key(key: Any) -> str | None:
    if not isinstance(key, str):
        return f"has the key {key!r}, and keys must be text"
    return f"has the key {key!r}, which is not valid text" if _refusal({key: None}) else None


def _refusal(value: Any) -> TypeError | None:
    try:
        orjson.dumps(value)
    except TypeError as error:
        return error
    return None


def _refuse_not_finite(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    for name, value in _named(task, args, kwargs):
        for place, part in _parts(name, value):
            if isinstance(part, float) and not math.isfinite(part):
                raise ValueError(f"The argument {place} of {task.module_path} is {part}, which JSON cannot express.")


def _named(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    names = list(inspect.signature(task.func).parameters)[1 if task.takes_context else 0 :]
    for position, value in enumerate(args):
        yield (names[position] if position < len(names) else f"number {position + 1}"), value
    yield from kwargs.items()


def _parts(place: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The value and everything inside it, each with the expression that leads there."""
    yield place, value
    if depth > 100:
        return
    if isinstance(value, dict):
        inner = ((f"{place}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        inner = ((f"{place}[{position}]", part) for position, part in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = ((f"{place}.{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value))
    else:
        return
    for inner_place, part in inner:
        yield from _parts(inner_place, part, depth + 1)

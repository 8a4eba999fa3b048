"""Keys computed from the arguments of a call: a fixed text, a format of the arguments, or a function of them."""

import hashlib
import inspect
import string
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

MAX_KEY_LENGTH = 255
"""Characters a stored key may have; a longer one is replaced by its hash."""

type Key = str | Callable[..., Any]


class KeyFormatError(ValueError):
    """Raised when a key's format names no parameter of the function."""


def fields_of(text: str) -> tuple[str, ...]:
    """The argument names a format mentions; empty for fixed text, for which braces that hold no name are text too."""
    try:
        parts = [field for _, field, _, _ in string.Formatter().parse(text) if field is not None]
    except ValueError:
        return ()
    heads = [part.split(".")[0].split("[")[0] for part in parts]
    return tuple(heads) if all(head.isidentifier() for head in heads) else ()


def check_key(key: Key, function: Callable[..., Any]) -> None:
    """Raise KeyFormatError when the key is a format of arguments that the function does not take."""
    if callable(key):
        return
    if not key:
        raise KeyFormatError("a key must not be empty")
    parameters = _signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    unknown = [name for name in fields_of(key) if name not in parameters]
    if unknown:
        raise KeyFormatError(
            f"the key {key!r} mentions {unknown[0]!r}, which is no parameter of {function.__qualname__}() "
            f"({', '.join(parameters) or 'it has none'}); write {{{{ and }}}} for braces that are text"
        )


def evaluate(
    key: Key, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, leading: int = 0
) -> str:
    """The key of one call. `leading` counts parameters of the function that the caller does not pass (its context).

    Raises TypeError when a format needs arguments that do not fit the function, or when a function of the arguments
    returns no text.
    """
    if callable(key):
        text = key(*args, **kwargs)
        if not isinstance(text, str) or not text:
            raise TypeError(f"the key function {key!r} must return text, not {text!r}")
    elif fields_of(key):
        bound = _signature(function).bind(*(None,) * leading, *args, **kwargs)
        bound.apply_defaults()
        text = key.format_map(_flat(bound))
    else:
        text = key
    return shortened(text)


def shortened(key: str) -> str:
    """The key itself, or a hash of it when it is longer than a store keeps."""
    if len(key) <= MAX_KEY_LENGTH:
        return key
    return f"vtasks:unique:sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def _flat(bound: inspect.BoundArguments) -> dict[str, Any]:
    values = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            values |= values.pop(name, {})
    return values


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)

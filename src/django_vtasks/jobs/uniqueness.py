"""Unique keys: the derivation of the 3.2 line, so that both lines exclude each other's duplicates."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

PREFIX = "vtasks:unique"


def derive_key(func: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """`vtasks:unique:<func>:<sha256>` over the compact JSON of `[func, args, kwargs]` with sorted object keys.

    Raises TypeError when an argument is not JSON.
    """
    canonical = orjson.dumps([func, list(args), dict(kwargs)], option=orjson.OPT_SORT_KEYS)
    return f"{PREFIX}:{func}:{hashlib.sha256(canonical).hexdigest()}"

"""Unique keys: the derivation of the 3.2 line, so that both lines exclude each other's duplicates."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from .model import Job

PREFIX = "vtasks:unique"


def derive_key(func: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """`vtasks:unique:<func>:<sha256>` over the compact JSON of `[func, args, kwargs]` with sorted object keys.

    Raises TypeError when an argument is not JSON.
    """
    canonical = orjson.dumps([func, list(args), dict(kwargs)], option=orjson.OPT_SORT_KEYS)
    return f"{PREFIX}:{func}:{hashlib.sha256(canonical).hexdigest()}"


def debounced(waiting: Job, newcomer: Job) -> Job:
    """The waiting job after a newcomer replaced it: it keeps its id and time of enqueue, all else is the newcomer's.

    It is due when the newcomer is, but at most the newcomer's `window` seconds after its own enqueue.
    """
    due = newcomer.run_after
    window = newcomer.unique.window if newcomer.unique else None
    if due is not None and window is not None:
        due = min(due, waiting.enqueued_at + window)
    return replace(newcomer, id=waiting.id, enqueued_at=waiting.enqueued_at, run_after=due)

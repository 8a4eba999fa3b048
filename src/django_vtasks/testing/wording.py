"""Calls and moments as a failing test shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 200
"""Characters shown of one call."""


def call_text(task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """A call as it is written: `app.tasks.send(17, kind='welcome')`."""
    arguments = [*(repr(value) for value in args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return shortened(f"{task}({', '.join(arguments)})")


def shortened(text: str) -> str:
    """At most `LONGEST` characters."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

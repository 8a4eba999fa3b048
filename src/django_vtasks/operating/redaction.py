"""What is never shown: arguments that a task names in its option `redact`, and whatever is named like a secret."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..jobs.errors import TaskNotFound
from ..jobs.model import Job
from ..tasks import load_task, options_of

HIDDEN = "[redacted]"
"""Stands where a value is not shown; given back unchanged in an edit, it means the value that is there."""

SECRET = re.compile(r"passw(or)?d|secret|token|api[_-]?key|private[_-]?key|credential|authorization", re.IGNORECASE)
"""A name that contains this is that of a secret, at any depth."""

_EVERYTHING = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """What to hide of one task: `names` by its option (`*` = all), and unless told otherwise what is named like a
    secret. `positions` are the names of positional arguments."""

    names: frozenset[str] = frozenset()
    positions: tuple[str, ...] = ()
    hides_secrets: bool = True

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of one call as they may be shown."""
        shown = [self._argument(self._name_at(position), value) for position, value in enumerate(args)]
        return shown, {name: self._argument(name, value) for name, value in kwargs.items()}

    def value(self, value: Any) -> Any:
        """A return value or metadata as it may be shown."""
        if _EVERYTHING in self.names:
            return HIDDEN
        return _without_secrets(value) if self.hides_secrets else value

    def _name_at(self, position: int) -> str:
        return self.positions[position] if position < len(self.positions) else ""

    def _argument(self, name: str, value: Any) -> Any:
        if _EVERYTHING in self.names or name in self.names:
            return HIDDEN
        if not self.hides_secrets:
            return value
        return HIDDEN if SECRET.search(name) else _without_secrets(value)


def redaction_of(job: Job) -> Redaction:
    """What to hide of a job; of one whose task is not in this code, whatever is named like a secret."""
    try:
        task = load_task(job.func)
        names = options_of(task).redact
        parameters = list(inspect.signature(task.func).parameters)
    except (TaskNotFound, ValueError, TypeError):
        return Redaction()
    return Redaction(names=frozenset(names), positions=tuple(parameters[1 if task.takes_context else 0 :]))


def filled_in(edited: Any, original: Any) -> Any:
    """An edited value in which every `HIDDEN` is the value that the original has in the same place.

    Raises ValueError when the original has nothing there.
    """
    if isinstance(edited, dict):
        known = original if isinstance(original, Mapping) else {}
        return {key: filled_in(value, known.get(key, _NOTHING)) for key, value in edited.items()}
    if isinstance(edited, list):
        items = original if isinstance(original, list | tuple) else ()
        return [filled_in(value, items[at] if at < len(items) else _NOTHING) for at, value in enumerate(edited)]
    if edited != HIDDEN:
        return edited
    if original is _NOTHING:
        raise ValueError(f"{HIDDEN} stands where there was no value: write the value, or move it back to its place")
    return original


_NOTHING = object()


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if isinstance(key, str) and SECRET.search(key) else _without_secrets(part)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(part) for part in value]
    return value

"""What a task with `takes_context=True` gets: which attempt this is, and a way to speak with the outside."""

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from ..framework import TaskContextOf
from ..jobs.errors import JobCancelled, JobTimedOut
from ..jobs.model import Progress
from .failures import clean

MESSAGE_CHARACTERS = 1000
"""Characters kept of a progress message."""


class Line(Protocol):
    """The context's side of an attempt."""

    @property
    def told_to_stop(self) -> type[JobCancelled | JobTimedOut] | None:
        """Why the function is to stop; None when it is not."""
        ...

    @property
    def shutdown_requested(self) -> bool:
        """Whether the worker is going away."""
        ...

    def now(self) -> float:
        """Epoch seconds by the store's clock."""
        ...

    def say(self, progress: Progress | None, metadata: Mapping[str, Any] | None) -> None:
        """Have the worker save what the job says of itself."""
        ...


class Metadata(MutableMapping[str, Any]):
    """Facts a job keeps about itself, saved whenever an entry is set or deleted. Values are JSON.

    A change inside a value is not noticed: set the entry again.
    """

    def __init__(self, known: Mapping[str, Any], save: Callable[[Mapping[str, Any]], None]) -> None:
        self._entries = dict(known)
        self._save = save
        self.changed = False

    def __getitem__(self, key: str) -> Any:
        return self._entries[key]

    def __setitem__(self, key: str, value: Any) -> None:
        """Set an entry. Raises TypeError for a key that is not text or a value that is not JSON."""
        orjson.dumps({key: value})
        self._entries[key] = value
        self._saved()

    def __delitem__(self, key: str) -> None:
        del self._entries[key]
        self._saved()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Metadata({self._entries!r})"

    def copy(self) -> dict[str, Any]:
        """The entries as they are now, in JSON form."""
        copied: dict[str, Any] = orjson.loads(orjson.dumps(self._entries))
        return copied

    def _saved(self) -> None:
        self.changed = True
        self._save(self.copy())


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext[**P, R](TaskContextOf[P, R]):  # type: ignore[misc] # the stubs know the base as not frozen
    """The framework's context (`task_result`, `attempt`), and what this package adds. Usable from any thread."""

    metadata: Metadata = field(repr=False)
    _line: Line = field(repr=False)

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the job is. Cheap: the worker saves the latest one now and then, and at the end.

        Raises TypeError or ValueError for what is no finite number.
        """
        total = None if total is None else _number(total)
        text = clean(str(message))[:MESSAGE_CHARACTERS]
        self._line.say(Progress(done=_number(done), total=total, message=text, updated_at=self._line.now()), None)

    @property
    def cancelled(self) -> bool:
        """Whether the function is to stop: somebody cancelled the job, or its time is up."""
        return self._line.told_to_stop is not None

    @property
    def shutdown_requested(self) -> bool:
        """Whether the worker is going away: end soon, or the job starts over elsewhere."""
        return self._line.shutdown_requested

    def check(self) -> None:
        """Raise JobCancelled (or JobTimedOut) if the function is to stop; else do nothing."""
        reason = self._line.told_to_stop
        if reason is not None:
            raise reason("the job was told to stop")


def _number(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"progress is counted in numbers, not in {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"progress is counted in finite numbers, not {value}")
    return value

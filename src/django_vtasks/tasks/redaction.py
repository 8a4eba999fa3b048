"""What is never shown: arguments that a task names in its option `redact`, and whatever is named like a secret."""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ..framework import AnyTask
from ..jobs.errors import TaskNotFound
from ..jobs.model import Failure, Job, JobRecord, evolve_job
from ..stores.base import LetterGroup
from .loading import load_task
from .options import TaskOptions, options_of

HIDDEN = "[redacted]"
"""Stands where a value is not shown; given back unchanged in an edit, it means the value that is there."""

SECRET = re.compile(r"passw(or)?d|secret|token|api[_-]?key|private[_-]?key|credential|authorization", re.IGNORECASE)
"""A name that contains this is that of a secret, at any depth."""

SHORTEST = 4
"""A hidden text of fewer characters is not searched for in other texts: it would be found in too many words."""

MOST = 1000
"""A text is hidden as a whole when more values than this would have to be searched for in it."""

_EVERYTHING = "*"

type Hide = Callable[[str], str]


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
        """A return value or metadata as it may be shown, arguments that it quotes aside (see `shown_value`)."""
        if _EVERYTHING in self.names:
            return HIDDEN
        return _without_secrets(value) if self.hides_secrets else value

    def hidden(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[str]:
        """Every text in the values of one call that are hidden."""
        named = [(self._name_at(position), value) for position, value in enumerate(args)]
        for name, value in (*named, *kwargs.items()):
            yield from _texts(value, hidden=self._hides(name), looks_inside=self.hides_secrets)

    def _name_at(self, position: int) -> str:
        return self.positions[position] if position < len(self.positions) else ""

    def _argument(self, name: str, value: Any) -> Any:
        if self._hides(name):
            return HIDDEN
        return _without_secrets(value) if self.hides_secrets else value

    def _hides(self, name: str) -> bool:
        if _EVERYTHING in self.names or name in self.names:
            return True
        return self.hides_secrets and SECRET.search(name) is not None


def redaction_of(job: Job) -> Redaction:
    """What to hide of a job; of one whose task is not in this code, whatever is named like a secret."""
    try:
        task = load_task(job.func)
        return redaction_for(task, options_of(task))
    except (TaskNotFound, ValueError, TypeError):
        return Redaction()


def redaction_for(task: AnyTask, options: TaskOptions) -> Redaction:
    """What to hide of the jobs of a task."""
    try:
        parameters = list(inspect.signature(task.func).parameters)
    except (TypeError, ValueError):
        parameters = []
    return Redaction(names=frozenset(options.redact), positions=tuple(parameters[1 if task.takes_context else 0 :]))


# --- in the middle of other texts ------------------------------------------------------------------------------------


def hiding(redaction: Redaction, calls: Iterable[tuple[Sequence[Any], Mapping[str, Any]]]) -> Hide:
    """A function that hides, in a message or a traceback, the values that are hidden of some calls.

    Numbers and texts shorter than `SHORTEST` are left, as they are found everywhere.
    """
    values = {text for args, kwargs in calls for text in redaction.hidden(args, kwargs) if len(text) >= SHORTEST}
    if not values:
        return _shown
    if len(values) > MOST:
        return lambda text: HIDDEN if text else text
    # A value may be written as it is, as Python shows it, or as JSON.
    forms = {form for value in values for form in (value, repr(value)[1:-1], _as_json(value))}
    found = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    return lambda text: found.sub(HIDDEN, text)


def hides(hide: Hide) -> bool:
    """Whether there is anything that it hides."""
    return hide is not _shown


def hiding_of(job: Job) -> Hide:
    """As `hiding`, of one job."""
    return hiding(redaction_of(job), [(job.args, job.kwargs)])


def shown_value(job: Job, value: Any, redaction: Redaction | None = None) -> Any:
    """A return value or metadata of a job as it may be shown, without the values that are hidden of its arguments."""
    redaction = redaction or redaction_of(job)
    return _without_texts(redaction.value(value), hiding(redaction, [(job.args, job.kwargs)]))


def veiled(record: JobRecord) -> JobRecord:
    """The record without, in its errors, progress and keys, the values that are hidden of its arguments."""
    hide = hiding_of(record.job)
    if hide is _shown:
        return record
    attempts = [
        replace(one, failure=_veiled(one.failure, hide) if one.failure else None) for one in record.job.attempts
    ]
    letter = record.letter and replace(record.letter, failure=_veiled(record.letter.failure, hide))
    progress = record.progress and replace(record.progress, message=hide(record.progress.message))
    job = _veiled_keys(evolve_job(record.job, attempts=tuple(attempts)), hide)
    return replace(record, job=job, letter=letter, progress=progress)


def veiled_group(group: LetterGroup) -> LetterGroup:
    """The group without, in its message, the values that are hidden of the job that it is from."""
    return group if group.job is None else replace(group, message=hiding_of(group.job)(group.message))


def _veiled_keys(job: Job, hide: Hide) -> Job:
    """Keys are made from arguments, which are to be hidden in them too."""
    unique, limit = job.unique, job.limit
    return evolve_job(
        job,
        unique=unique and replace(unique, key=hide(unique.key)),
        limit=limit
        and replace(
            limit,
            concurrency_key=limit.concurrency_key and hide(limit.concurrency_key),
            rate_key=limit.rate_key and hide(limit.rate_key),
        ),
    )


def _veiled(failure: Failure, hide: Hide) -> Failure:
    return replace(failure, message=hide(failure.message), traceback=hide(failure.traceback))


def searcher() -> Callable[[Job], str]:
    """What a search for text may find of a job: id, path, and the arguments that are not hidden.

    The function asks each task once what to hide, so a search should have one of its own.
    """
    known: dict[str, Redaction] = {}

    def searchable(job: Job) -> str:
        redaction = known.get(job.func)
        if redaction is None:
            redaction = known[job.func] = redaction_of(job)
        return " ".join((job.id, job.func, orjson.dumps(redaction.arguments(job.args, job.kwargs)).decode()))

    return searchable


def _shown(text: str) -> str:
    return text


def _as_json(text: str) -> str:
    try:
        return orjson.dumps(text).decode()[1:-1]
    except TypeError:
        return text


def _texts(value: Any, *, hidden: bool, looks_inside: bool) -> Iterator[str]:
    """Every text in a hidden value, and in one that is not, those that are named like a secret."""
    # Without recursion: this is asked while a failure is described, which must not fail at deep nesting.
    waiting = [(value, hidden)]
    while waiting:
        part, hides = waiting.pop()
        if isinstance(part, str):
            if hides:
                yield part
        elif isinstance(part, Mapping):
            waiting += [(inner, hides or (looks_inside and _is_secret(key))) for key, inner in part.items()]
        elif isinstance(part, list | tuple):
            waiting += [(inner, hides) for inner in part]


def _is_secret(key: Any) -> bool:
    return isinstance(key, str) and SECRET.search(key) is not None


# --- edits -----------------------------------------------------------------------------------------------------------


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


def _without_texts(value: Any, hide: Hide) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {hide(key) if isinstance(key, str) else key: _without_texts(part, hide) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_texts(part, hide) for part in value]
    return value


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: HIDDEN if _is_secret(key) else _without_secrets(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_secrets(part) for part in value]
    return value

"""Writing the job and its JSON in one go, where all that differs from call to call is id, arguments and time.

What the jobs of a task have in common is written once, which makes one of them several times as fast as from anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from .model import Job, assemble_job, job_values
from .payload import to_payload

_OPEN = ("args", "kwargs", "ts", "id")


class Written(NamedTuple):
    """The JSON of a call's arguments: an array of the positional and the named ones. `kwargs` are as given."""

    joined: bytes
    kwargs: Mapping[str, Any]

    def parts(self) -> tuple[bytes, bytes]:
        """The array of the positional arguments and the object of the named ones."""
        named = orjson.dumps(self.kwargs) if self.kwargs else b"{}"
        return self.joined[1 : -len(named) - 2], named


class Mould:
    """Makes jobs that are like a template."""

    __slots__ = ("_common", "_func", "_gaps", "_queue")

    def __init__(self, template: Job) -> None:
        values = job_values(template)
        self._func, self._queue = template.func, (template.queue, template.priority)
        self._common = values[7:]
        self._gaps = _gaps(to_payload(template))

    def job(self, job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any], now: float, text: Written) -> Job:
        """A job enqueued at `now` (epoch seconds); `text` is its arguments as JSON."""
        before, between, time, end = self._gaps
        positional, named = text.parts()
        encoded = b"".join(
            (before, positional, between, named, time, orjson.dumps(now), end, orjson.dumps(job_id), b"}"),
        )
        return assemble_job(job_id, self._func, args, kwargs, *self._queue, now, *self._common, encoded)


def _gaps(payload: Mapping[str, Any]) -> tuple[bytes, ...]:
    """The JSON of a payload in four pieces: each ends where one of `_OPEN` is to stand."""
    pieces, piece = [], b"{"
    for name, value in payload.items():
        piece += orjson.dumps(name) + b":"
        if name in _OPEN:
            pieces.append(piece)
            piece = b","
        else:
            piece += orjson.dumps(value) + b","
    return tuple(pieces)

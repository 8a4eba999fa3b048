"""The framework's own log line about a failure, without what is hidden of the job's arguments."""

import inspect
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType, TracebackType

from ..framework import LOGGER_NAME
from ..tasks.redaction import Hide, hides

DEPTH = 20
"""How many exceptions of a chain are shown."""

_hide: ContextVar[Hide | None] = ContextVar("vtasks_hide", default=None)


@contextmanager
def veiled_log(hide: Hide | None) -> Iterator[None]:
    """While the block lasts, what the framework logs of an exception goes through `hide`."""
    token = _hide.set(hide if hide is not None and hides(hide) else None)
    try:
        yield
    finally:
        _hide.reset(token)


class _Veil(logging.Filter):
    """Puts a stand-in with the same name and traceback where the exception's text tells what is hidden, and empties
    the frames of the functions that are over: an error tracker shows their variables."""

    def filter(self, record: logging.LogRecord) -> bool:
        hide = _hide.get()
        if hide is not None and record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            _forget_locals(error)
            shown = _stand_in(error, hide, DEPTH)
            record.exc_info = (type(shown), shown, _of_the_function(error.__traceback__))
        return True


logging.getLogger(LOGGER_NAME).addFilter(_Veil())


def _of_the_function(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the function on: our own frames run on, and their variables cannot be emptied."""
    found = trace
    # A receiver's thread may have raised it again, with frames of its own before ours.
    while found is not None and not _is_ours(found.tb_frame):
        found = found.tb_next
    while found is not None and _is_ours(found.tb_frame):
        found = found.tb_next
    return found or trace


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(__package__)


def _forget_locals(error: BaseException) -> None:
    over = _frames(_of_the_function(error.__traceback__))
    for one in _chain(error, DEPTH):
        for frame in _frames(one.__traceback__):
            if frame in over or _is_surely_over(frame):
                with suppress(RuntimeError):
                    frame.clear()


def _is_surely_over(frame: FrameType) -> bool:
    # Until Python 3.13 clearing the frame of a coroutine that waits closes it, be it ours or somebody else's.
    waits = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
    return sys.version_info >= (3, 13) or not frame.f_code.co_flags & waits


def _frames(trace: TracebackType | None) -> list[FrameType]:
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return [frame for frame in frames if not _is_ours(frame)]


def _chain(error: BaseException, depth: int) -> Iterator[BaseException]:
    yield error
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if other is not None and depth:
            yield from _chain(other, depth - 1)


def _stand_in(error: BaseException, hide: Hide, depth: int) -> BaseException:
    if not _tells(error, hide, depth):
        return error
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    shown: BaseException = type(kind.__name__, (Exception,), names)(hide(_text(error)))
    shown.__traceback__ = error.__traceback__
    for note in getattr(error, "__notes__", ()):
        shown.add_note(hide(str(note)))
    if depth:
        cause, context = error.__cause__, error.__context__
        shown.__cause__ = _stand_in(cause, hide, depth - 1) if cause else None
        shown.__context__ = _stand_in(context, hide, depth - 1) if context else None
    shown.__suppress_context__ = error.__suppress_context__
    return shown


def _tells(error: BaseException, hide: Hide, depth: int) -> bool:
    texts = [_text(error), *map(str, getattr(error, "__notes__", ())), *map(_text, getattr(error, "exceptions", ()))]
    if any(hide(text) != text for text in texts):
        return True
    return any(depth and _tells(one, hide, depth - 1) for one in (error.__cause__, error.__context__) if one)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""

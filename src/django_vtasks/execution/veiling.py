"""The framework's own log line about a failure, without what is hidden of the job's arguments."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType

from ..framework import LOGGER_NAME
from ..tasks.redaction import Hide

DEPTH = 20
"""How many exceptions of a chain are shown."""

_hide: ContextVar[Hide | None] = ContextVar("vtasks_hide", default=None)


@contextmanager
def veiled_log(hide: Hide | None) -> Iterator[None]:
    """While the block lasts, what the framework logs of an exception goes through `hide`."""
    token = _hide.set(hide)
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
            _forget_locals(error, DEPTH)
            shown = _stand_in(error, hide, DEPTH)
            record.exc_info = (type(shown), shown, _of_the_function(error.__traceback__))
        return True


logging.getLogger(LOGGER_NAME).addFilter(_Veil())


def _of_the_function(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the function on: our own frames run on, and their variables cannot be emptied."""
    found = trace
    while found is not None and found.tb_frame.f_globals.get("__name__", "").startswith(__package__):
        found = found.tb_next
    return found or trace


def _forget_locals(error: BaseException, depth: int) -> None:
    traceback.clear_frames(error.__traceback__)
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if other is not None and depth:
            _forget_locals(other, depth - 1)


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

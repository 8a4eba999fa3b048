"""An exception as a `Failure`: text that every store can keep, whatever the exception does."""

import hashlib
import itertools
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import FrameType, TracebackType

from ..jobs.model import Failure

MESSAGE_LIMIT = 8 * 1024
TRACEBACK_LIMIT = 64 * 1024
"""Characters kept of a message and of a traceback: the beginning and the end, which names the exception."""

FINGERPRINT_LIMIT = 200

_OURS = __name__.rpartition(".")[0] + "."


def describe(error: BaseException, func: str, hide: Callable[[str], str] = str) -> Failure:
    """The failure of a task at path `func`; `hide` takes out of its texts what is not to be seen. Never raises.

    The traceback begins in the task; the fingerprint is that of (task, exception class, raising line).
    """
    frames = _of_the_task(error.__traceback__)
    path = class_path(error)
    return Failure(
        exception_class=clean(path),
        message=shorten(clean(hide(_message(error))), MESSAGE_LIMIT),
        traceback=shorten(clean(hide(_traceback(error, frames, path))), TRACEBACK_LIMIT),
        fingerprint=_fingerprint(func, path, frames),
    )


def describe_stop(error: BaseException, func: str, hide: Callable[[str], str] = str) -> Failure:
    """As `describe`, for an error that stands for a stop from outside: no line of the task raised it."""
    return replace(
        describe(error, func, hide), fingerprint=clean(f"{func}:{type(error).__name__}")[:FINGERPRINT_LIMIT]
    )


def stack_of_task(thread: int) -> str:
    """Where the task that a thread runs is now, as lines of a traceback; empty when it runs none."""
    outermost_first = [*traceback.walk_stack(sys._current_frames().get(thread))][::-1] if thread else []
    below = itertools.dropwhile(lambda entry: not _is_ours(entry[0]), outermost_first)
    of_the_task = itertools.dropwhile(lambda entry: _is_ours(entry[0]), below)
    return "".join(traceback.StackSummary.extract(of_the_task).format())


def class_path(error: BaseException) -> str:
    """The dotted path of an exception's class."""
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def clean(text: str) -> str:
    """The text without what stores refuse: NUL and lone surrogates become escapes."""
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shorten(text: str, limit: int) -> str:
    """At most about `limit` characters: all of the text, or its two ends."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _of_the_task(frames: TracebackType | None) -> TracebackType | None:
    while frames is not None and frames.tb_next is not None:
        if not _is_ours(frames.tb_frame):
            break
        frames = frames.tb_next
    return frames


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith(_OURS)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as refusal:
        return f"<str() of the exception raised {type(refusal).__name__}>"


def _traceback(error: BaseException, frames: TracebackType | None, path: str) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except BaseException as refusal:
        return f"<the traceback cannot be printed: {type(refusal).__name__}>\n{path}"


def _fingerprint(func: str, path: str, frames: TracebackType | None) -> str:
    text = clean(f"{func}:{path}{_raising_line(frames)}")
    if len(text) <= FINGERPRINT_LIMIT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: FINGERPRINT_LIMIT - 17]}:{digest}"


def _raising_line(frames: TracebackType | None) -> str:
    if frames is None:
        return ""
    while frames.tb_next is not None:
        frames = frames.tb_next
    module = frames.tb_frame.f_globals.get("__name__", "?")
    return f":{module}:{frames.tb_lineno}"

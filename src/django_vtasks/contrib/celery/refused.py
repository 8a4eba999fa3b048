"""Celery's canvas, refused where it is used and not where it is imported."""

from typing import Any, NoReturn

from .options import NotSupported

CANVAS = (
    "signatures and the canvas (chain, group, chord, chunks) are not supported: enqueue the next task at the end of "
    "the one before, and several at once with task_backends['default'].enqueue_many()"
)


def signature(*_args: Any, **_kwargs: Any) -> NoReturn:
    """Not supported. Raises NotSupported with what to do instead."""
    raise NotSupported(CANVAS)


chain = group = chord = chunks = signature

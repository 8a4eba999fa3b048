"""Small helpers for settings modules and entry points."""

import functools
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

logger = logging.getLogger(__name__)

UNNEEDED_APPS = (
    "django.contrib.admin",
    "django.contrib.staticfiles",
    "django.contrib.sessions",
    "django.contrib.messages",
    "debug_toolbar",
)
"""Apps that serve pages and do nothing in a worker."""


def prune_installed_apps(apps: Iterable[str]) -> list[str]:
    """The apps without `UNNEEDED_APPS`, in the same order. An app that depends on one of those must go too."""
    return [app for app in apps if app not in UNNEEDED_APPS]


def crash_reporter[**P, R](
    function: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """A coroutine function that logs what it raises at CRITICAL, with traceback, and raises it on.

    For background coroutines whose exception nobody awaits. Cancellation is no crash.
    """

    @functools.wraps(function)
    async def reporting(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await function(*args, **kwargs)
        except Exception:
            logger.critical("%s crashed", function.__qualname__, exc_info=True)
            raise

    return reporting


__all__ = ["UNNEEDED_APPS", "crash_reporter", "prune_installed_apps"]

"""From the event loop to the thread of the test."""

from collections.abc import Callable

from asgiref.sync import sync_to_async
from django.db import connections


async def in_callers_thread[*Args, Result](function: Callable[[*Args], Result], *args: *Args) -> Result:
    """What a function returns that is called where the test's connections are; what it asks them is not counted."""
    call: Callable[[], Result] = lambda: _uncounted(function, *args)  # noqa: E731 - keeps the types
    return await sync_to_async(call)()


def _uncounted[*Args, Result](function: Callable[[*Args], Result], *args: *Args) -> Result:
    counted = [used for used in connections.all(initialized_only=True) if used.force_debug_cursor]
    for connection in counted:
        connection.force_debug_cursor = False
    try:
        return function(*args)
    finally:
        for connection in counted:
            connection.force_debug_cursor = True

"""Waiting for a condition with a deadline, never for an amount of time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

#: Generous on purpose: a deadline only costs time when a test fails.
DEADLINE = 30.0
EVERY = 0.02


def eventually[T](condition: Callable[[], T], *, within: float = DEADLINE, message: str | Callable[[], str] = "") -> T:
    """Call `condition` until it returns something true, and return that; fail after `within` seconds.

    An AssertionError raised by the condition counts as "not yet" and is shown when the deadline passes.
    """
    deadline = time.monotonic() + within
    while True:
        result, problem = _try(condition)
        if result:
            return result
        if time.monotonic() > deadline:
            raise _too_late(condition, result, within, message) from problem
        time.sleep(EVERY)


async def aeventually[T](
    condition: Callable[[], T | Awaitable[T]], *, within: float = DEADLINE, message: str | Callable[[], str] = ""
) -> T:
    """Like `eventually`, for a plain or an async condition; the event loop goes on meanwhile."""
    deadline = time.monotonic() + within
    while True:
        result, problem = await _atry(condition)
        if result:
            return result
        if time.monotonic() > deadline:
            raise _too_late(condition, result, within, message) from problem
        await asyncio.sleep(EVERY)


async def happens(event: asyncio.Event, *, within: float = DEADLINE) -> None:
    """Wait for an event; fail after `within` seconds."""
    try:
        await asyncio.wait_for(event.wait(), within)
    except TimeoutError:
        raise AssertionError(f"the event did not happen within {within:.0f} s") from None


async def let_others_run(turns: int = 20) -> None:
    """Give every ready callback of the loop a few turns, without any time passing on purpose."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def measured_for(seconds: float) -> None:
    """Let time pass because a rate is measured over it, not because something is hoped to have happened by then."""
    await asyncio.sleep(seconds)


def _try(condition: Callable[[], Any]) -> tuple[Any, AssertionError | None]:
    try:
        return condition(), None
    except AssertionError as problem:
        return None, problem


async def _atry(condition: Callable[[], Any]) -> tuple[Any, AssertionError | None]:
    try:
        result = condition()
        return (await result if inspect.isawaitable(result) else result), None
    except AssertionError as problem:
        return None, problem


def _too_late(
    condition: Callable[[], Any], last: object, within: float, message: str | Callable[[], str]
) -> AssertionError:
    name = getattr(condition, "__qualname__", repr(condition))
    text = message() if callable(message) else message
    return AssertionError(f"{name} was still {last!r} after {within:.0f} s{': ' if text else ''}{text}")

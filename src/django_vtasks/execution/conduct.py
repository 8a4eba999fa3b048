"""One attempt from its start to its end: the same body for coroutines on the loop and functions in threads.

In a thread the body is driven by hand: nothing that it awaits there waits for anything.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..jobs.outcomes import Outcome
from . import connections
from .announcements import Send, announce_end, announce_start, end_is_heard, send_on_loop, start_is_heard
from .contexts import with_hygiene
from .endings import Stop, is_control

if TYPE_CHECKING:
    from .attempts import Attempt

logger = logging.getLogger(__name__)


async def conduct(attempt: "Attempt", send: Send) -> BaseException | None:
    """Call the function, make the outcome and announce it; returns what the function raised.

    Raises nothing but a cancellation while it announces.
    """
    if not attempt.begins():
        return None
    try:
        if start_is_heard():
            await announce_start(attempt, send)
            attempt.still_begins()
        value = attempt.call()
        if attempt.is_async:
            value = await value
        outcomes = attempt.returned(value)
    except BaseException as raised:
        await _fail(attempt, raised, send)
        return raised
    if attempt.end():
        attempt.settle(outcomes if attempt.stop is None else attempt.despite_stop(outcomes))
        if end_is_heard(None):
            await announce_end(attempt, None, send)
    return None


async def conduct_wrapped(attempt: "Attempt", send: Send) -> BaseException | None:
    """As `conduct`, inside the context of VTASKS_TASK_CONTEXT and the span of a trace."""
    if attempt.is_over:
        return None
    entered = _enter(attempt)
    error = None
    try:
        error = await conduct(attempt, send)
    finally:
        _leave(entered, error)
    return error


def drive(attempt: "Attempt", send: Send) -> None:
    """Run `conduct` in a slot thread."""
    body = attempt.env.conduct(attempt, send)
    try:
        body.send(None)
    except StopIteration:
        return
    body.close()
    raise RuntimeError("an attempt in a thread waited for the event loop")


def announce_outside(attempt: "Attempt", error: BaseException | None) -> None:
    """On the loop: announce the end of an attempt whose function did not make it, then report it."""
    env = attempt.env
    if error is None or not end_is_heard(error):
        env.loop.call_soon(attempt.report)
        return

    def announced(_task: asyncio.Task[None]) -> None:
        env.contexts.give_back(slot)
        attempt.report()

    slot = env.contexts.take()
    body = with_hygiene(slot, _announce_raised, attempt, error)
    env.loop.create_task(body, context=slot.context.copy()).add_done_callback(announced)


async def _announce_raised(attempt: "Attempt", error: BaseException) -> None:
    """Receivers of the end of a failure find its exception in `sys.exc_info()`, as when a function raised it."""
    try:
        raise error  # noqa: TRY301 - to be caught
    except BaseException as raised:
        await _announce(attempt, raised, send_on_loop)


async def _fail(attempt: "Attempt", raised: BaseException, send: Send) -> None:
    if isinstance(raised, GeneratorExit) and _is_orphan(attempt):
        return
    connections.look_at(raised)
    if attempt.task is not None:
        while attempt.task.cancelling():
            attempt.task.uncancel()
    stop = attempt.stop
    if stop is None or (is_control(raised) and stop is not Stop.CANCEL):
        outcomes = attempt.raised(raised) if not attempt.is_tried_alone(raised) else await _one_by_one(attempt)
        if attempt.end():
            attempt.settle(outcomes)
            await _announce(attempt, raised, send)
        return
    try:
        raise attempt.stop_error() from raised  # noqa: TRY301 - as in _announce_raised
    except BaseException as told:
        if attempt.end():
            attempt.settle(attempt.stopped(told))
            await _announce(attempt, told, send)


async def _one_by_one(attempt: "Attempt") -> Sequence[Outcome]:
    """Run the members of a failed group again, each alone."""
    for claim, job in attempt.jobs():
        if attempt.told_to_stop or not attempt.env.options.may_begin():
            break
        try:
            value = attempt.call_alone(claim, job)
            if attempt.is_async:
                value = await value
            attempt.ended_alone(claim, value, None)
        except BaseException as raised:
            if attempt.told_to_stop and not is_control(raised):
                break
            attempt.ended_alone(claim, None, raised)
    return attempt.stopped(attempt.stop_error())


async def _announce(attempt: "Attempt", error: BaseException, send: Send) -> None:
    if end_is_heard(error):
        await announce_end(attempt, error, send)


def _is_orphan(attempt: "Attempt") -> bool:
    """Whether the coroutine is closed by the interpreter because its loop is gone, so that nothing can be awaited."""
    if attempt.task is None:
        return False
    try:
        return asyncio.current_task() is not attempt.task
    except RuntimeError:
        return True


def _enter(attempt: "Attempt") -> list[AbstractContextManager[Any]]:
    entered: list[AbstractContextManager[Any]] = []
    options = attempt.env.options
    try:
        if options.task_context is not None:
            _enter_one(options.task_context(queue=attempt.claims[0].queue, **attempt.names()), entered)
    except Exception:
        logger.exception("VTASKS_TASK_CONTEXT failed; %s runs without it", attempt.path)
    try:
        if options.span is not None:
            _enter_one(options.span(tuple(attempt.claims), attempt.claims[0].lease.owner), entered)
    except Exception:
        logger.exception("The span of %s could not be started", attempt.path)
    return entered


def _enter_one(manager: AbstractContextManager[Any], entered: list[AbstractContextManager[Any]]) -> None:
    manager.__enter__()
    entered.append(manager)


def _leave(entered: list[AbstractContextManager[Any]], error: BaseException | None) -> None:
    for manager in reversed(entered):
        try:
            manager.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)
        except Exception:
            logger.exception("Leaving %r, which was entered around a task, failed", manager)

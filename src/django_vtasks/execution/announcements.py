"""The signals of an attempt: the framework's, and those of the 3.2 line. Sent only if heard; receivers change nothing.

An attempt on the loop awaits its async receivers one after the other, in its own task and context; it calls the others
in the thread of its ORM calls. An attempt in a thread calls receivers without `async` there and then, and has the
others run on the worker's loop, in a copy of its context, while it waits.
"""

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.dispatch import Signal

from .. import framework, signals
from ..framework import is_heard, is_only_logged, logged_as_no_error
from ..jobs.model import Claim, Job, JobRecord, JobState, Running
from ..jobs.outcomes import Cancelled, Discarded, Interrupted, Succeeded
from ..jobs.transitions import Bury, Finish, Requeue
from .failures import describe
from .veiling import veiled_log

if TYPE_CHECKING:
    from .attempts import Attempt

logger = logging.getLogger(__name__)

RECEIVER_SECONDS = 60.0
"""How long a thread waits for the async receivers of a signal."""

type Send = Callable[..., Awaitable[None]]


# -- what is sent -----------------------------------------------------------------------------------------------------


def start_is_heard() -> bool:
    """Whether anybody hears of the start of an attempt."""
    return bool(signals.task_started.receivers) or is_heard(framework.task_started)


def end_is_heard(error: BaseException | None) -> bool:
    """Whether anybody hears of the end of an attempt, that raised `error` if it is not None."""
    if signals.task_finished.receivers:
        return True
    if error is None:
        return is_heard(framework.task_finished)
    return (
        is_heard(framework.task_finished, level=logging.ERROR)
        or bool(signals.task_failure.receivers)
        or bool(signals.task_retried.receivers)
    )


async def announce_start(attempt: "Attempt", send: Send) -> None:
    """The signals before the function is called."""
    options = attempt.env.options
    if signals.task_started.receivers:
        await send(signals.task_started, options.worker_class, **attempt.names(), **attempt.arguments())
    if is_heard(framework.task_started):
        for claim in attempt.claims:
            await send(framework.task_started, options.backend_class, task_result=attempt.result_of(claim))


async def announce_end(attempt: "Attempt", error: BaseException | None, send: Send) -> None:
    """The signals after the outcome is made; inside the `except` block when there is an `error`."""
    options = attempt.env.options
    if attempt.executed:
        signal, details = _old_signal(attempt, error)
        if signal.receivers:
            await send(signal, options.worker_class, **attempt.names(), **details)
    if not is_heard(framework.task_finished, level=logging.INFO if error is None else logging.ERROR):
        return
    hide = attempt.hide() if error else None
    for claim, outcome, decision in attempt.endings:
        if claim.job is not None and not isinstance(decision, Requeue):
            result = options.result_from(_final_record(claim, decision))
            with logged_as_no_error(isinstance(outcome, Discarded | Cancelled)), veiled_log(hide):
                await send(framework.task_finished, options.backend_class, task_result=result)


def running_record(claim: Claim, job: Job) -> JobRecord:
    """What is known of a job while it runs."""
    running = Running(worker_id=claim.lease.owner, started_at=claim.started_at)
    return JobRecord(job=job, state=JobState.LEASED, running=running)


def _final_record(claim: Claim, decision: Finish | Bury) -> JobRecord:
    if isinstance(decision, Bury):
        letter = decision.letter
        assert letter.job is not None  # noqa: S101 - the claim has one
        return JobRecord(job=letter.job, state=JobState.DEAD, finished_at=letter.failed_at, letter=letter)
    # A job without a result is not given the attempt that ended; its worker is known all the same.
    counted = claim.job is not None and decision.job.starts > claim.job.starts
    return JobRecord(
        job=decision.job,
        state=decision.state,
        running=None if counted else Running(worker_id=claim.lease.owner, started_at=claim.started_at),
        finished_at=decision.finished_at,
        value=decision.value,
    )


def _old_signal(attempt: "Attempt", error: BaseException | None) -> tuple[Signal, dict[str, Any]]:
    """Exactly one of finished, failure and retried for each execution, a batch group being one."""
    claim, _, decision = attempt.endings[0]
    outcomes = [outcome for _, outcome, _ in attempt.endings]
    if error is None or all(isinstance(outcome, Succeeded | Discarded) for outcome in outcomes):
        return signals.task_finished, {"duration": attempt.ended_at - claim.started_at}
    goes_on = all(isinstance(ending[2], Requeue) for ending in attempt.endings)
    if goes_on and isinstance(decision, Requeue) and not any(isinstance(outcome, Interrupted) for outcome in outcomes):
        number = claim.job.starts + 1 if claim.job is not None else 1
        return signals.task_retried, {"exception": error, "delay": decision.delay or 0.0, "attempt": number}
    failure = describe(error, attempt.path, attempt.hide())
    return signals.task_failure, {"exception": error, "traceback": failure.traceback}


# -- how it is sent ---------------------------------------------------------------------------------------------------

type Receiver = Callable[..., Any]


async def send_on_loop(signal: Signal, sender: type, **named: Any) -> None:
    """Send from a coroutine. Raises nothing but a cancellation from outside."""
    if is_only_logged(signal):
        signal.send_robust(sender, **named)
        return
    named |= {"signal": signal, "sender": sender}
    plain, coroutines = _receivers(signal, sender)
    if plain:
        await _call_in_thread(plain, named)
    await _await_each(coroutines, named)


class ThreadSender:
    """Sends from slot threads; `loop` runs the async receivers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def __call__(self, signal: Signal, sender: type, **named: Any) -> None:
        """Send, without ever giving control away. Raises nothing."""
        named |= {"signal": signal, "sender": sender}
        plain, coroutines = _receivers(signal, sender)
        _call_each(plain, named)
        if coroutines:
            try:
                self.run_on_loop(_await_each(coroutines, named))
            except Exception:
                logger.exception("The async receivers of a task's signal did not end")

    def run_on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the loop and wait for its end. Raises TimeoutError, and RuntimeError without a loop."""
        context = contextvars.copy_context()
        finished: Future[None] = Future()

        def start() -> None:
            task = self._loop.create_task(work, context=context)
            task.add_done_callback(lambda _: finished.set_result(None))

        try:
            self._loop.call_soon_threadsafe(start)
        except RuntimeError:
            work.close()
            raise
        finished.result(RECEIVER_SECONDS)


def _receivers(signal: Signal, sender: type) -> tuple[Sequence[Receiver], Sequence[Receiver]]:
    """The receivers without and with `async`."""
    # Django sends to async receivers in tasks of their own, where what they raise may end the event loop, and what
    # they do to the context is not the attempt's; so the receivers are called from here.
    plain, coroutines = signal._live_receivers(sender)
    return plain, coroutines


def _call_each(receivers: Sequence[Receiver], named: dict[str, Any]) -> None:
    for receiver in receivers:
        try:
            receiver(**named)
        except BaseException:
            logger.exception("The receiver %r of a task's signal raised", receiver)


_call_in_thread = sync_to_async(_call_each)


async def _await_each(receivers: Sequence[Receiver], named: dict[str, Any]) -> None:
    for receiver in receivers:
        try:
            await receiver(**named)
        except (asyncio.CancelledError, GeneratorExit):
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            logger.exception("The receiver %r of a task's signal raised", receiver)
        except BaseException:
            logger.exception("The receiver %r of a task's signal raised", receiver)

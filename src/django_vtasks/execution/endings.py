"""From what a function did to the outcome of its attempt."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Any

from ..exceptions import Discard, JobCancelled, JobTimedOut, Retry, Snooze
from ..framework import TaskResult
from ..jobs.model import Failure, Job
from ..jobs.outcomes import (
    Abandonment,
    Cancelled,
    Discarded,
    Interrupted,
    Outcome,
    Raised,
    RetryRequested,
    Snoozed,
    TimedOut,
)
from ..jobs.retries import Exponential, Fixed, clamp_delay
from ..tasks.redaction import Hide
from .failures import describe, describe_stop
from .registry import RunnableTask

logger = logging.getLogger(__name__)

type ResultOf = Callable[[], TaskResult[..., Any]]
"""Makes the TaskResult of a job while it runs."""


class Stop(Enum):
    """Why an attempt is stopped from outside."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    LOST = "lost"


def stop_error(stop: Stop, runnable: RunnableTask) -> BaseException:
    """The exception that stands for a stop."""
    if stop is Stop.CANCEL:
        return JobCancelled(f"{runnable.path} was cancelled while it ran")
    if stop is Stop.TIMEOUT:
        return JobTimedOut(f"{runnable.path} ran longer than its timeout of {runnable.timeout:g} s")
    if stop is Stop.LOST:
        return JobCancelled(f"{runnable.path} was stopped: its job is somebody else's by now")
    return asyncio.CancelledError("the worker shut down")


class Case:
    """One exception that ended an attempt of a task; the failure is described once for all members of a batch.

    What is hidden of their arguments (`hide`) is hidden in the failure too, and so wherever that is kept or shown.
    """

    def __init__(self, error: BaseException, runnable: RunnableTask, hide: Hide, *, is_stop: bool = False) -> None:
        self.error = error
        self.runnable = runnable
        self.failure = (describe_stop if is_stop else describe)(error, runnable.path, hide)

    def outcome(self, job: Job, result: ResultOf) -> Outcome:
        """The outcome for a job whose function raised; `result` makes its TaskResult for a callable backoff."""
        match self.error:
            case Retry(delay=float() as asked):
                return RetryRequested(delay=asked, failure=self.failure)
            case Retry():
                delay, note = self._delay(job, result)
                return RetryRequested(delay=delay or 0.0, failure=_noted(self.failure, note))
            case Snooze(delay=float() as asked, reason=reason):
                return Snoozed(delay=asked, reason=reason)
            case Discard():
                return Discarded(failure=self.failure)
        delay, note = self._retry(job, result)
        return Raised(failure=_noted(self.failure, note), delay=delay)

    def stopped(self, stop: Stop, how: Abandonment, job: Job, result: ResultOf) -> Outcome:
        """The outcome for a job that was stopped from outside."""
        if stop is Stop.CANCEL:
            return Cancelled(failure=self.failure, how=how)
        if stop is Stop.TIMEOUT:
            delay, note = self._retry(job, result)
            return TimedOut(failure=_noted(self.failure, note), how=how, delay=delay)
        return Interrupted() if stop is Stop.SHUTDOWN else Interrupted(reason="its job is somebody else's by now")

    def _retry(self, job: Job, result: ResultOf) -> tuple[float | None, str]:
        """The delay that the task's rule asks for, None for no retry, and what went wrong in asking."""
        rule = self.runnable.retry_rule
        if job.failures + 1 >= rule.max_attempts or not rule.wants(self.error):
            return None, ""
        return self._delay(job, result)

    def _delay(self, job: Job, result: ResultOf) -> tuple[float | None, str]:
        backoff = self.runnable.retry_rule.backoff
        try:
            if isinstance(backoff, Exponential | Fixed):
                return clamp_delay(backoff.delay(job.failures + 1, random.random())), ""
            return clamp_delay(backoff(self.error, result())), ""
        except BaseException as error:
            logger.exception("The backoff of %s failed; the job is not retried", self.runnable.path)
            failure = describe(error, self.runnable.path)
            return None, f"not retried, its backoff raised {failure.exception_class}: {failure.message}"


def is_control(error: BaseException) -> bool:
    """Whether a function raised this to say what becomes of its job."""
    return isinstance(error, Retry | Snooze | Discard)


def _noted(failure: Failure, note: str) -> Failure:
    return replace(failure, message=f"{failure.message} [{note}]") if note else failure

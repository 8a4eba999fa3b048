"""The errors of this package. Each message says what to do."""

from datetime import timedelta

from .retries import clamp_delay


class QueueError(Exception):
    """Base of every error this package raises on its own account."""


class StoreUnavailable(QueueError):
    """Raised when the store cannot be reached or did not answer in time; trying again later may work."""


class StoreRefused(QueueError):
    """Raised when the store answered with a refusal (full, read-only, no permission); it says which."""


class LeaseLost(QueueError):
    """Raised when a worker acts on a lease it no longer has."""


class TaskNotFound(QueueError):
    """Raised when a stored path names no Task in this code."""


class CodecError(QueueError):
    """Raised when bytes are not a job of wire format version 1."""


class JobTooLarge(QueueError, ValueError):
    """Raised at enqueue when a job is larger than `VTASKS_MAX_JOB_BYTES`."""


class InvalidOptions(QueueError):
    """Raised when a setting or an option is wrong; the message lists every problem found."""


class InvalidCursor(QueueError, ValueError):
    """Raised when the place at which a list is to go on was not told by a page of that list."""

    def __init__(self, cursor: str) -> None:
        super().__init__(f"{cursor!r} is no place in this list; start from its first page.")


class JobCancelled(QueueError):
    """The error class recorded for a job that was cancelled."""


class JobTimedOut(QueueError):
    """The error class recorded for a job that ran longer than its timeout."""


class JobExpired(QueueError):
    """The error class recorded for a job that was not started before its expiry."""


class RescuedTooOften(QueueError):
    """The error class recorded for a job whose workers died more often than `max_rescues` allows."""


class JobUndecodable(QueueError):
    """The error class recorded for stored bytes that are not a job."""


class ControlFlow(Exception):
    """Base of what a task raises to say how its attempt is to end."""


class Retry(ControlFlow):
    """Raise inside a task: another attempt, counted as a failed one, after `delay` seconds or a timedelta.

    Without a delay the task's backoff decides. A negative delay is none; what is no duration raises TypeError.
    """

    def __init__(self, delay: float | timedelta | None = None, reason: str = "") -> None:
        self.delay = _seconds(delay)
        self.reason = reason
        super().__init__(reason or ("retry" if self.delay is None else f"retry in {self.delay:g} s"))


class Snooze(ControlFlow):
    """Raise inside a task: the same attempt again after `delay` seconds or a timedelta; does not count."""

    def __init__(self, delay: float | timedelta, reason: str = "") -> None:
        self.delay = _seconds(delay) or 0.0
        self.reason = reason
        super().__init__(reason or f"snoozed for {self.delay:g} s")


class Discard(ControlFlow):
    """Raise inside a task: the job ends here, without a retry and without a dead letter."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "discarded")
        self.reason = reason


def _seconds(delay: float | timedelta | None) -> float | None:
    return clamp_delay(delay.total_seconds() if isinstance(delay, timedelta) else delay)

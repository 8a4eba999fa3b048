"""Log lines: a subscriber of `events`, and the only module with words about the life of jobs.

Every record carries `event`, `job_id`, `task`, `queue`, `worker_id` and `attempt` where they apply, that of an ended
attempt `duration` (seconds) and `traceback` too.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from . import events as happened
from .framework import LOGGER_NAME, is_error_written, is_heard, task_finished
from .jobs.model import Claim
from .jobs.outcomes import Abandonment, Cancelled, Discarded, Interrupted, Outcome, Snoozed, Succeeded
from .jobs.texts import visible_line
from .jobs.transitions import Bury, Requeue

logger = logging.getLogger("django_vtasks.worker")


AFTERSHOCK = 10.0
"""Seconds after an outage in which the next one counts as a part of it: connections of before break late."""


@contextmanager
def framework_succeeding_quietly() -> Iterator[None]:
    """Keep the framework's own lines about starts and successes out of the log while the block lasts.

    A worker writes one line for each attempt itself. A project that gives the framework's logger a level decides
    for itself; failures, with their traceback, are logged in any case.
    """
    framework = logging.getLogger(LOGGER_NAME)
    if framework.level != logging.NOTSET:
        yield
        return
    framework.setLevel(logging.WARNING)
    try:
        yield
    finally:
        framework.setLevel(logging.NOTSET)


class LogLines:
    """Turns events into log lines."""

    def __init__(self) -> None:
        self._down: set[str] = set()
        self._down_since = 0.0
        self._up_since = -math.inf
        self._speaker: str | None = None

    def subscriptions(self) -> Mapping[type, Callable[[Any], None]]:
        """Which method handles which event."""
        return {
            happened.AttemptEnded: self.ended,
            happened.SettleRefused: self.refused,
            happened.JobRescued: self.rescued,
            happened.LettersEvicted: self.evicted,
            happened.LeaseRenewed: self.renewed,
            happened.StoreOutage: self.outage,
            happened.StoreRecovered: self.recovered,
            happened.LoopBlocked: self.blocked,
            happened.ThreadAbandoned: self.abandoned,
            happened.SlotsMissed: self.missed,
            happened.SlotSkipped: self.skipped,
        }

    def ended(self, event: happened.AttemptEnded) -> None:
        """One line for each attempt."""
        if (
            type(event.outcome) is Succeeded
            and event.outcome.despite is None
            and not logger.isEnabledFor(logging.INFO)
        ):
            return
        level, text = _verdict(event.outcome, event.decision)
        failed = isinstance(event.decision, Bury) and not isinstance(event.outcome, Cancelled)
        trace = _traceback(event) if failed else ""
        if trace and not _framework_tells(event.claim):
            level, text = logging.ERROR, f"{text}\n{trace}"
        elif trace and not is_error_written():
            text = f"{text}\n{trace}"
        if not logger.isEnabledFor(level):
            return
        func = visible_line(event.claim.job.func) if event.claim.job else "undecodable bytes"
        extra = _about(event.claim, type(event.outcome).__name__)
        extra |= {"duration": event.duration, "traceback": trace}
        logger.log(
            level,
            "%s (%s, %.3f s) %s",
            func,
            visible_line(event.claim.lease.job_id),
            event.duration,
            text,
            extra=extra,
        )

    def refused(self, event: happened.SettleRefused) -> None:
        """A late settlement."""
        logger.warning(
            "The outcome of %s was refused: its lease is somebody else's by now; nothing was changed",
            visible_line(event.claim.lease.job_id),
            extra=_about(event.claim, "SettleRefused"),
        )

    def rescued(self, event: happened.JobRescued) -> None:
        """A job taken over from a dead worker."""
        buried = isinstance(event.decision, Bury)
        logger.log(
            logging.ERROR if buried else logging.WARNING,
            "The lease of %s ran out with %s; the job %s",
            visible_line(event.claim.lease.job_id),
            event.claim.lease.owner,
            "is a dead letter" if buried else "is ready again",
            extra=_about(event.claim, "JobRescued"),
        )

    def evicted(self, event: happened.LettersEvicted) -> None:
        """Dead letters beyond the retention."""
        logger.warning("%d dead letters were removed to keep to the retention", event.count)

    def renewed(self, event: happened.LeaseRenewed) -> None:
        """Only a lease that had run out is worth a line."""
        if event.lost:
            logger.warning("The lease of %s had run out before it was renewed", event.worker_id)

    def outage(self, event: happened.StoreOutage) -> None:
        """One service speaks for all: its first try with the traceback, then one line for each pause."""
        now = time.monotonic()
        first = not self._down and now - self._up_since >= AFTERSHOCK
        if not self._down:
            self._down_since = now
        self._down.add(event.service)
        if self._speaker is None:
            self._speaker = event.service
        error = event.error
        level = logging.ERROR if first else logging.WARNING if event.service == self._speaker else logging.DEBUG
        logger.log(
            level,
            "%s cannot use the store: %s: %s; next try in %.1f s (try %d)",
            event.service,
            type(error).__name__,
            error,
            event.pause,
            event.attempt,
            exc_info=error if first else None,
        )

    def recovered(self, event: happened.StoreRecovered) -> None:
        """The end of an outage: one line when the last service is through."""
        self._down.discard(event.service)
        if self._speaker == event.service:
            self._speaker = None
        logger.debug("%s can use the store again after %.1f s", event.service, event.seconds)
        if not self._down:
            self._up_since = time.monotonic()
            logger.warning("The store can be used again after %.1f s", self._up_since - self._down_since)

    def blocked(self, event: happened.LoopBlocked) -> None:
        """The event loop stood still."""
        logger.warning("The event loop was blocked for %.1f s by:\n%s", event.seconds, event.stack)

    def abandoned(self, event: happened.ThreadAbandoned) -> None:
        """A thread that does not end."""
        logger.error(
            "The thread of %s did not stop when told to and was given up (%d such threads run on)",
            visible_line(event.claim.job.func) if event.claim.job else visible_line(event.claim.lease.job_id),
            event.total,
            extra=_about(event.claim, "ThreadAbandoned"),
        )

    def missed(self, event: happened.SlotsMissed) -> None:
        """Slots that were not fired."""
        if event.lost:
            logger.warning("%d slots of the schedule entry %s were lost: too many at once", event.lost, event.entry)
        else:
            text = "%d slots of the schedule entry %s passed without a job, as its catch_up says"
            logger.info(text, event.count, event.entry)

    def skipped(self, event: happened.SlotSkipped) -> None:
        """A slot whose predecessor is not done."""
        logger.warning("A slot of the schedule entry %s was skipped: the job before it is not done", event.entry)


def _verdict(outcome: Outcome, decision: Any) -> tuple[int, str]:
    if isinstance(outcome, Succeeded):
        if outcome.despite is not None:
            return logging.WARNING, f"succeeded although it had been told to stop: {_short(outcome.despite.message)}"
        return logging.INFO, "succeeded"
    if isinstance(outcome, Snoozed):
        return logging.INFO, f"snoozes for {outcome.delay:g} s"
    if isinstance(outcome, Discarded):
        return logging.INFO, f"was discarded: {_short(outcome.failure.message)}"
    if isinstance(outcome, Interrupted):
        goes_on = "and goes back to its queue" if outcome == Interrupted() else f"because {outcome.reason}"
        return logging.WARNING, f"was interrupted {goes_on}"
    left = " and its code runs on" if getattr(outcome, "how", None) is Abandonment.ABANDONED else ""
    if isinstance(outcome, Cancelled):
        # Somebody wanted it: no alarm.
        return logging.WARNING if left else logging.INFO, f"was cancelled{left}"
    failure = getattr(outcome, "failure", None)
    reason = f": {failure.exception_class.rpartition('.')[2]}: {_short(failure.message)}" if failure else ""
    if isinstance(decision, Requeue):
        return logging.WARNING, f"failed{left}, next attempt in {decision.delay or 0:.1f} s{reason}"
    return logging.WARNING, f"failed{left}{reason}"


def _traceback(event: happened.AttemptEnded) -> str:
    failure = getattr(event.outcome, "failure", None)
    return (failure.traceback or failure.message) if failure else ""


def _framework_tells(claim: Claim) -> bool:
    """Whether the framework logs the failure at ERROR with its traceback: twice would be two alarms."""
    return claim.job is not None and is_heard(task_finished, level=logging.ERROR)


def _short(message: str) -> str:
    line = visible_line(message.partition("\n")[0])
    return line if len(line) <= 300 else f"{line[:300]}..."


def _about(claim: Claim, event: str) -> dict[str, Any]:
    job = claim.job
    return {
        "event": event,
        "job_id": claim.lease.job_id,
        "task": job.func if job else None,
        "queue": claim.queue,
        "worker_id": claim.lease.owner,
        "attempt": job.starts + 1 if job else None,
    }


_installed: list[Callable[[], None]] = []


def install() -> None:
    """Subscribe the log lines to the events of this process; a second call does nothing."""
    if not _installed:
        lines = LogLines()
        _installed.extend(happened.events.subscribe(kind, handler) for kind, handler in lines.subscriptions().items())

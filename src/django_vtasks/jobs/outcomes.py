"""How an attempt ended. The executor makes these; `transitions.decide` reads them."""

from dataclasses import dataclass
from enum import StrEnum

from .model import DeadReason, Failure


class Abandonment(StrEnum):
    """What became of the code of an attempt that was stopped from outside."""

    STOPPED = "stopped"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeeded:
    """The function returned; `value` is the return value as JSON text. `despite` is the stop it had been told of."""

    value: bytes = b"null"
    despite: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The function raised. `delay` is what the retry rule asks for in seconds; None means it asks for no retry."""

    failure: Failure
    delay: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRequested:
    """The function raised `Retry`: another attempt after `delay` seconds, counted as a failure."""

    delay: float
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """The function raised `Snooze`: again after `delay` seconds, not counted."""

    delay: float
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded:
    """The function raised `Discard`: over, not worth a dead letter."""

    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The attempt ran longer than its timeout. `delay` as in `Raised`."""

    failure: Failure
    how: Abandonment = Abandonment.STOPPED
    delay: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Somebody cancelled the job while it ran."""

    failure: Failure
    how: Abandonment = Abandonment.STOPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The worker stopped before the attempt ended; the attempt does not count."""

    reason: str = "worker shut down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Untouched:
    """The job was claimed but its attempt never began; it goes back as it came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    """The holder's lease ran out before the attempt was settled."""

    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrunnable:
    """The attempt could not begin: bytes that do not decode, or a path that names no Task."""

    reason: DeadReason
    failure: Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """The job's `expires_at` passed before an attempt began."""

    failure: Failure


type Outcome = (
    Succeeded
    | Raised
    | RetryRequested
    | Snoozed
    | Discarded
    | TimedOut
    | Cancelled
    | Interrupted
    | Untouched
    | LeaseExpired
    | Unrunnable
    | Expired
)

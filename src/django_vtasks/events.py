"""What happened, as values. Logs, metrics, signals and traces subscribe; nobody else narrates.

A handler runs in the emitter's thread, must be quick, and cannot break the emitter: what it raises is logged once.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .jobs.assembling import assembler
from .jobs.model import Claim, DeadLetter
from .jobs.outcomes import Outcome
from .jobs.transitions import Decision

logger = logging.getLogger("django_vtasks.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAdded:
    """A job was accepted by the store (or found to be a duplicate: `duplicate_of` is then the survivor, if known)."""

    alias: str
    job_id: str
    func: str
    queue: str
    duplicate: bool = False
    duplicate_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """A worker began to run a job."""

    claim: Claim
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """An attempt ended; the decision is made but not yet written. `duration` is in seconds."""

    claim: Claim
    worker_id: str
    outcome: Outcome
    decision: Decision
    duration: float


assemble_ended = assembler(AttemptEnded)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRefused:
    """A decision was not written because the lease was lost."""

    claim: Claim
    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRescued:
    """A job whose lease expired was re-queued or buried by this worker."""

    claim: Claim
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterBuried:
    """A job became a dead letter."""

    letter: DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersEvicted:
    """Dead letters were removed to keep to the cap."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewed:
    """The worker's lease was renewed; `lost` says that the store had already given it up."""

    worker_id: str
    lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOutage:
    """A service failed to reach the store; `attempt` counts the tries of this outage, `pause` is the back-off."""

    service: str
    error: BaseException
    attempt: int
    pause: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecovered:
    """A service reached the store again after `seconds`."""

    service: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBlocked:
    """The event loop did not turn for `seconds`; `stack` is what it was doing."""

    seconds: float
    stack: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadAbandoned:
    """A sync attempt did not stop when asked; its thread was given up and replaced. `total` counts those alive."""

    claim: Claim
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotFired:
    """A schedule entry was enqueued for a slot, `lag` seconds after it."""

    entry: str
    slot: float
    lag: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsMissed:
    """Slots of an entry passed without being enqueued, as its catch-up rule says; `lost` of them against it."""

    entry: str
    count: int
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSkipped:
    """A slot of an entry that must not overlap passed without a job, because an earlier one is not done.

    `job_id` is the job that keeps it from running, None when the store does not know.
    """

    entry: str
    slot: float
    job_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCollected:
    """A batch of one queue was handed to its functions."""

    queue: str
    size: int


class Emitter:
    """Hands events to the handlers of their type. `wanted(type)` tells whether building the event is worth it."""

    def __init__(self) -> None:
        self._handlers: dict[type, list[Callable[[Any], None]]] = defaultdict(list)
        self._complained: list[Callable[[Any], None]] = []

    def subscribe(self, kind: type, handler: Callable[[Any], None]) -> Callable[[], None]:
        """Call `handler` for every event of this type; returns a function that ends that."""
        handlers = self._handlers[kind]
        handlers.append(handler)
        return lambda: handlers.remove(handler) if handler in handlers else None

    def wanted(self, kind: type) -> bool:
        """Whether anybody listens to this type."""
        return bool(self._handlers.get(kind))

    def emit(self, event: object) -> None:
        """Tell every handler of the event's type."""
        for handler in tuple(self._handlers.get(type(event), ())):
            try:
                handler(event)
            except Exception:
                self._complain(handler)

    def _complain(self, handler: Callable[[Any], None]) -> None:
        if handler not in self._complained:
            self._complained.append(handler)
            logger.exception("The event handler %r raised; reported once, its further errors are dropped", handler)


events = Emitter()
"""The emitter of this process."""

"""What this worker did since it was last written down, in memory."""

from dataclasses import dataclass

from ..jobs.model import JobState, OutcomeKind
from ..jobs.transitions import Bury, Decision, Finish

_FAILED_ON_THE_WAY = frozenset((OutcomeKind.RAISED, OutcomeKind.RETRIED, OutcomeKind.TIMED_OUT))


@dataclass(slots=True)
class Count:
    """What happened on one queue since it was last written down."""

    started: int = 0
    succeeded: int = 0
    failed: int = 0
    discarded: int = 0
    retried: int = 0


class Tally:
    """Counts by queue. Used on the event loop only."""

    def __init__(self) -> None:
        self._counts: dict[str, Count] = {}

    def started(self, queue: str) -> None:
        """An attempt began."""
        self._of(queue).started += 1

    def decided(self, queue: str, decision: Decision) -> None:
        """An attempt ended, and this becomes of its job."""
        count = self._of(queue)
        if type(decision) is Finish:
            if decision.state is JobState.SUCCEEDED:
                count.succeeded += 1
            else:
                count.discarded += 1
        elif type(decision) is Bury:
            count.failed += 1
        elif decision.outcome in _FAILED_ON_THE_WAY:  # type: ignore[union-attr]
            count.retried += 1

    def take(self) -> dict[str, Count]:
        """What was counted since the last call."""
        taken, self._counts = self._counts, {}
        return taken

    def __bool__(self) -> bool:
        return bool(self._counts)

    def _of(self, queue: str) -> Count:
        try:
            return self._counts[queue]
        except KeyError:
            count = self._counts[queue] = Count()
            return count

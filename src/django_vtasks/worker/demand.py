"""How much to ask the store for: what the free slots, the batch queues and the pauses allow."""

from collections.abc import Iterable, Sequence

from ..jobs.model import Claim
from ..stores.base import ClaimRequest, Want
from .batching import Collector
from .slots import Slots, StrictTurns, Turns

LARGEST_ROUND = 100
"""The most jobs claimed in one round: beyond it a round only takes longer, it does not get cheaper."""

ENOUGH_FOR_A_ROUND = 10
"""So many slots are never divided: with fewer jobs in a round, what it costs by itself counts."""


class Demand:
    """Makes claim requests. Never asks for a job that has no free slot.

    A queue that gave less than asked is dry until `refresh`: nobody asks it alone, and the worker may wait. `parts`
    says into how many rounds many free slots are divided, see `WorkerStore.parts`.
    """

    def __init__(
        self,
        slots: Slots,
        turns: Turns | StrictTurns,
        collectors: Sequence[Collector],
        max_jobs: int | None = None,
        *,
        parts: int = 1,
    ) -> None:
        self.paused: frozenset[str] = frozenset()
        self.left = max_jobs
        self._slots = slots
        self._parts = parts
        self._turns = turns
        self._collectors = {collector.queue: collector for collector in collectors}
        self._dry: set[str] = set()
        self._batches_next = False

    def request(self, owner: str) -> ClaimRequest | None:
        """What to ask for now; None when there is room for nothing."""
        most = LARGEST_ROUND if self.left is None else min(LARGEST_ROUND, self.left)
        free = min(self._part_of(self._slots.free), most)
        if free <= 0:
            return None
        wants, limit = self._wants(self._turns.next_order()), free
        if self._collectors and (batch_wants := self._wants(self._collectors)):
            wants, limit = self._joined(wants, free, batch_wants)
        if not wants:
            return None
        return ClaimRequest(owner=owner, wants=tuple(wants), limit=min(limit, most))

    def _part_of(self, free: int) -> int:
        # Jobs that are claimed together end together: worker and store would take turns waiting for each other.
        return min(free, max(ENOUGH_FOR_A_ROUND, -(-free // self._parts)))

    def answered(self, request: ClaimRequest, claims: Sequence[Claim]) -> None:
        """Learn from the answer which queues are dry."""
        if self.left is not None:
            self.left -= len(claims)
        if len(claims) >= request.limit:
            self._dry.clear()
            return
        got: dict[str, int] = {}
        for claim in claims:
            got[claim.queue] = got.get(claim.queue, 0) + 1
        for want in request.wants:
            if got.get(want.queue, 0) < want.slots:
                self._dry.add(want.queue)

    def refresh(self) -> None:
        """Something may be ready: no queue is known to be dry."""
        self._dry.clear()

    def serve(self, queue: str) -> None:
        """Ask for jobs of a further queue as well."""
        self._turns.add(queue)

    def pause(self, queues: frozenset[str]) -> bool:
        """Leave these queues out from now on; returns whether that changes anything."""
        changed = queues != self.paused
        self.paused = queues
        return changed

    @property
    def exhausted(self) -> bool:
        """Whether as many jobs were claimed as were allowed in all."""
        return self.left is not None and self.left <= 0

    def pressing(self) -> bool:
        """Whether a queue with room is not known to be dry."""
        return any(queue not in self._dry for queue in self.open_queues())

    def open_queues(self) -> list[str]:
        """The queues that have room for a job."""
        if self._slots.free <= 0 or self.exhausted:
            return []
        queues = (*self._turns.queues, *self._collectors)
        return [queue for queue in queues if self._room(queue)]

    def _room(self, queue: str) -> int:
        if queue in self.paused:
            return 0
        free = self._slots.free_for(queue)
        collector = self._collectors.get(queue)
        return free if collector is None or not free else collector.wants()

    def _wants(self, queues: Iterable[str]) -> list[Want]:
        return [Want(queue=queue, slots=room) for queue in queues if (room := self._room(queue))]

    def _joined(self, wants: list[Want], free: int, batch_wants: list[Want]) -> tuple[list[Want], int]:
        """One request for both kinds, or for each in turn when its limit could not keep the normal ones in bounds."""
        room = sum(want.slots for want in batch_wants)
        if len(wants) <= 1:
            return [*wants, *batch_wants], min(free, sum(want.slots for want in wants)) + room
        self._batches_next = not self._batches_next
        return (batch_wants, room) if self._batches_next else (wants, free)

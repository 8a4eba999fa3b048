"""Settlements on their way to the store: kept until the store has answered, counted when it refuses."""

from collections.abc import Sequence

from ..events import Emitter, LetterBuried, LettersEvicted, SettleRefused
from ..jobs.transitions import Bury, Settlement
from ..stores.base import Exchange


class Settler:
    """Owns the settlements that are not written yet; the consumer carries them to the store.

    A settlement is tried until the store answers, beyond the end of the lease too: the token decides there, and a
    finished job whose lease ran out in an outage is better settled late than run again. What waits is bounded by the
    slots, because nothing is claimed without a lease.
    """

    def __init__(self, worker_id: str, emitter: Emitter) -> None:
        self.refused = 0
        self._worker_id = worker_id
        self._emitter = emitter
        self._waiting: list[Settlement] = []
        self._under_way: Sequence[Settlement] = ()
        self._unsure: set[str] = set()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def add(self, settlement: Settlement) -> None:
        """Have this written with the next round."""
        self._waiting.append(settlement)

    def take(self, limit: int) -> Sequence[Settlement]:
        """Up to `limit` settlements for one round, oldest first; `written` or `put_back` must follow."""
        waiting = self._waiting
        if len(waiting) <= limit:
            self._waiting = []
            self._under_way = waiting
        else:
            self._under_way = waiting[:limit]
            del waiting[:limit]
        return self._under_way

    def take_all(self) -> list[Settlement]:
        """Everything that is not known to be written, for somebody who settles in the event loop's place."""
        everything = [*self._under_way, *self._waiting]
        self._waiting, self._under_way = [], ()
        return everything

    def put_back(self, settlements: Sequence[Settlement]) -> None:
        """A round with these failed: they may or may not be written, and are tried again first."""
        self._unsure.update(settlement.claim.lease.token for settlement in settlements)
        self._waiting[:0] = settlements
        self._under_way = ()

    def written(self, settlements: Sequence[Settlement], exchange: Exchange) -> None:
        """The store answered to these: tell of refusals, dead letters and evictions."""
        self._under_way = ()
        if exchange.refused:
            settlements = [s for s in settlements if not self._is_refused(s, exchange.refused)]
        if self._unsure:
            self._unsure.difference_update(s.claim.lease.token for s in settlements)
        if exchange.evicted:
            self._emitter.emit(LettersEvicted(count=exchange.evicted))
        if self._emitter.wanted(LetterBuried):
            for settlement in settlements:
                if type(settlement.decision) is Bury:
                    self._emitter.emit(LetterBuried(letter=settlement.decision.letter))

    def tokens(self) -> set[str]:
        """The tokens of everything that waits or is under way."""
        return {s.claim.lease.token for s in (*self._waiting, *self._under_way)}

    def _is_refused(self, settlement: Settlement, refused: frozenset[str]) -> bool:
        token = settlement.claim.lease.token
        if token not in refused:
            return False
        if token in self._unsure:
            # The reply of an earlier try was lost: most likely that try wrote it, and the token is gone since then.
            self._unsure.discard(token)
            return True
        self.refused += 1
        self._emitter.emit(SettleRefused(claim=settlement.claim, worker_id=self._worker_id))
        return True

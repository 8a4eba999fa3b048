"""Rounds of a worker as plans: settle, claim, reclaim."""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import batched

from ...jobs.model import Claim
from ...jobs.transitions import Settlement
from ..base import ClaimRequest, Exchange
from .claims import ADOPTED, new_claims
from .decisions import decision_args, in_writing_order, settlement_args
from .requests import Call, Part, Plan, call

CHUNK = 500
"""Settlements per script call, so that the server is never held up for more than a few milliseconds."""


@dataclass(slots=True)
class Group:
    """Settlements that one script call can write: of one owner, by the holder or by a rescuer."""

    owner: str
    reclaim: bool
    items: list[Settlement] = field(default_factory=list)


@dataclass(slots=True)
class Written:
    """What became of settlements so far."""

    refused: set[str] = field(default_factory=set)
    evicted: int = 0

    def note(self, items: Sequence[Settlement], positions: Iterable[int], evicted: int) -> None:
        """Take in one reply."""
        self.refused.update(items[position].claim.lease.token for position in positions)
        self.evicted += evicted

    def with_claims(self, claims: tuple[Claim, ...]) -> Exchange:
        """The outcome of the whole round."""
        return Exchange(claims=claims, refused=frozenset(self.refused), evicted=self.evicted)


class Rounds:
    """Makes the calls of `exchange`. `now` gives the first argument of every script."""

    def __init__(self, now: Callable[[], Part], dead_letter_cap: int) -> None:
        self._now = now
        self._cap = dead_letter_cap

    def exchange(
        self, settlements: Sequence[Settlement], request: ClaimRequest | None, nonce: str, told: Container[str]
    ) -> Plan[Exchange]:
        """Settle, then claim. `nonce` goes into the tokens of the new claims, `told` are tokens with a progress."""
        written = Written()
        groups = _groups(settlements)
        mine = groups.pop((request.owner, False), None) if request else None
        for group in groups.values():
            yield from self._settle(group, told, written)
        if request is None:
            return written.with_claims(())
        items = mine.items if mine else []
        if len(items) > CHUNK:
            yield from self._settle(Group(request.owner, reclaim=False, items=items[:-CHUNK]), told, written)
            items = items[-CHUNK:]
        args = (*settlement_args(items, told), *_wanted(request))
        now, positions, evicted, parts = yield self._round(request.owner, nonce, args)
        written.note(items, positions, evicted)
        return written.with_claims(tuple(new_claims(request.owner, nonce, float(now), parts)))

    def _settle(self, group: Group, told: Container[str], written: Written) -> Plan[None]:
        if group.owner.startswith(ADOPTED):
            yield from self._adopt(group, written)
            return
        for chunk in batched(group.items, CHUNK):
            args = settlement_args(chunk, told)
            if group.reclaim:
                positions, evicted = yield call("reclaim", self._now(), group.owner, self._cap, *args)
            else:
                _, positions, evicted, *_ = yield self._round(group.owner, "", (*args, 0, 0))
            written.note(chunk, positions, evicted)

    def _adopt(self, group: Group, written: Written) -> Plan[None]:
        worker_id = group.owner.removeprefix(ADOPTED)
        for item in group.items:
            decision = decision_args(item)
            done, evicted = yield call("adopt", self._now(), worker_id, self._cap, item.claim.raw, *decision)
            written.note((item,), () if done else (0,), evicted)

    def _round(self, owner: str, nonce: str, args: Sequence[Part]) -> Call:
        # Sent twice, it would claim twice, and call settlements lost that the first one wrote.
        return call("exchange", self._now(), owner, nonce, self._cap, *args, again=False)


def _groups(settlements: Sequence[Settlement]) -> dict[tuple[str, bool], Group]:
    groups: dict[tuple[str, bool], Group] = {}
    for item in in_writing_order(settlements):
        key = item.claim.lease.owner, item.reclaim
        group = groups.get(key)
        if group is None:
            group = groups[key] = Group(key[0], reclaim=key[1])
        group.items.append(item)
    return groups


def _wanted(request: ClaimRequest) -> list[Part]:
    args: list[Part] = [request.limit, len(request.wants)]
    for want in request.wants:
        args += (want.queue, want.slots)
    return args

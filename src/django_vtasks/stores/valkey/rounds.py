"""Rounds of a worker as plans: settle, claim, reclaim."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import batched
from typing import Any

from ...jobs.model import Claim
from ...jobs.transitions import Settlement
from ..base import ClaimRequest, Exchange
from .claims import ADOPTED, new_claims
from .decisions import Writer, claim_args, in_writing_order
from .requests import Part, Plan, call

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

    def __init__(self, now: Callable[[], Part], writer: Writer, dead_letter_cap: int) -> None:
        self._now = now
        self._writer = writer
        self._cap = dead_letter_cap

    def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest | None, nonce: str) -> Plan[Exchange]:
        """Settle, then claim. `nonce` goes into the tokens of the new claims."""
        written = Written()
        groups = _groups(settlements)
        mine: list[Settlement] = []
        if request and groups and (groups[-1].owner, groups[-1].reclaim) == (request.owner, False):
            last = groups.pop()
            mine = last.items[-CHUNK:]
            groups.append(Group(last.owner, reclaim=False, items=last.items[:-CHUNK]))
        for group in groups:
            yield from self._settle(group, written)
        if request is None:
            return written.with_claims(())
        now, counts, parts = yield from self._round(request.owner, mine, (nonce, *_wanted(request)), written)
        return written.with_claims(new_claims(request.owner, nonce, float(now), counts, parts))

    def _settle(self, group: Group, written: Written) -> Plan[None]:
        if group.owner.startswith(ADOPTED):
            yield from self._adopt(group, written)
            return
        for chunk in batched(group.items, CHUNK):
            if not group.reclaim:
                yield from self._round(group.owner, chunk, ("", 0, 0), written)
                continue
            decisions = [part for item in chunk for part in self._writer.decision_args(item)]
            args = (group.owner, self._cap, len(chunk), *claim_args(chunk), *decisions)
            positions, evicted = yield call("reclaim", self._now(), *args)
            written.note(chunk, positions, evicted)

    def _adopt(self, group: Group, written: Written) -> Plan[None]:
        worker_id = group.owner.removeprefix(ADOPTED)
        for item in group.items:
            decision = self._writer.decision_args(item)
            done, evicted = yield call("adopt", self._now(), worker_id, self._cap, item.claim.raw, *decision)
            written.note((item,), () if done else (0,), evicted)

    def _round(
        self,
        owner: str,
        items: Sequence[Settlement],
        claim: Sequence[Part],
        written: Written,
    ) -> Plan[tuple[bytes, Sequence[Any], Sequence[bytes]]]:
        """One call of `exchange.lua`; `claim` is the nonce, then what is wanted."""
        ordered = self._writer.sort(items)
        args = (owner, claim[0], self._cap, *ordered.args(), *claim[1:])
        # Sent twice, it would claim twice, and call settlements lost that the first one wrote.
        now, positions, evicted, counts, parts = yield call("exchange", self._now(), *args, again=False)
        if positions or evicted:
            written.note(ordered.settlements(), positions, evicted)
        return now, counts, parts


def _groups(settlements: Sequence[Settlement]) -> list[Group]:
    """Runs of settlements that one call can write, in order."""
    groups: list[Group] = []
    owner, reclaim = "", False
    members: list[Settlement] = []
    for item in in_writing_order(settlements):
        if not groups or item.claim.lease.owner != owner or item.reclaim is not reclaim:
            owner, reclaim, members = item.claim.lease.owner, item.reclaim, []
            groups.append(Group(owner, reclaim=reclaim, items=members))
        members.append(item)
    return groups


def _wanted(request: ClaimRequest) -> list[Part]:
    args: list[Part] = [request.limit, len(request.wants)]
    for want in request.wants:
        args += (want.queue, want.slots)
    return args

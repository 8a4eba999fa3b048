"""Claiming where there are limited jobs: those whose limit is reached are parked, out of everybody's way.

A limited job waits in its queue's line like any other. When it gets to the front and may not start, its row is given
a `limit_group`, which takes it out of the line; the claim looks at a group only once it may go on. An ordinary claim
leaves a queue to this module when it meets a limited job there, or when parked ones of it may go on.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...jobs.errors import CodecError
from ...jobs.limits import JobLimit, admit
from ...jobs.model import Claim
from . import permits
from .claims import FIRST, IN_ORDER, LEASED, READY, new_token
from .names import JOBS, KEYS
from .rows import claims_of_round, job_of, payload_of
from .session import Session

TURNS = 4
"""Transactions that one claim takes for a queue at most, while all it finds has to be parked."""
PARKED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A row that is locked and may be claimed. `place` is its place in the order of claims."""

    row: Any
    place: tuple[int, float, str]
    limit: JobLimit | None
    group: str | None
    parked: bool


def claim_limited(session: Session, owner: str, queue: str, room: int, now: float) -> tuple[list[Claim], bool]:
    """Lease up to `room` jobs of a queue to an incarnation whose lease lives `now`; returns whether the queue must be
    asked again too. Outside a transaction."""
    line = Line(session=session, queue=queue, groups=permits.due_groups(session, queue), now=now)
    claims: list[Claim] = []
    again = False
    for turn in range(TURNS):
        left = room - len(claims)
        if left <= 0 or (turn and not line.has_any()):
            break
        with session.atomic():
            claims += line.take(owner, left, max(left, PARKED_AT_ONCE if turn else 0))
    else:
        again = True
    permits.drop_empty(session, queue, line.touched)
    return claims, again


@dataclass(slots=True, kw_only=True)
class Line:
    """What may be claimed of one queue. `groups` are those worth a look, `touched` those that may be empty now."""

    session: Session
    queue: str
    groups: list[str]
    now: float
    touched: set[str] = field(default_factory=set)
    exhausted: bool = False

    def has_any(self) -> bool:
        """Whether it is worth a transaction."""
        if self.exhausted:
            return False
        return bool(self.groups) or self.session.row(FIRST, (self.queue,)) is not None

    def take(self, owner: str, room: int, size: int) -> list[Claim]:
        """Lease up to `room` of the first `size` jobs, and park those before them that may not start."""
        ready = self._ready(size)
        self.exhausted = len(ready) < size
        parked = [candidate for group in self.groups for candidate in self._parked(group, room)]
        self.touched.update(self.groups)
        self.groups = []
        candidates = sorted((*ready, *parked), key=lambda candidate: candidate.place)
        gate = Gate(self.session, self.queue, self.now, candidates)
        taken: list[Candidate] = []
        for candidate in candidates:
            if len(taken) == room:
                break
            if gate.lets_in(candidate):
                taken.append(candidate)
        gate.write()
        return _lease(self.session, owner, taken, gate.now)

    def _ready(self, size: int) -> list[Candidate]:
        template = f"SELECT {self._columns} FROM {JOBS} {{by_line}} WHERE queue = %s AND {READY} {_LOCKED}"
        return [self._candidate(row, parked=False) for row in self.session.rows(template, (self.queue, size))]

    def _parked(self, group: str, size: int) -> list[Candidate]:
        where, params = permits.in_group(self.session, self.queue, group)
        rows = self.session.rows(f"SELECT {self._columns} FROM {JOBS} {where} {_LOCKED}", (*params, size))
        return [self._candidate(row, parked=True) for row in rows]

    @property
    def _columns(self) -> str:
        vendor = self.session.vendor
        return f"{vendor.id_column('id')}, queue, data, priority, {vendor.epoch_column('created_at')}"

    def _candidate(self, row: Any, *, parked: bool) -> Candidate:
        vendor = self.session.vendor
        job_id = vendor.id_out(row[0])
        try:
            limit = job_of(payload_of(row[2]), job_id, row[1]).limit
        except CodecError:
            limit = None
        group = permits.group_id(self.queue, limit) if limit else None
        place = -row[3], vendor.epoch_out(row[4]) or 0.0, job_id
        return Candidate(row=row, place=place, limit=limit, group=group, parked=parked)


# What others read of the start is the moment that its rate counted, not that of the statement.
_LEASED_AT = LEASED.replace("{now}", "{at}")
_LOCKED = f"{IN_ORDER} LIMIT %s {{skip_locked}}"


class Gate:
    """Decides which candidates may start, with the locks of all their keys, and writes down what it decided."""

    def __init__(self, session: Session, queue: str, now: float, candidates: Sequence[Candidate]) -> None:
        self._session = session
        self._queue = queue
        limits = [candidate.limit for candidate in candidates if candidate.limit]
        keys = {key for limit in limits if (key := permits.concurrency_id(limit))}
        self._arrivals = permits.lock_keys(
            session, keys | {key for limit in limits if (key := permits.rate_id(limit))}
        )
        # Others may have started jobs of these keys while their locks were waited for: this start comes after theirs.
        self.now = session.new_moment() if limits else now
        self._holders = permits.count_permits(session, sorted(keys))
        here = {candidate.group for candidate in candidates if candidate.parked}
        self._heads = self._first_parked({c.group for c in candidates if c.group} - here)
        self._started: dict[str, float] = {}
        self._looks: dict[str, tuple[JobLimit, float | None]] = {}
        self._parked: defaultdict[str, list[Any]] = defaultdict(list)

    def lets_in(self, candidate: Candidate) -> bool:
        """Whether a candidate may start, if all before it were asked."""
        limit, group = candidate.limit, candidate.group
        if limit is None or group is None:
            return True
        waits = group in self._looks or (group in self._heads and self._heads[group] < candidate.place)
        if not waits and self._start(group, limit):
            return True
        if not candidate.parked:
            self._parked[group].append(self._session.vendor.id_in(candidate.place[2]))
        return False

    def write(self) -> None:
        """Park, use up rates, and say when groups are worth a look."""
        for group, (limit, at) in self._looks.items():
            permits.look_later(self._session, group, self._queue, limit, at)
        for group, ids in self._parked.items():
            places = self._session.vendor.places(ids)
            self._session.run(f"UPDATE {JOBS} {{by_id}} SET limit_group = %s WHERE id IN {places}", (group, *ids))
        for key, arrival in self._started.items():
            self._session.run(f"UPDATE {KEYS} SET arrival = %s WHERE id = %s", (arrival, key))

    def _start(self, group: str, limit: JobLimit) -> bool:
        key, rate = permits.concurrency_id(limit), permits.rate_id(limit)
        holders = self._holders.get(key or "", 0)
        admission = admit(limit, holders, self._arrivals.get(rate or ""), self.now)
        if not admission.admitted:
            self._looks[group] = limit, None if admission.wait is None else self.now + admission.wait
        elif rate and admission.arrival is not None:
            self._arrivals[rate] = self._started[rate] = admission.arrival
        if admission.admitted and key:
            self._holders[key] = holders + 1
        return admission.admitted

    def _first_parked(self, groups: Iterable[str | None]) -> dict[str, tuple[int, float, str]]:
        vendor, heads = self._session.vendor, {}
        for group in permits.known_groups(self._session, filter(None, groups)):
            shown = f"priority, {vendor.epoch_column('created_at')}, {vendor.id_column('id')}"
            where, params = permits.in_group(self._session, self._queue, group)
            row = self._session.row(f"SELECT {shown} FROM {JOBS} {where} {IN_ORDER} LIMIT 1", params)
            if row is not None:
                heads[group] = -row[0], vendor.epoch_out(row[1]) or 0.0, vendor.id_out(row[2])
        return heads


def _lease(session: Session, owner: str, taken: Sequence[Candidate], now: float) -> list[Claim]:
    token = new_token()
    by_key: defaultdict[str | None, list[Any]] = defaultdict(list)
    for candidate in taken:
        by_key[permits.concurrency_id(candidate.limit) if candidate.limit else None].append(
            session.vendor.id_in(candidate.place[2])
        )
    for key, ids in by_key.items():
        session.run(
            f"UPDATE {JOBS} {{by_id}} SET {_LEASED_AT}, limit_group = NULL, limit_key = %s"
            f" WHERE id IN {session.vendor.places(ids)}",
            (owner, token, session.vendor.moment(now), key, *ids),
        )
    return claims_of_round([candidate.row for candidate in taken], session.vendor, owner, token, now)

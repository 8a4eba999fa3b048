"""A round of a worker as one statement, on PostgreSQL: ended jobs out, their results in, ready jobs leased.

One statement is one round trip and one commit. What it cannot say, a job that goes back or dies, is written by
`settle` and `claims` in a transaction of several.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import cache
from typing import Any

from ...jobs.errors import CodecError
from ...jobs.model import Claim, JobState
from ...jobs.transitions import Finish, Settlement
from ..base import ClaimRequest
from .claims import IN_ORDER, LEASED, LIMIT_MARK, READY, Taken, is_scarce, new_token, wanted_slots
from .insert import payload
from .lowwater import LowWater
from .names import ALIVE, GROUPS, JOBS, LOCKS, METADATA, PAUSED, RESULTS, lock_id, metadata_key
from .plans import Plans
from .queries.arrays import array_of, hexed, packed
from .rows import claims_of_round, ending_of, round_of
from .session import Session
from .unique import ends_with_job


class Part(Flag):
    """The parts of the statement."""

    NONE = 0
    ENDED = auto()
    RESULTS = auto()
    KEYS = auto()
    CLAIM = auto()
    #: With CLAIM: the queues must be asked in order, see `is_scarce`.
    SCARCE = auto()


WAITED = "+"
"""Marks the id of a job for whose end somebody waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of the settlements of a statement: tokens refused, and jobs for whose end somebody waits."""

    refused: frozenset[str] = frozenset()
    waited: Sequence[str] = ()


def is_one_statement(settlements: Sequence[Settlement]) -> bool:
    """Whether these settlements can be written by one: every job is over, each told once by its one incarnation, and
    none has a limit."""
    leases = [item.claim.lease for item in settlements if isinstance(item.decision, Finish) and not item.reclaim]
    if len(leases) != len(settlements):
        return False
    if any(item.claim.job is not None and item.claim.job.limit is not None for item in settlements):
        return False
    owners, tokens = {lease.owner for lease in leases}, {lease.token for lease in leases}
    return len(owners) <= 1 and len(tokens) == len(leases)


def exchange_in_one(
    session: Session,
    settlements: Sequence[Settlement],
    request: ClaimRequest | None,
    low_water: LowWater,
    plans: Plans | None = None,
) -> tuple[Taken, Written]:
    """A round of `is_one_statement` settlements and perhaps a claim: what was taken, and what was written."""
    finished = _Finished(settlements)
    wanted = wanted_slots(request) if request and request.limit > 0 else {}
    if not finished.items and not wanted:
        return Taken(), Written()
    params = finished.params() if finished.items else []
    token = new_token()
    if wanted and request:
        params += _claim_params(request, wanted, low_water, token)
    statement = _statement(finished.parts | _claiming(request if wanted else None))
    rows = plans.rows(session, statement, params) if plans else session.rows(statement, params)
    written = finished.written(rows.pop()[0]) if finished.items else Written()
    if not wanted or not request:
        return Taken(), written
    claimed = [row for row in rows if row[0] is not None]
    places = {queue: place for place, queue in enumerate(wanted)}
    claimed.sort(key=lambda row: (places[row[1]], -row[3], row[4], row[0]))
    low_water.claimed([(row[1], row[3], row[4]) for row in claimed], wanted, request.limit)
    limited = {row[1] for row in rows if row[0] is None}
    now = rows[0][5] if rows else 0.0
    claims = claims_of_round(claimed, session.vendor, request.owner, token, now)
    return Taken(claims=tuple(claims), limited=tuple(queue for queue in wanted if queue in limited), now=now), written


def _claiming(request: ClaimRequest | None) -> Part:
    if request is None:
        return Part.NONE
    return Part.CLAIM | (Part.SCARCE if is_scarce(request) else Part.NONE)


def _claim_params(request: ClaimRequest, wanted: dict[str, int], low_water: LowWater, token: str) -> list[Any]:
    floors = low_water.floors(wanted)
    return [
        metadata_key(ALIVE, request.owner),
        packed(wanted),
        packed(str(slots) for slots in wanted.values()),
        packed(metadata_key(PAUSED, queue) for queue in wanted),
        packed(str(priority) for priority, _ in floors),
        packed(repr(since) for _, since in floors),
        *(request.limit, request.owner, token),
    ]


class _Finished:
    """The settlements of one statement as arrays."""

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self.items = {item.claim.lease.token: item for item in settlements}
        self._with_results = any(_finish(item).result_ttl > 0 for item in self.items.values())
        jobs = [item.claim.job for item in self.items.values()]
        self._keys = [lock_id(job.unique.key) for job in jobs if job and job.unique and ends_with_job(job)]

    @property
    def parts(self) -> Part:
        """Which parts the statement needs."""
        if not self.items:
            return Part.NONE
        results = Part.RESULTS if self._with_results else Part.NONE
        return Part.ENDED | results | (Part.KEYS if self._keys else Part.NONE)

    def params(self) -> list[Any]:
        """The parameters of those parts."""
        leases = [item.claim.lease for item in self.items.values()]
        params: list[Any] = [
            packed(lease.job_id for lease in leases),
            packed(round_of(lease.token) for lease in leases),
        ]
        if self._with_results:
            rows = [_result(item.claim, _finish(item)) for item in self.items.values()]
            params += map(packed, zip(*rows, strict=True))
        params.append(leases[0].owner)
        if self._keys:
            params.append(packed(self._keys))
        return params

    def written(self, done: str | None) -> Written:
        """What was written and what was not, given the ids of the rows that are gone, each behind its mark."""
        waited = [job_id[1:] for job_id in done.split(",") if job_id[0] == WAITED] if done and WAITED in done else []
        if (done.count(",") + 1 if done else 0) == len(self.items):
            return Written(waited=waited)
        ids = set(done.replace(WAITED, "").split(",")) if done else set()
        refused = frozenset(token for token, item in self.items.items() if item.claim.lease.job_id not in ids)
        return Written(refused=refused, waited=waited)


def _finish(item: Settlement) -> Finish:
    if not isinstance(item.decision, Finish):
        raise TypeError(f"{item.decision!r} does not end a job")
    return item.decision


def _result(claim: Claim, decision: Finish) -> tuple[str | None, ...]:
    data, ending = stored_result(claim, decision)
    value = decision.value if decision.state is JobState.SUCCEEDED else None
    return decision.state, hexed(data), ending, hexed(value), repr(decision.finished_at), repr(decision.result_ttl)


def stored_result(claim: Claim, decision: Finish) -> tuple[bytes | None, str | None]:
    """The payload of a result, None for that which is in the table, and what its last attempt adds to it."""
    if decision.result_ttl <= 0 or claim.job is None:
        return None, None
    ending = ending_of(claim.job, decision.job)
    if ending is not None:
        return None, ending
    try:
        return payload(decision.job), None
    except CodecError:
        return None, None


@cache
def _statement(wanted: Part) -> str:
    parts, answers = [], []
    if Part.ENDED in wanted:
        parts += [_ENDED_WITH_RESULT if Part.RESULTS in wanted else _ENDED, _GONE]
    if Part.RESULTS in wanted:
        parts.append(_KEPT)
    if Part.KEYS in wanted:
        parts.append(_FREED)
    if Part.CLAIM in wanted:
        left_out = "bool_or(due) OVER (ORDER BY place)" if Part.SCARCE in wanted else "due"
        parts += [_WANTED.replace("{left_out}", left_out), _HEAD, _CLAIMED]
        answers.append("SELECT id, queue, data, priority, since, at FROM claimed")
        answers.append(_LIMITED)
    if Part.ENDED in wanted:
        nothing = ", NULL, NULL::bytea, NULL, NULL, NULL" if Part.CLAIM in wanted else ""
        answers.append(f"SELECT (SELECT string_agg({_TOLD}, ',') FROM gone){nothing}")
    return f"WITH {', '.join(parts)} {' UNION ALL '.join(answers)}"


_TOLD = f"CASE WHEN waited THEN '{WAITED}' || id::text ELSE id::text END"
_LIMITED = """
SELECT NULL, queue, NULL::bytea, NULL::int, NULL::float8, EXTRACT(EPOCH FROM {now})::float8
FROM (SELECT queue FROM wanted WHERE due UNION SELECT queue FROM head WHERE limited) AS l(queue)"""
_ENDED = f"ended AS (SELECT * FROM unnest({array_of('uuid')}, {array_of('text')}) AS e(id, token))"
_ENDED_WITH_RESULT = f"""
ended AS (
    SELECT * FROM unnest(
        {array_of("uuid")}, {array_of("text")}, {array_of("text")}, {array_of("bytea")}, {array_of("text")},
        {array_of("bytea")}, {array_of("float8")}, {array_of("float8")}
    ) WITH ORDINALITY AS e(id, token, state, data, ending, value, finished_at, ttl, place)
)"""
# Found by id alone: the index of leased rows would be read through the traces of every job that ended lately.
_GONE = f"""
gone AS (
    DELETE FROM {JOBS} j USING ended e
    WHERE j.id = e.id AND COALESCE(j.status, '') = 'PROCESSING' AND COALESCE(j.worker_id, '') = %s
        AND COALESCE(j.lease_token, '') = e.token
    RETURNING j.id, j.queue, j.data, j.progress, j.progress_at, j.waited
)"""
_KEPT = f"""
kept AS (
    INSERT INTO {RESULTS} (
        id, queue, state, data, ending, value, progress, progress_at, settled_at, finished_at, expires_at
    )
    SELECT g.id, g.queue, e.state, COALESCE(e.data, g.data), e.ending, e.value, g.progress, g.progress_at,
        {{base}} + e.place * interval '1 microsecond', to_timestamp(e.finished_at),
        {{now}} + make_interval(secs => e.ttl)
    FROM gone g JOIN ended e ON e.id = g.id WHERE e.ttl > 0
    ON CONFLICT DO NOTHING
)"""
_FREED = f"freed AS (DELETE FROM {LOCKS} l USING gone g WHERE l.job_id = g.id AND l.id = ANY({array_of('text')}))"
# A queue with parked jobs that may go on is left out, and where slots are scarce so are those asked after it.
_WANTED = f"""
asked AS (
    SELECT w.queue, w.slots, w.floor, to_timestamp(w.since) AS since, w.place,
        EXISTS (SELECT 1 FROM {GROUPS} g WHERE g.queue = w.queue AND g.look_at <= {{now}}) AS due
    FROM (SELECT 1 FROM {METADATA} WHERE {{key}} = %s AND expires_at > {{now}}) alive,
        unnest(
            {array_of("text")}, {array_of("int")}, {array_of("text")}, {array_of("int")}, {array_of("float8")}
        ) WITH ORDINALITY AS w(queue, slots, pause, floor, since, place)
    WHERE NOT EXISTS (SELECT 1 FROM {METADATA} m WHERE m.{{key}} = w.pause)
), wanted AS MATERIALIZED (
    SELECT queue, slots, floor, since, due, {{left_out}} AS left_out FROM asked ORDER BY place
)"""
_ROW = f"id, substring(data FROM 1 FOR 1) = '{{' AND position('\\x{LIMIT_MARK.hex()}'::bytea IN data) > 0 AS limited"
_HEAD = f"""
head AS MATERIALIZED (
    SELECT ready.id, w.queue, ready.limited FROM wanted w CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT {_ROW} FROM {JOBS} WHERE queue = w.queue AND {READY} AND priority > w.floor
            {IN_ORDER} LIMIT w.slots {{skip_locked}}
        ) above
        UNION ALL
        SELECT * FROM (
            SELECT {_ROW} FROM {JOBS}
            WHERE queue = w.queue AND {READY} AND priority = w.floor AND created_at >= w.since
            {IN_ORDER} LIMIT w.slots {{skip_locked}}
        ) level
        UNION ALL
        SELECT * FROM (
            SELECT {_ROW} FROM {JOBS} WHERE queue = w.queue AND {READY} AND priority < w.floor
            {IN_ORDER} LIMIT w.slots {{skip_locked}}
        ) below
        LIMIT w.slots
    ) ready WHERE NOT w.left_out LIMIT %s
)"""
_CLAIMED = f"""
claimed AS (
    UPDATE {JOBS} j SET {LEASED} WHERE j.id = ANY(ARRAY(
        SELECT id FROM head WHERE queue NOT IN (SELECT queue FROM head WHERE limited)
    ))
    RETURNING j.id::text AS id, j.queue, j.data, j.priority, EXTRACT(EPOCH FROM j.created_at)::float8 AS since,
        EXTRACT(EPOCH FROM {{now}})::float8 AS at
)"""

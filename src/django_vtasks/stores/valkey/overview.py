"""Queues, groups of dead letters and workers at a glance."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import batched
from typing import Any

import orjson

from ...jobs.codec import decode, decode_letter, unpack
from ...jobs.errors import CodecError
from ...jobs.model import DeadLetter, JobRecord
from ..base import LetterGroup, QueueCounts, Standing, WorkerInfo
from .keys import RESERVED_QUEUE, Keys, pattern
from .listing import PIECE, Ask
from .requests import Command, Part, Plan, call

ASKED_AT_ONCE = 50
"""Queues that one question is about, at most."""

FEW = 4
"""So many queues are no longer divided to learn which of them have jobs."""

_WAITING = ("q", "prio", "lim", "sched", "schedh")

SCANNED = 50_000
"""Up to so many keys in the database they are all looked at for queues that only foreign producers know."""


# --- queues ------------------------------------------------------------------------------------------------------


def queue_names(keys: Keys, *, thorough: bool) -> Plan[list[str]]:
    """Every queue that is known, by name; if `thorough`, those that only foreign producers know as well."""
    return (yield from _names_and_pauses(keys, thorough=thorough))[0]


def _names_and_pauses(keys: Keys, *, thorough: bool) -> Plan[tuple[list[str], set[str]]]:
    paused = {name.decode() for name in (yield Command(("SMEMBERS", keys.named("paused"))))}
    names = paused | {name.decode() for name in (yield Command(("SMEMBERS", keys.named("queues"))))}
    if thorough and (yield Command(("DBSIZE",))) <= SCANNED:
        for kind in _WAITING:
            start = keys.named(f"{kind}:")
            names |= {key.decode().removeprefix(start) for key in (yield from scan(start))}
    return sorted(names - {RESERVED_QUEUE}), paused - {RESERVED_QUEUE}


def scan(start: str) -> Plan[list[bytes]]:
    """Every key that begins with a text."""
    cursor, keys = b"0", []
    while True:
        cursor, found = yield Command(("SCAN", cursor, "MATCH", pattern(start), "COUNT", 1000))
        keys += found
        if cursor == b"0":
            return keys


def counts(keys: Keys, now: Part, *, thorough: bool) -> Plan[list[QueueCounts]]:
    """Every queue that has jobs or is paused, of those that `queue_names` finds."""
    known, paused = yield from _names_and_pauses(keys, thorough=thorough)
    names = yield from _with_jobs(keys, known)
    ready, oldest = yield from _ready(names, now)
    leased = {queue.decode(): count for queue, count in batched((yield call("leased", now)), 2)}
    dead = yield from _dead(keys)
    scheduled: Counter[str] = Counter()
    for queue in names:
        for kind in ("sched", "schedh"):
            scheduled[queue] += yield Command(("ZCARD", keys.named(f"{kind}:{queue}")))
    found = [
        QueueCounts(
            queue=queue,
            ready=ready[queue],
            scheduled=scheduled[queue],
            leased=leased.get(queue, 0),
            dead=dead[queue],
            oldest_ready_at=oldest.get(queue),
            paused=queue in paused,
        )
        for queue in sorted({*names, *leased, *dead, *paused})
    ]
    return [item for item in found if item.ready or item.scheduled or item.leased or item.dead or item.paused]


def _with_jobs(keys: Keys, names: Sequence[str]) -> Plan[list[str]]:
    """The queues without most of those that have no waiting job: many idle ones are passed over by one question."""
    found: list[str] = []
    for some in batched(names, ASKED_AT_ONCE):
        found += yield from _narrowed(keys, some)
    return found


def _narrowed(keys: Keys, names: Sequence[str]) -> Plan[list[str]]:
    if not (yield Command(("EXISTS", *[keys.named(f"{kind}:{name}") for name in names for kind in _WAITING]))):
        return []
    if len(names) <= FEW:
        return list(names)
    middle = len(names) // 2
    found = yield from _narrowed(keys, names[:middle])
    return found + (yield from _narrowed(keys, names[middle:]))


def _ready(names: Sequence[str], now: Part) -> Plan[tuple[Counter[str], dict[str, float]]]:
    ready: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    if not names:
        return ready, oldest
    told = yield call("lines", now, len(names), *names)
    lines = [(*line, ("LINDEX", line[1], -1)) for line in batched(told, 3)]
    parked = batched((yield call("parked", now, len(names), *names)), 3)
    lines += [(*line, ("ZRANGE", line[1], 0, 0)) for line in parked]
    for queue, _, length, look in lines:
        ready[queue.decode()] += length
        found = yield Command(look)
        first = _ready_at(found[0] if isinstance(found, list) and found else found or None)
        if first is not None:
            oldest[queue.decode()] = min(first, oldest.get(queue.decode(), first))
    return ready, oldest


def _ready_at(raw: bytes | None) -> float | None:
    try:
        job = decode(raw or b"")
    except CodecError:
        return None
    return max(job.enqueued_at, job.run_after or 0.0)


def _dead(keys: Keys) -> Plan[Counter[str]]:
    told = yield Command(("HGETALL", keys.named("letter_queues")))
    counted = Counter({queue.decode(): int(count) for queue, count in batched(told, 2)})
    if counted.total() == (yield Command(("LLEN", keys.failed()))):
        return counted
    # What 3.2 workers buried is not counted anywhere.
    counted = Counter()
    start = 0
    while found := (yield Command(("LRANGE", keys.failed(), start, start + PIECE - 1))):
        counted.update(str(letter.get("queue") or "default") for letter in map(_fields, found))
        start += PIECE
    return counted


def _fields(raw: bytes) -> dict[str, Any]:
    try:
        return unpack(raw)
    except CodecError:
        return {}


# --- groups ------------------------------------------------------------------------------------------------------


def letter_groups(letters: Iterable[bytes]) -> list[LetterGroup]:
    """Dead letters (newest first) by fingerprint, the largest group first."""
    groups: dict[str, LetterGroup] = {}
    for raw in letters:
        one = _group(raw)
        group = groups.get(one.fingerprint)
        if group is None:
            # Decoding a job takes four times as long as all else here: of each group only one is looked into.
            groups[one.fingerprint] = replace(one, job=decode_letter(raw).job)
        else:
            groups[one.fingerprint] = replace(
                group,
                count=group.count + 1,
                first_failed_at=min(group.first_failed_at, one.first_failed_at),
                last_failed_at=max(group.last_failed_at, one.last_failed_at),
            )
    return sorted(groups.values(), key=lambda group: -group.count)


def _group(raw: bytes) -> LetterGroup:
    fields = _fields(raw)
    detail = fields.get("letter")
    if not isinstance(detail, dict) or "fingerprint" not in detail:
        return _group_of(decode_letter(raw))
    failed_at = float(fields.get("failed_at") or 0.0)
    return LetterGroup(
        fingerprint=str(detail.get("fingerprint") or ""),
        func=str(fields.get("func") or ""),
        exception_class=str(detail.get("class") or ""),
        message=str(fields.get("error_msg") or ""),
        count=1,
        first_failed_at=float(detail.get("first_failed_at") or failed_at),
        last_failed_at=failed_at,
    )


def _group_of(letter: DeadLetter) -> LetterGroup:
    """The group of a letter that a 3.2 worker buried, whose bytes do not say it."""
    return LetterGroup(
        fingerprint=letter.failure.fingerprint,
        func=letter.job.func if letter.job else "",
        exception_class=letter.failure.exception_class,
        message=letter.failure.message,
        count=1,
        first_failed_at=letter.first_failed_at,
        last_failed_at=letter.failed_at,
    )


# --- one job, all workers ----------------------------------------------------------------------------------------


def standing(record: JobRecord, now: float, told: Sequence[Any]) -> Standing:
    """What the script `standing` told of a job."""
    ahead, by_priority, holder, lease_until, cancel_requested, permits, free_at = told
    return Standing(
        record=record,
        now=now,
        ahead=ahead,
        ahead_by_priority=by_priority,
        key_holder=None if holder is None else "" if holder == b"1" else holder.decode(),
        lease_until=None if lease_until is None else float(lease_until),
        cancel_requested=bool(cancel_requested),
        permit_holders=tuple(member.partition(b"\n")[0].decode() for member in permits),
        rate_free_at=None if free_at is None else float(free_at),
    )


def workers(keys: Keys, ask: Ask, now: Callable[[], Part]) -> list[WorkerInfo]:
    """Workers whose lease lives, by incarnation."""
    at = float(ask(call("clock", now())))
    live = set(ask(Command(("ZRANGEBYSCORE", keys.named("leases"), f"({at!r}", "+inf"))))
    told = ask(Command(("HGETALL", keys.named("workers"))))
    found = [_worker(text) for owner, text in batched(told, 2) if owner in live]
    return sorted(found, key=lambda info: info.incarnation)


def _worker(text: bytes) -> WorkerInfo:
    seen_at, description = text.split(b"\n", 1)
    fields = orjson.loads(description)
    return WorkerInfo(**fields | {"queues": tuple(fields["queues"]), "seen_at": float(seen_at)})

"""Queues, groups of dead letters and workers at a glance."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import batched
from typing import Any

import orjson

from ...jobs.codec import decode, unpack
from ...jobs.errors import CodecError
from ...jobs.model import JobRecord
from ..base import LetterGroup, QueueCounts, Standing, WorkerInfo
from .keys import RESERVED_QUEUE, Keys, pattern
from .listing import PIECE, Ask
from .requests import Command, Part, call

SCANNED = 50_000
"""Up to so many keys in the database they are all looked at for queues that only foreign producers know."""


# --- queues ------------------------------------------------------------------------------------------------------


def queue_names(keys: Keys, ask: Ask) -> list[str]:
    """Every queue that is known, by name."""
    names = {name.decode() for name in ask(Command(("SMEMBERS", keys.named("queues"))))}
    names |= {name.decode() for name in ask(Command(("SMEMBERS", keys.named("paused"))))}
    if ask(Command(("DBSIZE",))) <= SCANNED:
        for kind in ("q", "sched", "schedh", "prio", "lim"):
            start = keys.named(f"{kind}:")
            names |= {key.decode().removeprefix(start) for key in scan(ask, start)}
    return sorted(names - {RESERVED_QUEUE})


def scan(ask: Ask, start: str) -> Iterator[bytes]:
    """Every key that begins with a text."""
    cursor = b"0"
    while True:
        cursor, found = ask(Command(("SCAN", cursor, "MATCH", pattern(start), "COUNT", 1000)))
        yield from found
        if cursor == b"0":
            return


def counts(keys: Keys, ask: Ask, now: Callable[[], Part]) -> list[QueueCounts]:
    """Every queue that has jobs or is paused."""
    names = queue_names(keys, ask)
    paused = {name.decode() for name in ask(Command(("SMEMBERS", keys.named("paused"))))}
    ready, oldest = _ready(names, ask, now)
    leased = {queue.decode(): count for queue, count in batched(ask(call("leased", now())), 2)}
    dead = _dead(keys, ask)
    scheduled = {
        queue: sum(ask(Command(("ZCARD", keys.named(f"{kind}:{queue}")))) for kind in ("sched", "schedh"))
        for queue in names
    }
    found = [
        QueueCounts(
            queue=queue,
            ready=ready[queue],
            scheduled=scheduled.get(queue, 0),
            leased=leased.get(queue, 0),
            dead=dead[queue],
            oldest_ready_at=oldest.get(queue),
            paused=queue in paused,
        )
        for queue in sorted({*names, *leased, *dead})
    ]
    return [item for item in found if item.ready or item.scheduled or item.leased or item.dead or item.paused]


def _ready(names: Sequence[str], ask: Ask, now: Callable[[], Part]) -> tuple[Counter[str], dict[str, float]]:
    ready: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    lines = [(*line, ("LINDEX", line[1], -1)) for line in batched(ask(call("lines", now(), len(names), *names)), 3)]
    parked = batched(ask(call("parked", now(), len(names), *names)), 3)
    lines += [(*line, ("ZRANGE", line[1], 0, 0)) for line in parked]
    for queue, _, length, look in lines:
        ready[queue.decode()] += length
        found = ask(Command(look))
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


def _dead(keys: Keys, ask: Ask) -> Counter[str]:
    told = ask(Command(("HGETALL", keys.named("letter_queues"))))
    counted = Counter({queue.decode(): int(count) for queue, count in batched(told, 2)})
    if counted.total() == ask(Command(("LLEN", keys.failed()))):
        return counted
    # What 3.2 workers buried is not counted anywhere.
    return Counter(str(letter.get("queue") or "default") for letter in _letters(keys, ask))


def _letters(keys: Keys, ask: Ask) -> Iterator[dict[str, Any]]:
    start = 0
    while found := ask(Command(("LRANGE", keys.failed(), start, start + PIECE - 1))):
        yield from map(_fields, found)
        start += PIECE


def _fields(raw: bytes) -> dict[str, Any]:
    try:
        return unpack(raw)
    except CodecError:
        return {}


# --- groups ------------------------------------------------------------------------------------------------------


def letter_groups(letters: Iterable[bytes]) -> list[LetterGroup]:
    """Dead letters (newest first) by fingerprint, the largest group first."""
    groups: dict[str, LetterGroup] = {}
    for fields in map(_fields, letters):
        one = _group(fields)
        group = groups.get(one.fingerprint)
        if group is not None:
            one = replace(
                group,
                count=group.count + 1,
                first_failed_at=min(group.first_failed_at, one.first_failed_at),
                last_failed_at=max(group.last_failed_at, one.last_failed_at),
            )
        groups[one.fingerprint] = one
    return sorted(groups.values(), key=lambda group: -group.count)


def _group(fields: dict[str, Any]) -> LetterGroup:
    detail = fields.get("letter") or {}
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

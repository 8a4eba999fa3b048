"""Cleaning and the schedule, as plans."""

import math
from collections.abc import Mapping, Sequence

from ...jobs.codec import decode_letter
from ..base import Added, AddStatus, Firing, Purged, Retention
from .admission import Entry, Gate
from .keys import Keys
from .letting_in import let_in
from .records import is_over
from .requests import Command, Part, Plan, call

CHUNK = 100
"""Entries looked at in one call."""


# --- cleaning ----------------------------------------------------------------------------------------------------


def purge(keys: Keys, now: Part, retention: Retention, limit: int) -> Plan[Purged]:
    """Remove what is kept no longer, at most `limit` of each kind."""
    at = float((yield call("clock", now)))
    letters = yield call("evict", now, retention.dead_letter_cap, limit)
    if retention.dead_letter_age is not None:
        letters += yield from _purge_letters(keys, now, at - retention.dead_letter_age, limit - letters)
    results = yield from _purge_results(keys, now, at, limit)
    workers = yield call("purge_workers", now, limit)
    return Purged(results=results, dead_letters=letters, workers=workers)


def _purge_letters(keys: Keys, now: Part, horizon: float, limit: int) -> Plan[int]:
    dropped = 0
    while dropped < limit:
        size = min(CHUNK, limit - dropped)
        oldest = (yield Command(("LRANGE", keys.failed(), -size, -1)))[::-1]
        old = _first(oldest, [_failed_at(letter) < horizon for letter in oldest])
        count = (yield call("drop_letters", now, len(old), *old)) if old else 0
        dropped += count
        if count < size:
            break
    return dropped


def _failed_at(raw: bytes) -> float:
    # What a 3.2 rescuer buried says no time of its own.
    letter = decode_letter(raw)
    return letter.failed_at or (letter.job.enqueued_at if letter.job else 0.0)


def _purge_results(keys: Keys, now: Part, at: float, limit: int) -> Plan[int]:
    dropped = 0
    while dropped < limit:
        size = min(CHUNK, limit - dropped)
        ids = (yield Command(("LRANGE", keys.named("finished"), -size, -1)))[::-1]
        if not ids:
            break
        records = yield Command(("MGET", *[keys.job(job_id.decode()) for job_id in ids]))
        over = _first(ids, [record is None or is_over(record, at) for record in records])
        count = (yield call("drop_results", now, len(over), *over)) if over else 0
        dropped += count
        if count < size:
            break
    return dropped


def _first[T](items: Sequence[T], wanted: Sequence[bool]) -> Sequence[T]:
    return items[: wanted.index(False)] if False in wanted else items


# --- the schedule ------------------------------------------------------------------------------------------------


def last_slots(keys: Keys, entries: Sequence[str]) -> Plan[Mapping[str, float]]:
    """The last slot of each entry that has a readable one."""
    if not entries:
        return {}
    texts = yield Command(("MGET", *map(keys.last_slot, entries)))
    slots = {name: _slot(text) for name, text in zip(entries, texts, strict=True)}
    return {name: slot for name, slot in slots.items() if slot is not None}


def _slot(text: bytes | None) -> float | None:
    try:
        slot = float(text) if text else None
    except ValueError:
        return None
    return slot if slot is not None and math.isfinite(slot) else None


def fire(now: Part, firing: Firing, gate: Gate) -> Plan[Added | None]:
    """Record a slot and add its job, if the last slot is the expected one."""
    expected: Part = "" if firing.expected is None else repr(firing.expected)
    slot = (firing.entry, expected, repr(firing.slot))
    if firing.job is None:
        text = yield call("fire", now, *slot, 0)
        return None if text is None else Added(status=AddStatus.ADDED, job_id=None)

    def attempt(entry: Entry) -> Plan[bytes | None]:
        text: bytes | None = yield call("fire", now, *slot, *gate.args([entry]))
        return text

    return (yield from let_in(gate.entry(firing.job), attempt, now, conditions=(b"", *slot)))

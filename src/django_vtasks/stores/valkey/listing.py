"""Jobs of one state in their natural order, read piece by piece."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any

import orjson

from ...jobs.codec import decode, decode_letter, unpack
from ...jobs.errors import CodecError, InvalidCursor
from ...jobs.model import Job, JobRecord, JobState, evolve_job
from ..base import FARTHEST, JobFilter, position
from .keys import Keys
from .records import FINISHED, ended_record, leased_record, letter_record
from .requests import Command, Part, Request, call

PIECE = 200
"""Entries read in one call."""

type Ask = Callable[[Request], Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """One job of a listing, and the bytes by which it is found again where it is."""

    record: JobRecord
    raw: bytes


class Listing:
    """Reads the jobs of an alias. `ask` sends one request, `now` gives the first argument of every script."""

    def __init__(self, keys: Keys, ask: Ask, now: Callable[[], Part]) -> None:
        self._keys = keys
        self._ask = ask
        self._now = now

    def jobs(
        self, state: JobState, queues: Sequence[str], after: str | None = None
    ) -> Iterator[tuple[str, Listed | None]]:
        """Everything in a state from a place on, each with its place; None for one whose job has vanished.

        Places are positions; those of scheduled jobs are the due time, and how many with the same come before in each
        set, so that a page far into jobs which are due together reads none of those before it.
        """
        if state is JobState.SCHEDULED:
            return self._scheduled(queues, after)
        start = position(after)
        return ((str(place), listed) for place, listed in enumerate(self._from(state, queues, start), start))

    def _from(self, state: JobState, queues: Sequence[str], start: int) -> Iterator[Listed | None]:
        match state:
            case JobState.READY:
                return self._ready(queues, start)
            case JobState.LEASED:
                return itertools.islice(self._leased(), start, None)
            case JobState.DEAD:
                return self._dead(start)
            case _:
                return self._finished(state, start)

    def _ready(self, queues: Sequence[str], start: int) -> Iterator[Listed]:
        lines = self._ask(call("lines", self._now(), len(queues), *queues))
        for queue, key, length in batched(lines, 3):
            for offset in range(start, length, PIECE):
                for raw in self._ask(Command(("LRANGE", key, -offset - PIECE, -offset - 1)))[::-1]:
                    yield Listed(JobRecord(job=_job(raw, queue.decode()), state=JobState.READY), raw)
            start = max(0, start - length)
        yield from self._parked(queues, start)

    def _parked(self, queues: Sequence[str], start: int) -> Iterator[Listed]:
        groups = self._ask(call("parked", self._now(), len(queues), *queues))
        for queue, key, length in batched(groups, 3):
            for offset in range(start, length, PIECE):
                for raw in self._ask(Command(("ZRANGE", key, offset, offset + PIECE - 1))):
                    yield Listed(JobRecord(job=_job(raw, queue.decode()), state=JobState.READY), raw)
            start = max(0, start - length)

    def _scheduled(self, queues: Sequence[str], after: str | None) -> Iterator[tuple[str, Listed]]:
        moment, passed = _due_place(after)
        sources = [
            self._due(queue, source, moment, passed.get(source, 0))
            for queue in queues
            for source in (f"sched:{queue}", f"schedh:{queue}")
        ]
        for due, raw, queue, source in heapq.merge(*sources):
            if due != moment:
                moment, passed = due, {}
            job = evolve_job(_job(raw, queue), run_after=due)
            yield f"{due!r} {orjson.dumps(passed).decode()}", Listed(JobRecord(job=job, state=JobState.SCHEDULED), raw)
            passed[source] = passed.get(source, 0) + 1

    def _due(self, queue: str, source: str, since: float, start: int) -> Iterator[tuple[float, bytes, str, str]]:
        key, least = self._keys.named(source), repr(since)
        while found := self._ask(Command(("ZRANGEBYSCORE", key, least, "+inf", "WITHSCORES", "LIMIT", start, PIECE))):
            yield from ((float(due), raw, queue, source) for raw, due in batched(found, 2))
            start += PIECE

    def _leased(self) -> list[Listed]:
        found: list[Listed] = []
        for owner in self._ask(Command(("ZRANGE", self._keys.named("leases"), 0, -1))):
            values = self._ask(Command(("HVALS", self._keys.inflight(owner.decode()))))
            found.extend(Listed(leased_record(owner, value, {}), value) for value in values)
        return sorted(found, key=_start)

    def _dead(self, start: int) -> Iterator[Listed]:
        for raw in self.letters(start):
            yield Listed(letter_record(decode_letter(raw)), raw)

    def letters(self, start: int = 0) -> Iterator[bytes]:
        """The payloads of dead letters, newest first."""
        while found := self._ask(Command(("LRANGE", self._keys.failed(), start, start + PIECE - 1))):
            yield from found
            start += PIECE

    def _finished(self, state: JobState, start: int) -> Iterator[Listed | None]:
        now = float(self._ask(call("clock", self._now())))
        while ids := self._ask(Command(("LRANGE", self._keys.named("finished"), start, start + PIECE - 1))):
            for record in self._ask(Command(("MGET", *[self._keys.job(job_id.decode()) for job_id in ids]))):
                found = ended_record(record, None, now) if record and record[:1] == FINISHED else None
                yield Listed(found, record) if found and found.state is state else None
            start += PIECE


def _due_place(after: str | None) -> tuple[float, dict[str, int]]:
    if not after:
        return -math.inf, {}
    text, _, passed = after.partition(" ")
    try:
        moment, known = float(text), orjson.loads(passed)
    except ValueError:
        raise InvalidCursor(after) from None
    counts = known.values() if isinstance(known, dict) else [None]
    if not math.isfinite(moment) or not all(type(count) is int and 0 <= count < FARTHEST for count in counts):
        raise InvalidCursor(after)
    return moment, known


def _start(listed: Listed) -> float:
    return listed.record.running.started_at if listed.record.running else 0.0


def _job(raw: bytes, queue: str) -> Job:
    try:
        return decode(raw, fallback_queue=queue)
    except CodecError:
        return Job(id="", func="", queue=queue)


def letter_id_in(raw: bytes) -> str:
    """The id that a letter's payload tells, empty when it tells none."""
    try:
        found = unpack(raw).get("id")
    except CodecError:
        return ""
    return found if isinstance(found, str) else ""


# --- which jobs are meant ----------------------------------------------------------------------------------------


def matches(record: JobRecord, which: JobFilter) -> bool:
    """Whether a job is among those meant."""
    job, letter = record.job, record.letter
    return (
        (not which.ids or job.id in which.ids)
        and which.queue in (None, job.queue)
        and which.func in (None, job.func)
        and which.fingerprint in (None, letter.failure.fingerprint if letter else "")
        and which.reason in (None, letter.reason.value if letter else None)
        and (which.text is None or which.text in which.searchable(job))
    )

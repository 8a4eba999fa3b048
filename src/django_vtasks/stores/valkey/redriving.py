"""Dead letters enqueued again, as a plan."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched

from ...jobs.codec import decode, decode_letter
from ...jobs.errors import CodecError
from ...jobs.model import DeadLetter, Job
from ..base import Added, AddStatus, Redrive
from .admission import HELD, Entry, Gate, added, read_answers
from .letting_in import let_in
from .requests import Call, Part, Plan, call

CHUNK = 100
"""Letters per script call."""

NOBODY = Added(status=AddStatus.DUPLICATE, job_id=None)


@dataclass(frozen=True, slots=True)
class Renewal:
    """A letter and the new job that takes its place."""

    letter: bytes
    entry: Entry


def redrive(gate: Gate, now: Part, letters: Sequence[bytes | None], changes: Redrive) -> Plan[list[Added]]:
    """What became of each letter; None stands for one that is not there."""
    at = float((yield call("clock", now)))
    results = [NOBODY] * len(letters)
    renewals = [
        (position, Renewal(letter, gate.entry(new)))
        for position, letter in enumerate(letters)
        if letter is not None and (new := _new_job(letter, changes, at, position)) is not None
    ]
    for chunk in batched(renewals, CHUNK):
        answers = yield _call(gate, now, [renewal for _, renewal in chunk])
        for (position, renewal), answer in zip(chunk, answers, strict=True):
            if answer == b"gone":
                continue
            told = read_answers(answer).get(0)
            if told and told[0] == HELD:
                results[position] = yield from _debounce(gate, now, renewal)
            else:
                results[position] = added(renewal.entry.job, told)
    return results


def _new_job(raw: bytes, changes: Redrive, at: float, position: int) -> Job | None:
    job = _job_of(decode_letter(raw))
    return job and changes.applied(job, new_id=os.urandom(16).hex(), at=at, position=position)


def _job_of(letter: DeadLetter) -> Job | None:
    try:
        return letter.job or decode(letter.raw, fallback_id=letter.id, fallback_queue=letter.queue)
    except CodecError:
        return None


def _call(gate: Gate, now: Part, renewals: Sequence[Renewal]) -> Call:
    args: list[Part] = [len(renewals)]
    for renewal in renewals:
        jobs = gate.args([renewal.entry])
        args += (renewal.letter, len(jobs), *jobs)
    # Sent twice, it would call the letters gone that the first one enqueued.
    return call("redrive", now, *args, again=False)


def _debounce(gate: Gate, now: Part, renewal: Renewal) -> Plan[Added]:
    def attempt(entry: Entry) -> Plan[bytes | None]:
        [answer] = yield _call(gate, now, [Renewal(renewal.letter, entry)])
        return None if answer == b"gone" else answer

    result = yield from let_in(renewal.entry, attempt, now, conditions=(renewal.letter, "", "", ""))
    return result or NOBODY

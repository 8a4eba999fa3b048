"""One operation on many jobs: on ids, or on everything that a filter matches, in chunks and at a rate.

What is meant is settled first, as ids, so that jobs that arrive meanwhile are left alone and every job is met once.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..jobs.model import JobState
from ..stores.base import AddStatus, AdminStore, CancelStatus, ClientStore, JobFilter, Redrive

CHUNK = 500
"""How many jobs one call to a store lists."""

STEP = 500
"""How many jobs one call to a store changes."""

NAMED = 100
"""How many new jobs are named."""

AT_MOST = 50_000
"""How many jobs one operation is about at most; repeat it for the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The ids of the jobs an operation is about, and whether there were more than `AT_MOST`."""

    ids: tuple[str, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an operation did: how many jobs it changed, how many it left alone, the ids of the first new jobs, and how
    many jobs it did not get to in its time."""

    changed: int = 0
    left_alone: int = 0
    new_ids: tuple[str, ...] = ()
    not_reached: int = 0

    def __add__(self, other: "Done") -> "Done":
        return Done(
            changed=self.changed + other.changed,
            left_alone=self.left_alone + other.left_alone,
            new_ids=(self.new_ids + other.new_ids)[:NAMED],
            not_reached=self.not_reached + other.not_reached,
        )


class Budget:
    """How much time an operation may take, in seconds (None = any); a web request must end at some time."""

    def __init__(self, seconds: float | None = None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds

    def is_spent(self) -> bool:
        """Whether it is time to stop."""
        return self._until is not None and time.monotonic() >= self._until


NO_LIMIT = Budget()


def meant_by(store: AdminStore, which: JobFilter, at_most: int = AT_MOST) -> Meant:
    """The ids of the jobs a filter matches now."""
    ids: list[str] = []
    cursor = None
    while True:
        page = store.page(which, after=cursor, limit=min(CHUNK, at_most + 1 - len(ids)))
        ids += (record.job.id for record in page.records)
        cursor = page.next_cursor
        if cursor is None or len(ids) > at_most:
            return Meant(ids=tuple(ids[:at_most]), more=len(ids) > at_most)


def redrive(
    store: AdminStore,
    ids: Sequence[str],
    changes: Redrive | None = None,
    *,
    rate: float | None = None,
    budget: Budget = NO_LIMIT,
) -> Done:
    """Enqueue dead letters again; with a rate (jobs a second) they become due one after the other."""
    changes = changes or Redrive()

    def redriven(start: int, chunk: list[str]) -> Done:
        delays = tuple(position / rate for position in range(start, start + len(chunk))) if rate else ()
        added = store.redrive(chunk, replace(changes, delays=delays))
        new = tuple(one.job_id for one in added if one.status is not AddStatus.DUPLICATE and one.job_id)
        return Done(changed=len(new), left_alone=len(chunk) - len(new), new_ids=new)

    return _step_by_step(ids, redriven, budget)


def discard(store: AdminStore, state: JobState, ids: Sequence[str], *, budget: Budget = NO_LIMIT) -> Done:
    """Remove waiting, dead or finished jobs with all that is known of them."""

    def discarded(_start: int, chunk: list[str]) -> Done:
        removed = store.delete(JobFilter(state=state, ids=tuple(chunk)), limit=len(chunk))
        return Done(changed=removed, left_alone=len(chunk) - removed)

    return _step_by_step(ids, discarded, budget)


def hasten(store: AdminStore, ids: Sequence[str], *, budget: Budget = NO_LIMIT) -> Done:
    """Make scheduled jobs ready now."""

    def hastened(_start: int, chunk: list[str]) -> Done:
        moved = store.hasten(chunk)
        return Done(changed=moved, left_alone=len(chunk) - moved)

    return _step_by_step(ids, hastened, budget)


def cancel(client: ClientStore, ids: Sequence[str], *, budget: Budget = NO_LIMIT) -> Counter[CancelStatus]:
    """Cancel jobs one by one; how often each answer was given. There are fewer answers than ids if time ran out."""
    answers: Counter[CancelStatus] = Counter()
    for job_id in ids:
        if budget.is_spent():
            break
        answers[client.cancel(job_id)] += 1
    return answers


def delete_all(store: AdminStore, which: JobFilter, at_most: int) -> int:
    """Remove what a filter matches, chunk by chunk, without naming the ids first; returns how many."""
    total = 0
    while total < at_most:
        removed = store.delete(which, limit=min(1000, at_most - total))
        total += removed
        if not removed:
            break
    return total


def _step_by_step(ids: Sequence[str], change: Callable[[int, list[str]], Done], budget: Budget) -> Done:
    done = Done()
    for start in range(0, len(ids), STEP):
        if budget.is_spent():
            return done + Done(not_reached=len(ids) - start)
        done += change(start, list(ids[start : start + STEP]))
    return done

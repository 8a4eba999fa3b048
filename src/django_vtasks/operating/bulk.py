"""One operation on many jobs: on ids, or on everything that a filter matches, in chunks and at a rate.

What is meant is settled first, as ids, so that jobs that arrive meanwhile are left alone and every job is met once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import batched

from ..jobs.model import JobState
from ..stores.base import AddStatus, AdminStore, CancelStatus, ClientStore, JobFilter, Redrive

CHUNK = 500
"""How many jobs one call to a store is about."""

AT_MOST = 50_000
"""How many jobs one operation is about at most; repeat it for the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The ids of the jobs an operation is about, and whether there were more than `AT_MOST`."""

    ids: tuple[str, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an operation did: how many jobs it changed, how many it left alone, and the ids of new jobs."""

    changed: int = 0
    left_alone: int = 0
    new_ids: tuple[str, ...] = ()

    def __add__(self, other: "Done") -> "Done":
        return Done(
            changed=self.changed + other.changed,
            left_alone=self.left_alone + other.left_alone,
            new_ids=(self.new_ids + other.new_ids)[:CHUNK],
        )


type Progress = Callable[[Done], None]


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
    tell: Progress | None = None,
) -> Done:
    """Enqueue dead letters again; with a rate (jobs a second) they become due one after the other."""
    changes, done = changes or Redrive(), Done()
    for start, chunk in _chunks(ids):
        delays = tuple(position / rate for position in range(start, start + len(chunk))) if rate else ()
        added = store.redrive(chunk, replace(changes, delays=delays))
        new = tuple(one.job_id for one in added if one.status is not AddStatus.DUPLICATE and one.job_id)
        done += Done(changed=len(new), left_alone=len(chunk) - len(new), new_ids=new)
        _tell(tell, done)
    return done


def discard(store: AdminStore, state: JobState, ids: Sequence[str], *, tell: Progress | None = None) -> Done:
    """Remove waiting, dead or finished jobs with all that is known of them."""
    done = Done()
    for _, chunk in _chunks(ids):
        removed = store.delete(JobFilter(state=state, ids=tuple(chunk)), limit=len(chunk))
        done += Done(changed=removed, left_alone=len(chunk) - removed)
        _tell(tell, done)
    return done


def hasten(store: AdminStore, ids: Sequence[str], *, tell: Progress | None = None) -> Done:
    """Make scheduled jobs ready now."""
    done = Done()
    for _, chunk in _chunks(ids):
        moved = store.hasten(chunk)
        done += Done(changed=moved, left_alone=len(chunk) - moved)
        _tell(tell, done)
    return done


def cancel(client: ClientStore, ids: Sequence[str], *, tell: Progress | None = None) -> Counter[CancelStatus]:
    """Cancel jobs one by one; how often each answer was given."""
    answers: Counter[CancelStatus] = Counter()
    for job_id in ids:
        answers[client.cancel(job_id)] += 1
        if answers.total() % CHUNK == 0:
            _tell(tell, Done(changed=answers.total()))
    return answers


def delete_all(store: AdminStore, which: JobFilter, at_most: int, *, tell: Progress | None = None) -> int:
    """Remove what a filter matches, chunk by chunk, without naming the ids first; returns how many."""
    total = 0
    while total < at_most:
        removed = store.delete(which, limit=min(1000, at_most - total))
        total += removed
        _tell(tell, Done(changed=total))
        if not removed:
            break
    return total


def _chunks(ids: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    for number, chunk in enumerate(batched(ids, CHUNK)):
        yield number * CHUNK, list(chunk)


def _tell(tell: Progress | None, done: Done) -> None:
    if tell:
        tell(done)

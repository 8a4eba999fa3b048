"""Jobs of one state in order, page by page and without holding more than a page, and their removal.

What a filter asks of a payload is decided here, row by row, so one call looks at no more than `SCAN` rows: its page
may then be short although there is a next one.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from ...jobs.errors import InvalidCursor
from ...jobs.model import Job, JobRecord, JobState
from ..base import JobFilter, Page
from .ids import canonical
from .letters import adopt
from .names import JOBS, RESULTS, ascii_text, column_text
from .queries.vendor import Vendor
from .rows import JOB_COLUMNS, RESULT_COLUMNS, columns, record_of, result_of
from .session import Session
from .unique import release

CHUNK = 500
SCAN = 2_500


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Where the jobs of a state are and in which order they are told: columns, `-` for the greatest first."""

    table: str
    condition: str
    order: tuple[str, ...]
    selected: tuple[str, ...] = JOB_COLUMNS
    record: Callable[[Any, Vendor], JobRecord] = record_of


_FINISHED = {"table": RESULTS, "order": ("-settled_at", "-id"), "selected": RESULT_COLUMNS, "record": result_of}
# So written SQLite does not take the index of expiries, by which it would sort every result for each page.
_KEPT = "NOT expires_at <= {now}"
LISTINGS = {
    JobState.SCHEDULED: Listing(
        table=JOBS, condition="status = 'QUEUED' AND run_after IS NOT NULL", order=("run_after", "id")
    ),
    JobState.READY: Listing(
        table=JOBS,
        condition="status = 'QUEUED' AND run_after IS NULL",
        order=("queue", "-priority", "created_at", "id"),
    ),
    JobState.LEASED: Listing(
        table=JOBS, condition="status = 'PROCESSING'", order=("COALESCE(claimed_at, created_at)", "id")
    ),
    JobState.DEAD: Listing(
        table=JOBS, condition="status = 'FAILED' AND buried_at IS NOT NULL", order=("-buried_at", "-id")
    ),
    JobState.SUCCEEDED: Listing(condition=f"state = 'succeeded' AND {_KEPT}", **_FINISHED),  # type: ignore[arg-type]
    JobState.DISCARDED: Listing(condition=f"state = 'discarded' AND {_KEPT}", **_FINISHED),  # type: ignore[arg-type]
}

type Place = tuple[Any, ...]
"""The values of the ordering columns of one row: moments in epoch seconds, ids as text."""


def page(session: Session, which: JobFilter, after: str | None, limit: int) -> Page:
    """Some of the jobs meant, after the place that the cursor names."""
    if which.state is JobState.DEAD:
        adopt(session, SCAN)
    found: list[tuple[JobRecord, Place]] = []
    rows = _scan(session, which, _place(session.vendor, which, after), min(CHUNK, limit + 1))
    for scanned, (record, place) in enumerate(rows, 1):
        if _meant(record, which):
            if len(found) == limit:
                return _page(found, found[-1][1])
            found.append((record, place))
        if scanned >= SCAN:
            return _page(found, place)
    return _page(found, None)


def delete(session: Session, which: JobFilter, limit: int) -> int:
    """Remove some of the jobs meant and give their keys back; returns how many. Inside a transaction."""
    if which.state is JobState.LEASED or limit <= 0:
        return 0
    jobs = [record.job for record in page(session, which, None, limit).records]
    if not jobs:
        return 0
    if which.state in {JobState.SCHEDULED, JobState.READY}:
        return _delete_waiting(session, jobs)
    ids = [session.vendor.id_in(job.id) for job in jobs]
    places = session.vendor.places(ids)
    results = session.run(f"DELETE FROM {RESULTS} WHERE id IN {places}", ids)
    if which.state is JobState.DEAD:
        return session.run(f"{{delete_jobs}} WHERE id IN {places} AND status = 'FAILED'", ids)
    return results


def _delete_waiting(session: Session, jobs: Sequence[Job]) -> int:
    ids = [session.vendor.id_in(job.id) for job in jobs]
    rows = session.rows(
        f"SELECT {session.vendor.id_column('id')} FROM {JOBS} {{by_id}}"
        f" WHERE id IN {session.vendor.places(ids)} AND status = 'QUEUED' {{wait_for_lock}}",
        ids,
    )
    waiting = {session.vendor.id_out(row[0]) for row in rows}
    gone = [job for job in jobs if job.id in waiting]
    if gone:
        ids = [session.vendor.id_in(job.id) for job in gone]
        session.run(f"{{delete_jobs}} WHERE id IN {session.vendor.places(ids)}", ids)
        release(session, gone)
    return len(gone)


# --- rows in order ---------------------------------------------------------------------------------------------------


def _scan(session: Session, which: JobFilter, after: Place | None, first: int) -> Iterator[tuple[JobRecord, Place]]:
    if which.state is not JobState.READY or which.queue is not None:
        yield from _scan_range(session, which, after, first)
        return
    # One queue after the other: in an order that begins with a range of queues no vendor finds the first rows at once.
    queue = after[0] if after else ""
    while (queue := _next_queue(session, queue, inclusive=after is not None)) is not None:
        yield from _scan_range(session, replace(which, queue=queue), after, first)
        after = None


def _next_queue(session: Session, queue: str, *, inclusive: bool) -> str | None:
    sign = ">=" if inclusive else ">"
    row = session.row(
        f"SELECT queue FROM {JOBS} WHERE status = 'QUEUED' AND queue {sign} %s ORDER BY queue LIMIT 1", (queue,)
    )
    return None if row is None else row[0]


def _scan_range(
    session: Session, which: JobFilter, after: Place | None, first: int
) -> Iterator[tuple[JobRecord, Place]]:
    vendor, listing = session.vendor, LISTINGS[which.state]
    conditions, params = _conditions(vendor, which)
    shown = columns(vendor, listing.selected)
    fixed = 1 if which.state is JobState.READY else 0
    order = ", ".join(f"{name.lstrip('-')} DESC" if name.startswith("-") else name for name in listing.order[fixed:])
    places = ", ".join(_shown(vendor, name.lstrip("-")) for name in listing.order)
    size = first
    if fixed and after is not None and after[0] != column_text(which.queue or ""):
        after = None
    while True:
        read = 0
        for beyond, values in _segments(vendor, listing.order[fixed:], after and after[fixed:]):
            rows = session.rows(
                f"SELECT {shown}, {places} FROM {listing.table} WHERE {' AND '.join((*conditions, *beyond))}"
                f" ORDER BY {order} LIMIT {size - read}",
                (*params, *values),
            )
            for row in rows:
                after = _read(vendor, listing.order, row[len(listing.selected) :])
                yield listing.record(row[: len(listing.selected)], vendor), after
            read += len(rows)
            if read == size:
                break
        if read < size:
            return
        size = CHUNK


def _conditions(vendor: Vendor, which: JobFilter) -> tuple[list[str], list[Any]]:
    conditions, params = [LISTINGS[which.state].condition], []
    exact = {"queue": which.queue}
    if which.state is JobState.DEAD:
        exact |= {"func": which.func, "fingerprint": which.fingerprint, "reason": which.reason}
    for column, value in exact.items():
        if value is not None:
            conditions.append(f"{column} = %s")
            params.append(column_text(value) if column == "queue" else ascii_text(value))
    if which.ids:
        ids = [vendor.id_in(found) for found in map(canonical, which.ids) if found]
        conditions.append(f"id IN {vendor.places(ids)}" if ids else "1 = 0")
        params.extend(ids)
    return conditions, params


def _segments(vendor: Vendor, order: tuple[str, ...], after: Place | None) -> list[tuple[list[str], list[Any]]]:
    """Conditions that tell, one after the other, every row after a place: those that differ from it in the last column
    of the order only, then those that differ in the last but one, and so on. Each is one range of an index, whereas
    all of them in one condition would be a walk from the start of the first column's value."""
    if after is None:
        return [([], [])]
    names = [name.lstrip("-") for name in order]
    signs = ["<" if name.startswith("-") else ">" for name in order]
    values = [_written(vendor, name, value) for name, value in zip(names, after, strict=True)]
    compared = [f"{name} {sign} {_mark(name)}" for name, sign in zip(names, signs, strict=True)]
    equal = [f"{name} = {_mark(name)}" for name in names]
    return [([*equal[:depth], compared[depth]], values[: depth + 1]) for depth in reversed(range(len(names)))]


def _is_moment(name: str) -> bool:
    return name.endswith(("_at", "_after", ")"))


def _mark(name: str) -> str:
    return "{at}" if _is_moment(name) else "%s"


def _shown(vendor: Vendor, name: str) -> str:
    if name == "id":
        return vendor.id_column(name)
    return vendor.epoch_column(name) if _is_moment(name) else name


def _read(vendor: Vendor, order: tuple[str, ...], values: Sequence[Any]) -> Place:
    return tuple(_value(vendor, name.lstrip("-"), value) for name, value in zip(order, values, strict=True))


def _value(vendor: Vendor, name: str, value: Any) -> Any:
    if name == "id":
        return vendor.id_out(value)
    return vendor.epoch_out(value) if _is_moment(name) else value


def _written(vendor: Vendor, name: str, value: Any) -> Any:
    if name == "id":
        return vendor.id_in(value)
    return vendor.moment(value) if _is_moment(name) else value


# --- cursors and filters ---------------------------------------------------------------------------------------------


def _page(found: Sequence[tuple[JobRecord, Place]], last: Place | None) -> Page:
    cursor = None if last is None else base64.urlsafe_b64encode(orjson.dumps(last)).decode()
    return Page(records=tuple(record for record, _ in found), next_cursor=cursor)


def _place(vendor: Vendor, which: JobFilter, cursor: str | None) -> Place | None:
    """The place that a cursor names. Raises InvalidCursor for what no page of this list told."""
    if not cursor:
        return None
    names = [name.lstrip("-") for name in LISTINGS[which.state].order]
    try:
        values = orjson.loads(base64.urlsafe_b64decode(cursor))
        if not isinstance(values, list):
            raise InvalidCursor(cursor)
        for name, value in zip(names, values, strict=True):
            if not _fits(name, value):
                raise InvalidCursor(cursor)
            _written(vendor, name, value)
    except (ValueError, TypeError, OverflowError):
        raise InvalidCursor(cursor) from None
    if names[0] == "queue" and which.queue is not None and values[0] != column_text(which.queue):
        raise InvalidCursor(cursor)
    return tuple(values)


def _fits(name: str, value: Any) -> bool:
    if _is_moment(name):
        return type(value) in {int, float}
    if name == "priority":
        return type(value) is int and abs(value) < 1 << 15
    return isinstance(value, str) and value == column_text(value)


def _meant(record: JobRecord, which: JobFilter) -> bool:
    return which.func in {None, record.job.func} and (which.text is None or which.text in which.searchable(record.job))

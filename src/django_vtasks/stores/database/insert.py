"""Inserting jobs, many in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...jobs.assembling import assembler
from ...jobs.codec import encode_if_possible
from ...jobs.errors import StoreRefused
from ...jobs.model import Job, UniqueMode
from .ids import UnusedIds, canonical
from .names import JOBS, RESULTS, column_text
from .queries.arrays import array_of, hexed, packed
from .session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job on its way into the table; `position` is its place among those of the same call. `is_new`: no store can
    know its id."""

    job: Job
    data: bytes
    position: int
    is_new: bool

    @property
    def is_plain(self) -> bool:
        """Whether nothing can be in its way: it is ready, and no other has its id or its key."""
        return self.is_new and self.job.run_after is None and self.job.unique is None


assemble_row = assembler(Row)


def payload(job: Job) -> bytes:
    """The bytes of a job; the database needs no compression, so it is used where there is some. Raises CodecError."""
    return encode_if_possible(job)


def rows_of(jobs: Sequence[Job], unused: UnusedIds | None = None) -> list[Row]:
    """The rows of jobs; `unused` are ids that no store knows, of which these are taken. Raises CodecError or
    StoreRefused for a job that cannot be stored."""
    rows = []
    for position, job in enumerate(jobs):
        is_new = unused is not None and unused.take(job.id)
        if not is_new and canonical(job.id) != job.id:
            raise StoreRefused(f"{job.id!r} cannot be a job's id in a database: use `new_id()` of the store")
        rows.append(assemble_row(job, payload(job), position, is_new))
    return rows


def insert_rows(session: Session, rows: Sequence[Row]) -> int:
    """Insert rows whose id the store does not know; returns how many those are."""
    if not rows:
        return 0
    if len(rows) == 1 and (rows[0].is_new or session.vendor.selects_without_table):
        return _insert_one(session, rows[0])
    if session.vendor.has_unnest:
        template = _INSERT_NEW_ARRAYS if all(row.is_new for row in rows) else _INSERT_ARRAYS
        return session.run(template, _arrays(session, rows))
    known = known_of(session, rows)
    fresh = [row for row in rows if row.job.id not in known]
    if not fresh:
        return 0
    values = ", ".join([_VALUES.replace("{id}", session.vendor.id_place)] * len(fresh))
    return session.run(f"{_INSERT} VALUES {values} {{ignore}}", [p for row in fresh for p in _values(session, row)])


def _insert_one(session: Session, row: Row) -> int:
    if row.is_plain:
        return _insert_plain(session, row)
    # Each condition that is left out is one less to plan, which is most of what the server does for one row.
    params, is_ready = _values(session, row), row.job.run_after is None
    if is_ready:
        params = params[:-2]
    if not row.is_new:
        params = (*params, params[0])
    template = _INSERT_ONE[row.is_new, is_ready]
    return session.run(template.replace("{id}", session.vendor.id_place), params)


def _insert_plain(session: Session, row: Row) -> int:
    # Nothing can be in its way: to be ready for a conflict costs the server a tenth of the statement.
    vendor, job = session.vendor, row.job
    place = session.moment.order(row.position)
    params = (vendor.id_in(job.id), column_text(job.queue), row.data, place, job.priority)
    return session.run(_PLAIN.replace("{id}", vendor.id_place), params)


def known_of(session: Session, rows: Sequence[Row]) -> set[str]:
    """The ids of those rows whose job is here already; no store can know the new ones."""
    return known_ids(session, [row.job.id for row in rows if not row.is_new])


def known_ids(session: Session, ids: Sequence[str]) -> set[str]:
    """Those of the ids that are jobs here, waiting, running or over."""
    if not ids:
        return set()
    vendor = session.vendor
    params = [vendor.id_in(job_id) for job_id in ids]
    places = vendor.places(params)
    column = vendor.id_column("id")
    found = session.rows(
        f"SELECT {column} FROM {JOBS} WHERE id IN {places}"
        f" UNION ALL SELECT {column} FROM {RESULTS} WHERE id IN {places} AND expires_at > {{now}}",
        (*params, *params),
    )
    return {vendor.id_out(row[0]) for row in found}


_INSERT = f"INSERT INTO {JOBS} (id, queue, unique_key, data, status, created_at, priority, run_after)"
# A time that has passed is no time to wait for: such a row is ready.
_DUE = "CASE WHEN {at} > {now} THEN {at} END"
_VALUES = f"({{id}}, %s, %s, %s, 'QUEUED', {{order}}, %s, {_DUE})"
_NEW = f"{_INSERT} VALUES {_VALUES} {{ignore}}"
_ANY = f"""
{_INSERT} SELECT {_VALUES[1:-1]}
WHERE NOT EXISTS (SELECT 1 FROM {RESULTS} WHERE id = {{id}} AND expires_at > {{now}}) ON CONFLICT DO NOTHING
"""
_PLAIN = f"""
INSERT INTO {JOBS} (id, queue, data, status, created_at, priority) VALUES ({{id}}, %s, %s, 'QUEUED', {{order}}, %s)
"""
#: By whether the row's id is new, and whether its job is ready.
_INSERT_ONE = {
    (True, False): _NEW,
    (True, True): _NEW.replace(_DUE, "NULL"),
    (False, False): _ANY,
    (False, True): _ANY.replace(_DUE, "NULL"),
}
_INSERT_NEW_ARRAYS = f"""
{_INSERT}
SELECT v.id, v.queue, v.unique_key, v.data, 'QUEUED', {{base}} + v.place * interval '1 microsecond', v.priority,
    CASE WHEN to_timestamp(v.due) > {{now}} THEN to_timestamp(v.due) END
FROM unnest(
    {array_of("uuid")}, {array_of("text")}, {array_of("text")}, {array_of("bytea")}, {array_of("int")},
    {array_of("int")}, {array_of("float8")}
) AS v(id, queue, unique_key, data, place, priority, due)
ON CONFLICT DO NOTHING
"""
_UNKNOWN = f"WHERE NOT EXISTS (SELECT 1 FROM {RESULTS} r WHERE r.id = v.id AND r.expires_at > {{now}})"
_INSERT_ARRAYS = _INSERT_NEW_ARRAYS.replace("ON CONFLICT", f"{_UNKNOWN} ON CONFLICT")


def _values(session: Session, row: Row) -> tuple[Any, ...]:
    vendor, job = session.vendor, row.job
    due = vendor.moment(job.run_after)
    place = session.moment.order(row.position)
    key = _key_column(session, job)
    return (vendor.id_in(job.id), column_text(job.queue), key, row.data, place, job.priority, due, due)


def _arrays(session: Session, rows: Sequence[Row]) -> tuple[Any, ...]:
    jobs = [row.job for row in rows]
    return (
        packed(job.id for job in jobs),
        packed(column_text(job.queue) for job in jobs),
        packed(_key_column(session, job) for job in jobs),
        packed(hexed(row.data) for row in rows),
        packed(str(row.position) for row in rows),
        packed(str(job.priority) for job in jobs),
        packed(None if job.run_after is None else repr(job.run_after) for job in jobs),
    )


def _key_column(session: Session, job: Job) -> str | None:
    # The column is the 3.2 line's lock, which knows one mode and needs an index that MySQL does not have.
    if job.unique is None or job.unique.mode is not UniqueMode.UNTIL_DONE or not session.vendor.has_partial_unique:
        return None
    return column_text(job.unique.key)

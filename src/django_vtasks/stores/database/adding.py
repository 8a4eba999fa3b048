"""Adding jobs: every way into the tables ends here."""

from collections.abc import Sequence

from ..base import Added, AddStatus
from ..base.values import assemble_added
from .insert import Row, insert_rows
from .session import Session
from .unique import add_unique


def add_rows(session: Session, rows: Sequence[Row]) -> list[Added]:
    """Add jobs, at most `vendor.max_rows` of them, and take their unique keys; one answer for each."""
    if any(row.job.unique for row in rows):
        with session.atomic():
            return add_unique(session, rows)
    insert_rows(session, rows)
    return all_added(rows)


def all_added(rows: Sequence[Row]) -> list[Added]:
    """The answers for jobs in whose way nothing was."""
    return [assemble_added(AddStatus.ADDED, row.job.id) for row in rows]

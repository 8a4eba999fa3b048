"""The last slot of each schedule entry: a metadata row of numeric text, as the 3.2 line keeps it."""

import math
from collections.abc import Mapping, Sequence

from ..base import Added, AddStatus, Firing
from .adding import add_rows
from .insert import rows_of
from .names import LAST_RUN, METADATA, metadata_key
from .session import Session


def last_slots(session: Session, entries: Sequence[str]) -> Mapping[str, float]:
    """The recorded slot of each entry that has a readable one."""
    keys = {metadata_key(LAST_RUN, entry): entry for entry in entries}
    if not keys:
        return {}
    query = f"SELECT {{key}}, value FROM {METADATA} WHERE {{key}} IN {session.vendor.places(keys)}"
    slots = {keys[key]: _number(value) for key, value in session.rows(query, list(keys))}
    return {entry: slot for entry, slot in slots.items() if slot is not None}


def fire(session: Session, firing: Firing) -> Added | None:
    """Record a slot and enqueue its job, if the last slot is the expected one. Inside a transaction."""
    key = metadata_key(LAST_RUN, firing.entry)
    insert = f"INSERT INTO {METADATA} ({{key}}, value) VALUES (%s, '') {{ignore_key}}"
    if firing.expected is None:
        session.run(insert, (key,))
    row = session.row(f"SELECT value FROM {METADATA} WHERE {{key}} = %s {{wait_for_lock}}", (key,))
    if row is None or _number(row[0]) != firing.expected:
        return None
    session.run(f"UPDATE {METADATA} SET value = %s WHERE {{key}} = %s", (repr(firing.slot), key))
    if firing.job is None:
        return Added(status=AddStatus.ADDED, job_id=None)
    return add_rows(session, rows_of([firing.job]))[0]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

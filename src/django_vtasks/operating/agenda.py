"""The schedule of an alias as its store knows it, and running one of its entries now."""

import time
from dataclasses import replace

from ..scheduling.firing import JobMaker
from ..scheduling.overview import EntryView, overview
from ..scheduling.sources import all_entries, lost_tasks
from ..stores.base import Added
from .aliases import Alias


def agenda_of(alias: Alias, *, now: float | None = None) -> list[EntryView]:
    """Every entry, by name, with its last and next slots. Imports the tasks of the entries."""
    entries = all_entries()
    recorded = alias.admin.recorded_slots([entry.name for entry in entries.usable])
    return overview(entries, lost_tasks(entries.usable), recorded, time.time() if now is None else now)


def run_now(alias: Alias, entry_name: str) -> Added | None:
    """Enqueue the job of an entry once more, now; its slots stay as they are. None for an unknown entry.

    Raises TaskNotFound, InvalidTask, TypeError or ValueError when the entry's task cannot be enqueued.
    """
    entry = next((entry for entry in all_entries().usable if entry.name == entry_name), None)
    if entry is None:
        return None
    make = JobMaker(alias=alias.name, sample_id=alias.client.new_id())
    now = time.time()
    # An id of its own, as the maker's is that of a slot.
    job = replace(make(replace(entry, jitter=0.0), now, now), id=alias.client.new_id())
    return alias.client.add([job])[0]

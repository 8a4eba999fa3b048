"""The scheduler on real stores: what operators and workers of the 3.2 line read and write beside it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import valkey
from django.db import connections

from django_vtasks.events import Emitter, SlotFired
from django_vtasks.jobs.model import Job
from django_vtasks.scheduling.entries import Entries, ScheduleEntry
from django_vtasks.scheduling.firing import job_id
from django_vtasks.scheduling.schedules import Every
from django_vtasks.scheduling.service import SchedulerService
from django_vtasks.stores.base import Firing
from django_vtasks.stores.database.store import DatabaseClientStore, DatabaseOptions, DatabaseWorkerStore
from django_vtasks.stores.valkey.store import ValkeyClientStore, ValkeyOptions, ValkeyWorkerStore
from django_vtasks.worker.service import Pace
from tests.conftest import VENDORS
from tests.support import databases
from tests.support.waiting import aeventually

LAST_RUN = "vtasks_last_run:entry"
LOCK = "vtasks_scheduler_lock"


@dataclass
class Place:
    """One store, and its side door."""

    new_worker: Any
    client: Any
    get: Any
    read: Any
    write: Any
    drop: Any


@contextmanager
def on_a_database(database_alias):
    options = DatabaseOptions(using=database_alias)

    thread = ThreadPoolExecutor(1)  # a test's event loop may not use Django's connections

    def executed(statement, values):
        with connections[database_alias].cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchone() if cursor.description else None

    def execute(statement, *values):
        return thread.submit(executed, statement, values).result()

    key = connections[database_alias].ops.quote_name("key")

    def write(name, value, seconds=None):
        drop(name)
        expiry = "NULL" if seconds is None else EXPIRY[connections[database_alias].vendor].format(seconds)
        execute(f"INSERT INTO db_vtaskmetadata ({key}, value, expires_at) VALUES (%s, %s, {expiry})", name, value)

    def read(name):
        row = execute(f"SELECT value FROM db_vtaskmetadata WHERE {key} = %s", name)
        return row and row[0]

    def drop(name):
        execute(f"DELETE FROM db_vtaskmetadata WHERE {key} = %s", name)

    client = DatabaseClientStore(options)

    def get(job_id):
        return thread.submit(client.get, job_id).result()

    yield Place(lambda: DatabaseWorkerStore(options), client, get, read, write, drop)
    thread.submit(connections.close_all).result()
    thread.shutdown()


EXPIRY = {
    "sqlite": "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '+{} seconds')",
    "postgresql": "now() + interval '{} seconds'",
    "mysql": "utc_timestamp(6) + interval {} second",
}


@contextmanager
def on_valkey(clean_valkey):
    options = ValkeyOptions(urls=(clean_valkey.url,))
    client = ValkeyClientStore(options)
    with closing(valkey.Valkey.from_url(clean_valkey.url, decode_responses=True)) as raw:
        yield Place(
            lambda: ValkeyWorkerStore(options),
            client,
            client.get,
            lambda name: raw.get(f"{{vt}}:scheduler:{name}"),
            lambda name, value, seconds=None: raw.set(f"{{vt}}:scheduler:{name}", value, ex=seconds),
            lambda name: raw.delete(f"{{vt}}:scheduler:{name}"),
        )
    client.close()


@pytest.fixture(params=[*VENDORS, pytest.param("valkey", marks=pytest.mark.valkey)])
def place(request, django_db_blocker):
    """Each store in turn, empty."""
    if request.param == "valkey":
        with on_valkey(request.getfixturevalue("clean_valkey")) as found:
            yield found
        return
    alias = request.getfixturevalue(f"{request.param}_alias")
    with django_db_blocker.unblock(), on_a_database(alias) as found:
        yield found
        databases.empty(alias)


@pytest.fixture
async def stores(place):
    """Worker stores of several hosts."""
    opened = []

    async def another():
        store = place.new_worker()
        await store.open()
        opened.append(store)
        return store

    yield another
    for store in opened:
        await store.close()


class Entered:
    """One entry that is due ten times a second."""

    async def entries(self):
        return Entries(usable=(ScheduleEntry(name="entry", task="t.t", schedule=Every(0.1)),))

    def close(self):
        """Nothing to release."""


def service(place, store, fired):
    emitter = Emitter()
    emitter.subscribe(SlotFired, fired.append)
    like = place.client.new_id()

    def make(entry, slot, now):
        return Job(id=job_id(entry.name, slot, like=like), func=entry.task, enqueued_at=now)

    return SchedulerService(store, Entered(), make, emitter, Pace("scheduler", emitter))


@pytest.mark.parametrize("record", ["", "never", "nan", "inf", "-inf"])
async def test_a_record_that_is_no_number_counts_as_none(place, stores, record):
    store = await stores()
    place.write(LAST_RUN, record)
    assert await store.last_slots(["entry"]) == {}
    assert await store.fire(Firing(entry="entry", slot=12.5, expected=None, job=None))
    assert await store.last_slots(["entry"]) == {"entry": 12.5}


async def test_slots_are_recorded_as_numeric_text_under_the_name_that_watchdogs_read(place, stores):
    store, fired = await stores(), []
    await service(place, store, fired).tick()
    assert float(place.read(LAST_RUN)) == fired[0].slot
    assert await store.now() - fired[0].slot < 60


async def test_a_record_of_the_old_line_is_carried_on(place, stores):
    store, fired = await stores(), []
    last = await store.now() - 0.55
    place.write(LAST_RUN, str(last))
    await service(place, store, fired).tick()
    assert len(fired) >= 5  # more when the test is slow
    assert [round(event.slot - last, 3) for event in fired] == [round(n / 10, 3) for n in range(1, len(fired) + 1)]


async def test_schedulers_side_by_side_fire_each_slot_once(place, stores):
    fired, stop = [], asyncio.Event()
    services = [service(place, await stores(), fired) for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        for one in services:
            group.create_task(one.run(stop))
        await aeventually(lambda: len(fired) >= 15)
        stop.set()
    slots = sorted(event.slot for event in fired)
    assert len(slots) == len(set(slots))
    assert [round(later - slots[0], 3) for later in slots] == [round(number / 10, 3) for number in range(len(slots))]
    like = place.client.new_id()
    assert all(place.get(job_id("entry", slot, like=like)) for slot in slots)


async def test_a_leading_scheduler_of_the_old_line_is_left_alone(place, stores):
    place.write(LOCK, "host-123", seconds=3600)
    fired = []
    await service(place, await stores(), fired).tick()
    assert fired == []
    assert place.read(LOCK) == "host-123"
    place.drop(LOCK)
    await service(place, await stores(), fired).tick()
    assert len(fired) == 1
    assert place.read(LOCK) not in {None, "host-123"}


async def test_a_lock_that_ran_out_is_taken_over(place, stores):
    place.write(LOCK, "host-123", seconds=1)
    fired, stop = [], asyncio.Event()

    async def takes_over():
        await service(place, await stores(), fired).tick()
        return fired

    await aeventually(takes_over)
    stop.set()

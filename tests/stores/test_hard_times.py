"""Servers in a bad state: the caller is told what is wrong, and what was stored before is there afterwards."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from django.db import connections

from django_vtasks.jobs.errors import QueueError, StoreRefused, StoreUnavailable
from django_vtasks.jobs.model import Claim, UniqueMode
from django_vtasks.stores.base import ClaimRequest, Redrive, Want
from django_vtasks.stores.database.ids import new_id
from django_vtasks.stores.database.store import DatabaseClientStore, DatabaseOptions, DatabaseWorkerStore
from django_vtasks.stores.valkey.store import ValkeyAdminStore, ValkeyClientStore, ValkeyWorkerStore
from tests.stores.benches import close_database, database_bench
from tests.stores.valkey_help import PREFIX, claim, options, raw_client
from tests.support.builders import a_job, a_key, a_letter

# -- something else under the names of the queue ----------------------------------------------------------------------

STRANGERS = {
    "text": lambda raw, key: raw.set(key, "x"),
    "hash": lambda raw, key: raw.hset(key, "field", "x"),
}


@pytest.fixture
def raw(keyvalue_server):
    client = raw_client(keyvalue_server)
    yield client
    client.close()


@pytest.fixture
def store(keyvalue_server):
    client = ValkeyClientStore(options(keyvalue_server))
    yield client
    client.close()


JOBS = {
    "plain": {"result_ttl": 0.0},
    "with a result": {},
    "urgent": {"priority": 5},
    "unique": {"unique": a_key("k")},
    "once a window": {"unique": a_key("k", UniqueMode.WINDOW, 60)},
    "delayed": {"run_after": 4e9},
}


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("stranger", ["text", "hash"])
def test_a_job_that_meets_a_stranger_in_its_queues_place_is_refused_and_leaves_nothing(store, raw, kind, stranger):
    place = {"urgent": "p:default:5", "delayed": "sched:default"}.get(kind, "q:default")
    STRANGERS[stranger](raw, PREFIX + place)
    job = a_job(id=new_id(), **JOBS[kind])
    with pytest.raises(StoreRefused, match="holds something else"):
        store.add([job])
    assert store.get(job.id) is None
    raw.delete(PREFIX + place)
    again = a_job(id=new_id(), **JOBS[kind])
    assert [answer.status for answer in store.add([again, a_job(id=new_id())])] == ["added", "added"]


async def test_a_worker_says_what_is_wrong_and_goes_on_when_it_is_gone(store, raw, keyvalue_server):
    store.add([a_job(id=new_id(), queue="other")])
    worker = ValkeyWorkerStore(options(keyvalue_server))
    try:
        raw.set(PREFIX + "q:default", "x")
        with pytest.raises(QueueError, match="holds something else"):
            await claim(worker, "default", "other")
        raw.delete(PREFIX + "q:default")
        assert len((await claim(worker, "default", "other")).claims) + len(await worker.held("alpha")) >= 1
    finally:
        await worker.close()


def test_letters_stay_where_they_are_while_their_queue_cannot_take_them(raw, keyvalue_server):
    admin = ValkeyAdminStore(options(keyvalue_server))
    letter = a_letter(job=a_job(id=new_id()))
    admin.restore([letter])
    raw.set(PREFIX + "q:default", "x")
    with pytest.raises(StoreRefused, match="holds something else"):
        admin.redrive([letter.id], Redrive())
    raw.delete(PREFIX + "q:default")
    assert [answer.status for answer in admin.redrive([letter.id], Redrive())] == ["added"]
    admin.close()


# -- a full disk, and tables that somebody else keeps locked ----------------------------------------------------------

only = lambda vendor: pytest.mark.parametrize("database_alias", [vendor], indirect=True)  # noqa: E731
LARGE = os.urandom(100_000).hex()


def statement(alias: str, sql: str) -> Any:
    with connections[alias].cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def fill(alias: str) -> None:
    """Let a connection to SQLite have no page more, and no free one."""
    statement(alias, "VACUUM")
    [(pages,)] = statement(alias, "PRAGMA page_count")
    statement(alias, f"PRAGMA max_page_count = {pages}")


@only("sqlite")
def test_a_full_disk_is_told_and_enqueuing_goes_on_once_there_is_room(database_alias):
    client = DatabaseClientStore(DatabaseOptions(using=database_alias))
    before = a_job(id=client.new_id())
    client.add([before])
    fill(database_alias)
    job = a_job(id=client.new_id(), args=[LARGE], unique=a_key())
    with pytest.raises(StoreUnavailable, match="full"):
        client.add([job])
    assert (client.get(job.id), client.get(before.id).state) == (None, "ready")
    statement(database_alias, "PRAGMA max_page_count = 1000000")
    assert [answer.status for answer in client.add([job])] == ["added"]


@only("sqlite")
async def test_an_outcome_that_found_the_disk_full_is_stored_later(database_alias):
    bench = await database_bench(database_alias)
    try:
        job = await bench.add()
        done = await bench.claim_one()
        await bench.worker._run(lambda session: fill(session.connection.alias))
        with pytest.raises(StoreUnavailable, match="full"):
            await bench.succeed(done, b'"%s"' % LARGE.encode())
        assert await bench.state(job) == "leased"
        await bench.worker._run(lambda session: session.rows("PRAGMA max_page_count = 1000000"))
        await bench.succeed(done, b'"%s"' % LARGE.encode())
        assert await bench.state(job) == "succeeded"
    finally:
        await bench.close()
        await close_database(database_alias)


@pytest.mark.parametrize(
    "database_alias", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
async def test_a_long_lock_elsewhere_costs_a_round_and_nothing_else(database_alias):
    bench = await database_bench(database_alias)
    worker = DatabaseWorkerStore(DatabaseOptions(using=database_alias, reply_timeout=0.3, clock=bench.clock))
    lock = {"sqlite": "BEGIN IMMEDIATE", "postgres": "BEGIN; LOCK TABLE db_queuedtask IN ACCESS EXCLUSIVE MODE"}
    request = ClaimRequest(owner="alpha", wants=(Want(queue="default", slots=5),), limit=5)
    try:
        job = await bench.add()
        await bench.live()
        await worker.exchange([], None)
        raw = await asyncio.to_thread(other_session, database_alias)
        raw.execute(lock[database_alias])
        with pytest.raises(StoreUnavailable):
            await worker.exchange([], request)
        raw.rollback()
        raw.close()
        found: list[Claim] = []
        # What the call that was given up claims in the end, its incarnation finds when it looks what it holds.
        async with asyncio.timeout(60):
            while not found:
                found = [*(await worker.exchange([], request)).claims, *await worker.held("alpha")]
                await asyncio.sleep(0)
        assert {claim.lease.job_id for claim in found} == {job.id}
    finally:
        await worker.close()
        await bench.close()
        await close_database(database_alias)


def other_session(alias: str) -> Any:
    """A connection of somebody else, who leaves Django's alone."""
    connection = connections[alias].copy()
    connection.connect()
    if connection.vendor == "sqlite":
        connection.connection.isolation_level = None
    return connection.connection

"""The application's side of the database store: transactions, input that no column holds, calls put together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, router, transaction
from django.test.utils import CaptureQueriesContext, override_settings

from django_vtasks.db.models import JobResult, QueuedTask, UniqueLock
from django_vtasks.jobs.errors import CodecError, StoreRefused, StoreUnavailable
from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import JobState, UniqueMode
from django_vtasks.stores.base import AddStatus, CancelStatus, ClaimRequest, JobFilter, Want
from django_vtasks.stores.database.ids import MOST_UNUSED, UnusedIds, new_id
from django_vtasks.stores.database.store import (
    DatabaseAdminStore,
    DatabaseClientStore,
    DatabaseOptions,
    DatabaseWorkerStore,
)
from tests.stores.benches import close_database
from tests.support.builders import a_job, a_key


@pytest.fixture
def options(database_alias: str) -> DatabaseOptions:
    return DatabaseOptions(using=database_alias)


@pytest.fixture
def client(options: DatabaseOptions) -> DatabaseClientStore:
    return DatabaseClientStore(options)


@pytest.fixture
async def closed(database_alias: str) -> AsyncIterator[None]:
    """No connection of another thread outlives a test."""
    yield
    await close_database(database_alias)


def statuses(answers) -> list[str]:
    return [answer.status.value for answer in answers]


def rows(alias: str):
    return QueuedTask.objects.using(alias)


# -- transactions -----------------------------------------------------------------------------------------------------


class Undo(Exception):
    pass


def test_a_rollback_leaves_nothing_behind(client, database_alias):
    """Invariant 10."""
    with contextlib.suppress(Undo), transaction.atomic(using=database_alias):
        client.add([a_job(id=client.new_id()), a_job(id=client.new_id(), unique=a_key())])
        assert rows(database_alias).count() == 2
        raise Undo
    assert rows(database_alias).count() == 0
    assert UniqueLock.objects.using(database_alias).count() == 0
    assert statuses(client.add([a_job(id=client.new_id(), unique=a_key())])) == ["added"]


def test_a_job_is_seen_by_others_with_the_commit_and_not_before(client, options, database_alias):
    """Invariant 10."""

    def claimable() -> int:
        worker = DatabaseWorkerStore(options)
        worker.extend("alpha", 60)
        request = ClaimRequest(owner="alpha", wants=(Want(queue="default", slots=1),), limit=1)

        async def claim() -> int:
            try:
                return len((await worker.exchange([], request)).claims)
            finally:
                await worker.close()

        return asyncio.run(claim())

    if connections[database_alias].vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    with transaction.atomic(using=database_alias):
        client.add([a_job(id=client.new_id())])
        assert claimable() == 0
    assert claimable() == 1


@pytest.mark.parametrize("mode", list(UniqueMode))
def test_a_duplicate_does_not_poison_the_callers_transaction(client, database_alias, mode):
    unique = a_key(mode=mode, window=60.0 if mode is UniqueMode.WINDOW else None)
    [first] = client.add([a_job(id=client.new_id(), unique=unique)])
    with transaction.atomic(using=database_alias):
        [answer] = client.add([a_job(id=client.new_id(), unique=unique)])
        assert answer.status is not AddStatus.ADDED
        assert answer.job_id == first.job_id
        assert rows(database_alias).count() == 1, "the transaction goes on"
        client.add([a_job(id=client.new_id())])
    assert rows(database_alias).count() == 2


def test_duplicates_inside_one_call_and_against_the_table_are_each_told(client):
    [waiting] = client.add([a_job(id=client.new_id(), unique=a_key("a"))])
    jobs = [
        a_job(id=client.new_id(), unique=a_key("a")),
        a_job(id=client.new_id(), unique=a_key("b")),
        a_job(id=client.new_id()),
        a_job(id=client.new_id(), unique=a_key("b")),
        a_job(id=client.new_id(), unique=a_key("c")),
    ]
    answers = client.add(jobs)
    assert statuses(answers) == ["duplicate", "added", "added", "duplicate", "added"]
    assert [answer.job_id for answer in answers] == [
        waiting.job_id,
        jobs[1].id,
        jobs[2].id,
        jobs[1].id,
        jobs[4].id,
    ]


def test_a_large_number_of_jobs_is_added_in_order(client, options, database_alias):
    jobs = [a_job(id=client.new_id(), args=[number]) for number in range(2500)]
    assert statuses(client.add(jobs)) == ["added"] * 2500
    assert rows(database_alias).count() == 2500
    first = DatabaseAdminStore(options).page(JobFilter(state=JobState.READY), limit=1200).records
    assert [record.job.args for record in first] == [[number] for number in range(1200)]


def test_a_job_that_is_no_json_leaves_its_chunk_out(client, database_alias):
    with pytest.raises(CodecError):
        client.add([a_job(id=client.new_id()), a_job(id=client.new_id(), args=[object()])])
    assert rows(database_alias).count() == 0


def test_an_id_of_another_store_is_refused_with_a_reason(client):
    with pytest.raises(StoreRefused, match="new_id"):
        client.add([a_job(id="Kx3vYw7rTq1zLb5nPc9mHd2sFg4jVa6k")])


@pytest.mark.parametrize("job_id", ["", "123", "x" * 5000, "Kx3vYw7rTq1zLb5nPc9mHd2sFg4jVa6k", "\0", None, 7])
def test_what_is_no_id_is_not_known(client, options, job_id):
    assert client.get(job_id) is None
    assert client.cancel(job_id) is CancelStatus.UNKNOWN
    assert DatabaseAdminStore(options).standing(job_id) is None


# -- ids --------------------------------------------------------------------------------------------------------------


def test_an_id_made_just_now_is_not_looked_for_and_one_added_before_is(client, database_alias):
    jobs = [a_job(id=client.new_id()), a_job(id=client.new_id(), unique=a_key())]
    with CaptureQueriesContext(connections[database_alias]) as first:
        for job in jobs:
            client.add([job])
    with CaptureQueriesContext(connections[database_alias]) as second:
        for job in jobs:
            client.add([job])
    looked = [sum(JobResult._meta.db_table in query["sql"] for query in queries) for queries in (first, second)]
    assert looked == [0, 2]
    assert rows(database_alias).count() == 2


def test_a_job_that_nothing_can_be_in_the_way_of_is_inserted_by_the_shortest_statement(client, database_alias):
    with CaptureQueriesContext(connections[database_alias]) as queries:
        plain = client.add([a_job(id=client.new_id(), priority=7)])
        client.add([a_job(id=client.new_id(), unique=a_key())])
        client.add([a_job(id=client.new_id(), run_after=4e9)])
    inserts = [query["sql"] for query in queries if f"INTO {QueuedTask._meta.db_table}" in query["sql"]]
    assert ["run_after)" in sql for sql in inserts] == [False, True, True]
    row = rows(database_alias).get(id=plain[0].job_id)
    assert (row.status, row.priority, row.unique_key, row.run_after, row.worker_id) == ("QUEUED", 7, None, None, None)


def test_an_id_that_was_made_twice_is_refused_and_the_first_job_kept(client, database_alias, monkeypatch):
    twice = new_id()
    monkeypatch.setattr("django_vtasks.stores.database.ids.new_id", lambda: twice)
    client.add([a_job(id=client.new_id(), args=[1])])
    with pytest.raises(StoreRefused):
        client.add([a_job(id=client.new_id(), args=[2])])
    assert client.get(twice).job.args == [1]


def test_ids_that_no_job_is_added_with_are_forgotten():
    unused = UnusedIds()
    kept, *_, last = [unused.new() for _ in range(MOST_UNUSED + 1)]
    assert [unused.take(job_id) for job_id in (kept, last, last)] == [False, True, False]


def test_ids_grow_and_are_canonical_uuids():
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(set(ids))
    assert all(len(job_id) == 36 and job_id[14] == "7" for job_id in ids)


@pytest.mark.parametrize(("limit", "mark"), [(None, b"zstd:"), (JobLimit(concurrency_key="k", count=1), b"{")])
def test_a_large_job_is_compressed_unless_it_has_a_limit(client, database_alias, limit, mark):
    """What limits there are is looked for in the bytes."""
    [added] = client.add([a_job(id=client.new_id(), args=["x" * 5000], limit=limit)])
    stored = QueuedTask.objects.using(database_alias).get(id=added.job_id)
    assert bytes(stored.data).startswith(mark)


# -- what no column holds ---------------------------------------------------------------------------------------------

STRANGE = [
    "nul \0 inside",
    "lone surrogate \ud800",
    "x" * 3000,
    "separators \x1e\x1f",
    "ünïcödé 🎉",
    "quote ' % %s {now}",
]


@pytest.mark.parametrize("key", STRANGE)
@pytest.mark.parametrize("mode", [UniqueMode.UNTIL_DONE, UniqueMode.UNTIL_STARTED])
def test_any_text_is_a_unique_key(client, key, mode):
    if key == "lone surrogate \ud800":
        with pytest.raises(CodecError):
            client.add([a_job(id=client.new_id(), unique=a_key(key, mode))])
        return
    jobs = [a_job(id=client.new_id(), unique=a_key(key, mode)) for _ in range(2)]
    assert statuses(client.add(jobs)) == ["added", "duplicate"]
    other = a_job(id=client.new_id(), unique=a_key(key + "!", mode))
    assert statuses(client.add([other])) == ["added"]
    assert client.get(jobs[0].id).job.unique.key == key


@pytest.mark.parametrize("queue", [text for text in STRANGE if "surrogate" not in text and "ü" not in text])
def test_any_text_is_a_queues_name(client, options, queue):
    admin = DatabaseAdminStore(options)
    [added] = client.add([a_job(id=client.new_id(), queue=queue)])

    async def claims(*queues: str):
        worker = DatabaseWorkerStore(options)
        try:
            worker.extend("alpha", 60)
            wants = tuple(Want(queue=name, slots=5) for name in queues)
            return (await worker.exchange([], ClaimRequest(owner="alpha", wants=wants, limit=9))).claims
        finally:
            await worker.close()

    admin.pause(queue)
    assert asyncio.run(claims("default", queue)) == ()
    admin.resume(queue)
    [claim] = asyncio.run(claims("default", queue))
    assert (claim.lease.job_id, claim.queue, claim.job.queue) == (added.job_id, queue, queue)


# -- time -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_moments_keep_their_microseconds_whatever_the_time_zone(client, database_alias, use_tz, zone):
    due = datetime(2037, 1, 2, 3, 4, 5, 678901, tzinfo=UTC).timestamp()
    with override_settings(USE_TZ=use_tz, TIME_ZONE=zone):
        connections[database_alias].close()
        [added] = client.add([a_job(id=client.new_id(), run_after=due)])
        record = client.get(added.job_id)
        assert record.state is JobState.SCHEDULED
        assert record.job.run_after == due
        [past] = client.add([a_job(id=client.new_id(), run_after=datetime.now(UTC).timestamp() - 5)])
        assert client.get(past.job_id).state is JobState.READY
        [soon] = client.add([a_job(id=client.new_id(), run_after=datetime.now(UTC).timestamp() + 1800)])
        assert client.get(soon.job_id).state is JobState.SCHEDULED
    connections[database_alias].close()


# -- which database ---------------------------------------------------------------------------------------------------


def test_the_router_says_which_database_holds_the_jobs(database_alias, monkeypatch):
    class ToAlias:
        def db_for_write(self, model, **hints):
            return database_alias if model is QueuedTask else None

    monkeypatch.setattr(router, "routers", [ToAlias()])
    client = DatabaseClientStore(DatabaseOptions())
    [added] = client.add([a_job(id=client.new_id())])
    assert rows(database_alias).filter(id=added.job_id).exists()
    assert client.get(added.job_id).state is JobState.READY


def test_a_missing_table_is_a_refusal_that_names_the_command(database_alias, client):
    connection = connections[database_alias]
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE db_queuedtask RENAME TO db_queuedtask_away")
    try:
        with pytest.raises(StoreRefused, match="migrate"):
            client.add([a_job(id=client.new_id())])
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE db_queuedtask_away RENAME TO db_queuedtask")


@pytest.mark.postgres
def test_a_server_that_is_gone_is_an_outage(start_server, django_db_blocker):
    from tests.project.dburl import settings_from_url
    from tests.support.servers import PostgresServer

    server = start_server(PostgresServer())
    entry = settings_from_url(server.url) | {"OPTIONS": {"connect_timeout": 2}}
    connections.settings["gone"] = connections.configure_settings({"default": {}, "gone": entry})["gone"]
    client = DatabaseClientStore(DatabaseOptions(using="gone"))
    server.kill()
    try:
        with django_db_blocker.unblock(), pytest.raises(StoreUnavailable):
            client.add([a_job(id=client.new_id())])
    finally:
        del connections["gone"]
        connections.settings.pop("gone")


# -- calls put together -----------------------------------------------------------------------------------------------


async def test_calls_awaited_together_share_statements_and_keep_their_answers(client, database_alias, closed):
    statements: list[str] = []

    def count(execute, sql, params, many, context):
        statements.append(sql)
        return execute(sql, params, many, context)

    wrappers = await sync_to_async(lambda: connections[database_alias].execute_wrappers)()
    wrappers.append(count)
    try:
        jobs = [a_job(id=client.new_id(), args=[number]) for number in range(200)]
        answers = await asyncio.gather(*[client.aadd([job]) for job in jobs])
    finally:
        wrappers.remove(count)
    assert [answer.job_id for [answer] in answers] == [job.id for job in jobs]
    inserts = [sql for sql in statements if "INSERT INTO db_queuedtask" in sql]
    assert len(inserts) <= 10


async def test_one_bad_call_among_many_fails_alone(client, database_alias, closed):
    good = [a_job(id=client.new_id()) for _ in range(20)]
    bad = a_job(id=client.new_id(), args=[object()])
    calls = [client.aadd([job]) for job in [*good[:10], bad, *good[10:]]]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(answer) for answer in answers].count(CodecError) == 1
    assert isinstance(answers[10], CodecError)
    assert await sync_to_async(rows(database_alias).count)() == 20


async def test_a_cancelled_caller_harms_no_other(client, closed):
    jobs = [a_job(id=client.new_id()) for _ in range(30)]
    calls = [asyncio.ensure_future(client.aadd([job])) for job in jobs]
    await asyncio.sleep(0)
    calls[3].cancel()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers.pop(3), asyncio.CancelledError)
    assert all(answer[0].status is AddStatus.ADDED for answer in answers)


def test_an_async_call_joins_the_transaction_of_the_sync_code_that_waits_for_it(client, database_alias):
    """Invariant 10."""

    async def enqueue() -> None:
        await asyncio.gather(*[client.aadd([a_job(id=client.new_id())]) for _ in range(20)])

    with contextlib.suppress(Undo), transaction.atomic(using=database_alias):
        async_to_sync(enqueue)()
        assert rows(database_alias).count() == 20
        raise Undo
    assert rows(database_alias).count() == 0


async def test_two_event_loops_use_one_store(client, closed):
    def in_another_loop():
        return asyncio.run(client.aadd([a_job(id=client.new_id())]))

    here, there = await asyncio.gather(
        client.aadd([a_job(id=client.new_id())]), asyncio.to_thread(in_another_loop), return_exceptions=True
    )
    assert statuses([*here, *there]) == ["added", "added"]

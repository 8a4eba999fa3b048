"""A database of the 3.2 line upgrades in place: its rows live on, its workers and foreign producers go on."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import connections, router

from django_vtasks.db.models import QueuedTask, TaskStatus, VTaskMetadata
from django_vtasks.jobs.model import JobState, UniqueMode
from django_vtasks.jobs.outcomes import LeaseExpired, Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.jobs.uniqueness import derive_key
from django_vtasks.stores.base import AddStatus, ClaimRequest, JobFilter, Redrive, Want
from django_vtasks.stores.database.store import (
    DatabaseAdminStore,
    DatabaseClientStore,
    DatabaseOptions,
    DatabaseWorkerStore,
)
from tests.stores.benches import close_database
from tests.support.builders import a_job, a_key, settled

COLUMNS_OF_3_2 = {
    "db_queuedtask": {
        "id",
        "queue",
        "unique_key",
        "data",
        "status",
        "worker_id",
        "created_at",
        "priority",
        "run_after",
    },
    "db_vtaskmetadata": {"key", "value", "expires_at"},
}
NINE_COLUMNS = "(id, queue, unique_key, data, status, worker_id, created_at, priority, run_after)"


@pytest.fixture
def old_alias(database_alias: str) -> Iterator[str]:
    """The alias of a database as 3.2.0 leaves it; migrated again in the end."""
    migrate(database_alias, "0003")
    if connections[database_alias].vendor == "mysql":
        # Columns dropped at once still count in MariaDB's row until the table is rebuilt.
        with connections[database_alias].cursor() as cursor:
            cursor.execute("ALTER TABLE db_queuedtask ENGINE=InnoDB")
    yield database_alias
    migrate(database_alias)
    QueuedTask.objects.using(database_alias).all().delete()


@pytest.fixture
async def closed(database_alias: str) -> AsyncIterator[None]:
    """No connection of another thread outlives a test, since the database is dropped in the end."""
    yield
    await close_database(database_alias)


def migrate(alias: str, to: str = "") -> None:
    target = ["db", to] if to else ["db"]
    call_command("migrate", *target, database=alias, verbosity=0)


def payload(**changes: object) -> bytes:
    """A payload as Python producers of the 3.2 line write it into the database: without an id."""
    fields = {
        "func": "tests.project.tasks.add",
        "args": [1, 2],
        "kwargs": {},
        "queue": "default",
        "priority": 0,
        "ts": 1700000000.5,
        "retries": 0,
        "unique": False,
        "unique_key": None,
        "ttl": None,
        "remove_unique_on_complete": True,
        "max_rescues": 0,
        "_rescue_count": 0,
        "run_after": None,
    }
    return json.dumps(fields | changes).encode()


def put(alias: str, *, data: bytes, status: str = "QUEUED", **columns: object) -> str:
    """Insert a row with the nine columns that foreign producers know; returns its id."""
    row_id = uuid.uuid4()
    connection = connections[alias]
    values = {"queue": "default", "unique_key": None, "worker_id": None, "priority": 0, "run_after": None} | columns
    now = values.pop("created_at", datetime.now(UTC))
    moments = [
        connection.ops.adapt_datetimefield_value(moment) if moment else None for moment in (now, values["run_after"])
    ]
    key = str(row_id) if connection.features.has_native_uuid_field else row_id.hex
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO db_queuedtask {NINE_COLUMNS} VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                *(key, values["queue"], values["unique_key"], data, status),
                *(values["worker_id"], moments[0], values["priority"], moments[1]),
            ],
        )
    return str(row_id)


def constraints(alias: str, table: str = "db_queuedtask") -> dict[str, dict[str, object]]:
    with connections[alias].cursor() as cursor:
        return connections[alias].introspection.get_constraints(cursor, table)


def columns(alias: str, table: str) -> set[str]:
    with connections[alias].cursor() as cursor:
        return {column.name for column in connections[alias].introspection.get_table_description(cursor, table)}


def claim_all(owner: str = "alpha") -> ClaimRequest:
    return ClaimRequest(owner=owner, wants=(Want(queue="default", slots=50),), limit=50)


# -- the schema -------------------------------------------------------------------------------------------------------


def test_the_first_three_migrations_make_the_tables_of_3_2(old_alias):
    for table, expected in COLUMNS_OF_3_2.items():
        assert columns(old_alias, table) == expected
    found = constraints(old_alias)
    assert found["db_queuedta_queue_562f8b_idx"]["columns"] == ["queue", "status", "priority", "created_at"]
    singles = {tuple(item["columns"]) for item in found.values() if item["index"] and not item["unique"]}
    assert {("queue",), ("status",), ("priority",), ("run_after",)} <= singles
    if connections[old_alias].features.supports_partial_indexes:
        unique = found["unique_queued_or_processing_task"]
        assert (unique["unique"], unique["columns"]) == (True, ["queue", "unique_key"])


def test_the_names_that_3_2_workers_use_are_there():
    assert QueuedTask._meta.db_table == "db_queuedtask"
    assert VTaskMetadata._meta.db_table == "db_vtaskmetadata"
    assert TaskStatus.values == ["QUEUED", "PROCESSING", "FAILED"]


def test_models_and_migrations_say_the_same(database_alias):
    output = StringIO()
    call_command("makemigrations", "db", check=True, dry_run=True, stdout=output)


def test_every_column_beyond_the_nine_may_be_left_out(database_alias):
    with connections[database_alias].cursor() as cursor:
        described = connections[database_alias].introspection.get_table_description(cursor, "db_queuedtask")
    mandatory = {column.name for column in described if not column.null_ok}
    assert mandatory <= COLUMNS_OF_3_2["db_queuedtask"]


def test_an_ordinary_job_pays_for_few_indexes(database_alias):
    """Every index costs at every change of a job's state; the 3.2 line had one on nearly every column."""
    names = {name for name, item in constraints(database_alias).items() if item["index"] and not item["primary_key"]}
    partial = {
        "db_queuedtask_cancel_idx",
        "db_queuedtask_parked_idx",
        "db_queuedtask_permit_idx",
        "unique_queued_or_processing_task",
    }
    shared = {
        "db_queuedta_queue_562f8b_idx",
        "db_queuedtask_ready_idx",
        "db_queuedtask_scheduled_idx",
        "db_queuedtask_leased_idx",
        "db_queuedtask_dead_idx",
    }
    expected = shared | partial if connections[database_alias].features.supports_partial_indexes else shared
    assert names == expected


def test_migrating_twice_changes_nothing(database_alias):
    before = set(constraints(database_alias))
    migrate(database_alias)
    assert set(constraints(database_alias)) == before


def test_a_database_that_the_router_leaves_out_gets_no_table(old_alias, monkeypatch):
    class LeaveOut:
        def allow_migrate(self, db, app_label, **hints):
            return False if (db, app_label) == (old_alias, "db") else None

    before = columns(old_alias, "db_queuedtask")
    with monkeypatch.context() as patch:
        patch.setattr(router, "routers", [LeaveOut()])
        migrate(old_alias)
    assert columns(old_alias, "db_queuedtask") == before
    call_command("migrate", "db", "0003", database=old_alias, verbosity=0, fake=True)


# -- the rows ---------------------------------------------------------------------------------------------------------


async def test_rows_of_3_2_run_after_the_upgrade(old_alias, closed):
    def prepare() -> tuple[str, str, str, str]:
        now = datetime.now(UTC)
        first = put(old_alias, data=payload(args=[1, 1]), created_at=now - timedelta(minutes=2))
        urgent = put(old_alias, data=payload(args=[2, 2], priority=5), priority=5, created_at=now)
        past = put(old_alias, data=payload(args=[3, 3]), run_after=now - timedelta(hours=1), created_at=now)
        future = put(old_alias, data=payload(args=[4, 4]), run_after=now + timedelta(hours=1), created_at=now)
        migrate(old_alias)
        return first, urgent, past, future

    first, urgent, past, future = await sync_to_async(prepare)()
    options = DatabaseOptions(using=old_alias)
    worker, client = DatabaseWorkerStore(options), DatabaseClientStore(options)
    try:
        worker.extend("alpha", 60)
        pulse = await worker.pulse("alpha", 100)
        assert pulse.promoted == 1
        round_ = await worker.exchange([], claim_all())
        assert [claim.lease.job_id for claim in round_.claims] == [urgent, first, past]
        assert [claim.job.args for claim in round_.claims] == [[2, 2], [1, 1], [3, 3]]
        assert [claim.job.id for claim in round_.claims] == [urgent, first, past], "the row's id is the job's"
        ended = [settled(claim, Succeeded(value=b"3"), Policy(result_ttl=60), time.time()) for claim in round_.claims]
        assert not (await worker.exchange(ended, None)).refused
        record = await client.aget(first)
        assert (record.state, record.value) == (JobState.SUCCEEDED, b"3")
        assert (await client.aget(future)).state is JobState.SCHEDULED
    finally:
        await worker.close()


async def test_a_row_that_a_dead_3_2_worker_held_is_reclaimed(old_alias, closed):
    def prepare() -> tuple[str, str]:
        dead = put(old_alias, data=payload(max_rescues=1), status="PROCESSING", worker_id="host-1")
        alive = put(old_alias, data=payload(), status="PROCESSING", worker_id="host-2")
        in_an_hour = datetime.now(UTC) + timedelta(hours=1)
        VTaskMetadata.objects.using(old_alias).create(key="worker_alive:host-2", value="host-2", expires_at=in_an_hour)
        migrate(old_alias)
        return dead, alive

    dead, alive = await sync_to_async(prepare)()
    worker = DatabaseWorkerStore(DatabaseOptions(using=old_alias))
    try:
        worker.extend("alpha", 60)
        [claim] = await worker.expired(10)
        assert claim.lease.job_id == dead
        outcome = LeaseExpired(owner=claim.lease.owner)
        round_ = await worker.exchange([settled(claim, outcome, Policy(), time.time(), reclaim=True)], claim_all())
        assert not round_.refused
        assert [(again.lease.job_id, again.job.rescue_count) for again in round_.claims] == [(dead, 1)]
        assert await worker.expired(10) == (), f"{alive} is held by a live worker"
    finally:
        await worker.close()


def test_dead_letters_of_3_2_are_listed_grouped_and_redriven(old_alias):
    failed = payload(error_msg="boom é", error_traceback="Traceback: ValueError: boom é", failed_at=1700000100.0)
    rescued = payload(args=[9, 9], error_msg="Exceeded max_rescues (0)", _rescue_count=1)
    ids = {put(old_alias, data=data, status="FAILED") for data in (failed, rescued)}
    migrate(old_alias)
    admin = DatabaseAdminStore(DatabaseOptions(using=old_alias))
    letters = [record.letter for record in admin.page(JobFilter(state=JobState.DEAD)).records]
    assert {letter.id for letter in letters} == ids
    assert {letter.failure.message for letter in letters} == {"boom é", "Exceeded max_rescues (0)"}
    assert all(letter.failed_at > 0 for letter in letters)
    assert sum(group.count for group in admin.letter_groups()) == 2
    assert [added.status for added in admin.redrive(sorted(ids), Redrive())] == [AddStatus.ADDED] * 2


def test_a_key_taken_by_a_3_2_row_excludes_a_new_job_and_the_other_way_round(old_alias):
    if not connections[old_alias].features.supports_partial_indexes:
        pytest.skip("the 3.2 line has no unique jobs on MySQL")
    key = derive_key("tests.project.tasks.add", [1, 2], {})
    waiting = put(old_alias, data=payload(unique=True, unique_key=key), unique_key=key)
    migrate(old_alias)
    client = DatabaseClientStore(DatabaseOptions(using=old_alias))
    [answer] = client.add([a_job(id=client.new_id(), unique=a_key(key))])
    assert (answer.status, answer.job_id) == (AddStatus.DUPLICATE, waiting)
    QueuedTask.objects.using(old_alias).all().delete()
    [answer] = client.add([a_job(id=client.new_id(), unique=a_key(key))])
    assert answer.status is AddStatus.ADDED, "a 3.2 worker ends a job by deleting its row, and the key is free"
    assert QueuedTask.objects.using(old_alias).get(unique_key=key).status == "QUEUED"


@pytest.mark.parametrize("mode", sorted(set(UniqueMode) - {UniqueMode.WINDOW}))
def test_a_key_is_free_when_a_3_2_worker_has_deleted_the_row(database_alias, mode):
    client = DatabaseClientStore(DatabaseOptions(using=database_alias))
    [first] = client.add([a_job(id=client.new_id(), unique=a_key(mode=mode))])
    QueuedTask.objects.using(database_alias).filter(id=first.job_id).delete()
    [second] = client.add([a_job(id=client.new_id(), unique=a_key(mode=mode))])
    assert second.status is AddStatus.ADDED


# -- foreign producers ------------------------------------------------------------------------------------------------


async def test_the_nine_column_insert_of_a_foreign_producer_runs(database_alias, closed):
    data = payload(id="Kx3vYw7rTq1zLb5nPc9mHd2sFg4jVa6k")
    without_run_after = json.loads(data)
    del without_run_after["run_after"]
    row_id = await sync_to_async(put)(database_alias, data=json.dumps(without_run_after).encode())
    worker = DatabaseWorkerStore(DatabaseOptions(using=database_alias))
    try:
        worker.extend("alpha", 60)
        assert await worker.wait_for_jobs(["default"], 10)
        [claim] = (await worker.exchange([], claim_all())).claims
        assert claim.job.id == claim.lease.job_id == row_id
    finally:
        await worker.close()

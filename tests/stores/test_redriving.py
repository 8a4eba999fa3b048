"""Many dead letters at once: few round trips, nothing lost when one fails, and those of the 3.2 line among them."""

from __future__ import annotations

import uuid

import orjson
import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_vtasks.db.models import QueuedTask
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.model import JobState
from django_vtasks.operating import bulk
from django_vtasks.stores.base import AdminStore, JobFilter, Redrive
from django_vtasks.stores.database import redriving
from django_vtasks.stores.database.ids import new_id
from django_vtasks.stores.database.store import DatabaseAdminStore, DatabaseOptions
from django_vtasks.stores.valkey.store import ValkeyAdminStore
from tests.stores.valkey_help import PREFIX, options, raw_client
from tests.support.builders import a_job, a_letter

DEAD = JobFilter(state=JobState.DEAD)


def some_letters(admin: AdminStore, count: int) -> list[str]:
    letters = [a_letter(job=a_job(id=new_id(), args=[number])) for number in range(count)]
    assert admin.restore(letters) == count
    return [letter.id for letter in letters]


TRACEBACK = 'Traceback (most recent call last):\n  File "tasks.py", line 1, in add\nValueError: boom\n'


def letters_of_3_2(count: int, traceback: str = TRACEBACK) -> dict[str, bytes]:
    """What a 3.2 worker buries: the payload and three fields more."""
    error = {"error_msg": "boom", "error_traceback": traceback, "failed_at": 1_700_000_000.5}
    payload = {"func": "tests.project.tasks.add", "args": [1, 2], "kwargs": {}, "queue": "default", "priority": 0}
    ids = [str(uuid.uuid4()) for _ in range(count)]
    return {job_id: orjson.dumps(payload | {"id": job_id} | error) for job_id in ids}


def groups(admin: AdminStore) -> list[tuple[str, str, int]]:
    return [(group.func, group.exception_class, group.count) for group in admin.letter_groups()]


GROUPS_OF_3_2 = [("tests.project.tasks.add", "ValueError", 3), ("tests.project.tasks.add", "", 1)]


# -- databases --------------------------------------------------------------------------------------------------------


@pytest.fixture
def admin(database_alias: str) -> DatabaseAdminStore:
    return DatabaseAdminStore(DatabaseOptions(using=database_alias, dead_letter_cap=10_000))


def statements(queries: CaptureQueriesContext) -> list[str]:
    """Those that took a round trip; how often workers are woken depends on the time."""
    return [query["sql"] for query in queries.captured_queries if "pg_notify" not in query["sql"]]


def statements_of_a_redrive(admin: DatabaseAdminStore, alias: str, count: int) -> int:
    ids = some_letters(admin, count)
    with CaptureQueriesContext(connections[alias]) as queries:
        answers = admin.redrive(ids, Redrive())
    assert [answer.status for answer in answers] == ["added"] * count
    return len(statements(queries))


def test_a_hundred_letters_take_as_many_statements_as_two(admin, database_alias):
    assert statements_of_a_redrive(admin, database_alias, 100) == statements_of_a_redrive(admin, database_alias, 2)


def test_no_letter_is_lost_when_it_cannot_be_enqueued(admin, monkeypatch):
    """What was enqueued before stays so; the chunk that failed is as it was, and may be tried again."""
    ids = some_letters(admin, 250)
    insert, calls = redriving.add_rows, []

    def broken(session, rows):
        calls.append(insert(session, rows))
        if len(calls) == 2:
            raise StoreUnavailable("the server is gone")
        return calls[-1]

    monkeypatch.setattr(redriving, "add_rows", broken)
    with pytest.raises(StoreUnavailable):
        admin.redrive(ids, Redrive())
    left = set(bulk.meant_by(admin, DEAD).ids)
    ready = bulk.meant_by(admin, JobFilter(state=JobState.READY)).ids
    assert (len(left), len(ready)) == (150, 100)
    assert left == set(ids[100:])
    done = bulk.redrive(admin, ids)
    assert (done.changed, done.left_alone) == (150, 100)


def test_letters_of_the_3_2_line_are_adopted_in_few_statements(admin, database_alias):
    add_rows(database_alias, letters := letters_of_3_2(300))
    with CaptureQueriesContext(connections[database_alias]) as queries:
        found = admin.page(DEAD, limit=500)
    assert {record.job.id for record in found.records} == set(letters)
    assert len(statements(queries)) <= 12
    with CaptureQueriesContext(connections[database_alias]) as queries:
        admin.page(DEAD, limit=500)
    assert not [sql for sql in statements(queries) if "UPDATE" in sql]


def add_rows(alias: str, letters: dict[str, bytes]) -> None:
    rows = [QueuedTask(id=job_id, queue="default", data=data, status="FAILED") for job_id, data in letters.items()]
    QueuedTask.objects.using(alias).bulk_create(rows)


def test_letters_of_the_3_2_line_are_groups_like_others(admin, database_alias):
    add_rows(database_alias, letters_of_3_2(3) | letters_of_3_2(1, ""))
    assert groups(admin) == GROUPS_OF_3_2


# -- Valkey -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def raw(keyvalue_server):
    client = raw_client(keyvalue_server)
    yield client
    client.close()


@pytest.fixture
def valkey_admin(keyvalue_server):
    admin = ValkeyAdminStore(options(keyvalue_server, dead_letter_cap=10_000))
    yield admin
    admin.close()


def test_five_hundred_letters_take_few_round_trips(valkey_admin, raw):
    ids = some_letters(valkey_admin, 500)
    raw.config_resetstat()
    done = bulk.redrive(valkey_admin, ids)
    assert done.changed == 500
    calls = raw.info("commandstats")
    assert calls["cmdstat_hmget"]["calls"] == 1
    assert calls["cmdstat_evalsha"]["calls"] + calls.get("cmdstat_eval", {"calls": 0})["calls"] <= 8


def test_letters_are_discarded_by_their_ids_without_a_look_at_the_others(valkey_admin, raw):
    ids = some_letters(valkey_admin, 1000)
    raw.config_resetstat()
    assert valkey_admin.delete(JobFilter(state=JobState.DEAD, ids=tuple(ids[:3])), 3) == 3
    assert raw.llen(f"{PREFIX}q:failed") == 997
    assert "cmdstat_smembers" not in raw.info("commandstats")


@pytest.mark.parametrize("operation", ["redrive", "discard"])
def test_letters_of_a_3_2_worker_are_handled_by_their_ids(valkey_admin, raw, operation):
    letters = letters_of_3_2(700)
    raw.lpush(f"{PREFIX}q:failed", *letters.values())
    if operation == "redrive":
        done = bulk.redrive(valkey_admin, list(letters))
    else:
        done = bulk.discard(valkey_admin, JobState.DEAD, list(letters))
    assert (done.changed, done.left_alone) == (700, 0)
    assert raw.llen(f"{PREFIX}q:failed") == 0
    assert raw.llen(f"{PREFIX}q:default") == (700 if operation == "redrive" else 0)


def test_letters_of_a_3_2_worker_are_groups_like_others(valkey_admin, raw):
    raw.lpush(f"{PREFIX}q:failed", *letters_of_3_2(3).values(), *letters_of_3_2(1, "").values())
    assert groups(valkey_admin) == GROUPS_OF_3_2
    [largest, _] = valkey_admin.letter_groups()
    meant = bulk.meant_by(valkey_admin, JobFilter(state=JobState.DEAD, fingerprint=largest.fingerprint))
    assert len(meant.ids) == 3

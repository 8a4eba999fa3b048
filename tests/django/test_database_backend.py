"""The database backend on every vendor: what the shared tests cannot show over a store in memory."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.test.utils import CaptureQueriesContext

from django_vtasks.framework import TaskResultDoesNotExist, task_backends
from tests.django.conftest import entry
from tests.support import sample_tasks as sample
from tests.support.naming import shown

DB = "django_vtasks.backends.db.DatabaseTaskBackend"


@pytest.fixture
def alias(database_alias, settings):
    """The alias of an empty database that the default backend uses."""
    settings.TASKS = entry(DB, QUEUES=["default", "q" * 255], OPTIONS={"DATABASE": database_alias})
    return database_alias


def enqueue(task, *args):
    return task.enqueue(*args)


def aenqueue(task, *args):
    return async_to_sync(task.aenqueue)(*args)


def enqueue_many(task, *args):
    (result,) = task.get_backend().enqueue_many([(task, args, {})])
    return result


def aenqueue_many(task, *args):
    (result,) = async_to_sync(task.get_backend().aenqueue_many)([(task, args, {})])
    return result


WAYS = pytest.mark.parametrize("way", [enqueue, aenqueue, enqueue_many, aenqueue_many])


@contextmanager
def rolled_back(alias):
    with transaction.atomic(using=alias):
        yield
        transaction.set_rollback(True, using=alias)


def in_another_connection(function, *args):
    """What another process would see."""

    def call():
        try:
            return function(*args)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(30)


def exists(result):
    try:
        task_backends["default"].get_result(result.id)
    except TaskResultDoesNotExist:
        return False
    return True


@WAYS
def test_what_is_read_equals_what_enqueue_returned(way, alias):
    """C 33, C 51."""
    due = datetime.datetime(2031, 5, 6, 7, 8, 9, 123456, datetime.UTC)
    one = sample.bare.using(priority=-7, run_after=due, queue_name="q" * 255)
    result = way(one, {"x": [1, None, 1.5]})
    assert one.get_result(result.id) == result
    assert async_to_sync(one.aget_result)(result.id) == result
    assert in_another_connection(one.get_result, result.id) == result
    assert result.enqueued_at.microsecond or one.get_result(result.id).enqueued_at == result.enqueued_at


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_survive_without_time_zones(zone, alias, settings):
    """C 51."""
    settings.USE_TZ, settings.TIME_ZONE = False, zone
    due = datetime.datetime(2031, 5, 6, 7, 8, 9, 123456)
    result = sample.bare.using(run_after=due).enqueue()
    read = sample.bare.get_result(result.id)
    assert (read, read.task.run_after) == (result, due)


def test_enqueuing_and_reading_cost_one_statement_each(alias):
    """B 25. How often workers are woken depends on the time."""
    sample.bare.enqueue()
    with CaptureQueriesContext(connections[alias]) as written:
        result = sample.bare.enqueue(1)
    with CaptureQueriesContext(connections[alias]) as read:
        sample.bare.get_result(result.id)
    [statement] = [query["sql"] for query in written if "pg_notify" not in query["sql"]]
    assert "INSERT" in statement
    assert len(read) == 1


@WAYS
def test_a_job_is_part_of_the_callers_transaction(way, alias):
    """B 29, invariant 10."""
    with transaction.atomic(using=alias):
        result = way(sample.bare, 1)
        assert exists(result)
        assert not in_another_connection(exists, result)
    assert in_another_connection(exists, result)
    with rolled_back(alias):
        gone = way(sample.mutex, 1)
        assert exists(gone)
    assert not exists(gone)
    assert way(sample.mutex, 1) is not None


@WAYS
def test_a_duplicate_does_not_poison_the_callers_transaction(way, alias):
    with transaction.atomic(using=alias):
        first = way(sample.mutex, 1)
        assert way(sample.mutex, 1) is None
        assert way(sample.survivor, 1) == way(sample.survivor, 1)
        other = way(sample.mutex, 2)
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1")
    assert exists(first)
    assert exists(other)


@pytest.mark.parametrize("text", ["\x00", "\x00 é 🙂", "\u2028", '"', "\\", "%s", "'; --"], ids=shown)
def test_every_text_is_stored_faithfully(text, alias):
    """B 22."""
    with transaction.atomic(using=alias):
        result = sample.bare.enqueue(text, b={text: [text]})
        assert sample.bare.get_result(result.id).args == [text]
    assert sample.bare.get_result(result.id).kwargs == {"b": {text: [text]}}
    keyed = sample.bare.using(unique_key=f"k{text}")
    if "\x00" not in text:
        assert keyed.enqueue() is not None
        assert keyed.enqueue() is None


def test_a_refused_argument_leaves_the_transaction_usable(alias):
    """B 22."""
    with transaction.atomic(using=alias):
        for value in (float("nan"), "\ud800", {1: 2}, 2**64):
            with pytest.raises((TypeError, ValueError)):
                sample.bare.enqueue(value)
        result = sample.bare.enqueue(1)
    assert exists(result)


@pytest.mark.parametrize(
    "result_id",
    ["123", "", "x" * 5000, 5, None, "a\x00b", "é", "\ud800", "0" * 32, "00000000-0000-0000-0000-00000000000g"],
    ids=lambda value: repr(value)[:12],
)
def test_malformed_ids_do_not_exist_and_cost_the_transaction_nothing(result_id, alias):
    """C 36."""
    with transaction.atomic(using=alias):
        for read in (sample.bare.get_result, async_to_sync(sample.bare.aget_result)):
            with pytest.raises(TaskResultDoesNotExist):
                read(result_id)
        result = sample.bare.enqueue()
    assert exists(result)


def test_many_jobs_at_once_and_from_many_threads(alias):
    backend = task_backends["default"]
    results = backend.enqueue_many([(sample.bare, (i,), {}) for i in range(1100)])
    assert len({result.id for result in results}) == 1100
    (count,) = backend.admin_store.counts()
    assert count.ready == 1100
    assert async_to_sync(backend.get_queue_depth)("default") == 1100


def test_a_large_argument_comes_back_whole(alias):
    value = "é" * 100_000
    result = sample.bare.enqueue(value)
    assert sample.bare.get_result(result.id).args == [value]

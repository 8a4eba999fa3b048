"""Enqueuing inside transactions: statements B 29 and 30, invariant 10, for stores that do and do not share them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from functools import partial

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.test import TestCase

from django_vtasks.framework import TaskResultDoesNotExist, task_backends, task_enqueued
from django_vtasks.jobs.errors import StoreUnavailable
from tests.django.conftest import MEMORY, entry
from tests.support import sample_tasks as sample


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
def rolled_back(using=None):
    """A transaction that ends in a rollback."""
    with transaction.atomic(using=using):
        yield
        transaction.set_rollback(True, using=using)


@pytest.fixture
def announced():
    told = []

    def note(task_result, **_kwargs):
        told.append(task_result.id)

    task_enqueued.connect(note)
    yield told
    task_enqueued.disconnect(note)


@WAYS
@pytest.mark.django_db(transaction=True)
def test_a_job_waits_for_the_commit_and_its_id_is_known_before(way, memory, announced):
    with transaction.atomic():
        result = way(sample.mutex, 1)
        assert result.status == "READY"
        assert memory.get(result.id) is None
        assert announced == []
    assert memory.get(result.id) is not None
    assert announced == [result.id]
    assert sample.mutex.get_result(result.id) == result


@WAYS
@pytest.mark.django_db(transaction=True)
def test_a_rollback_leaves_nothing(way, memory, announced):
    """Invariant 10: no job, no lock, no result, no signal."""
    with rolled_back():
        result = way(sample.mutex, 1)
    assert memory.counts() == []
    assert announced == []
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()
    assert sample.mutex.enqueue(1) is not None


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_savepoint_takes_its_jobs_along(memory):
    with transaction.atomic():
        kept = sample.bare.enqueue(1)
        with rolled_back():
            lost = sample.bare.enqueue(2)
    assert memory.get(kept.id) is not None
    assert memory.get(lost.id) is None


@WAYS
@pytest.mark.django_db(transaction=True)
def test_a_task_can_ask_not_to_wait(way, memory):
    with rolled_back():
        result = way(sample.impatient, 1)
        assert memory.get(result.id) is not None
    assert memory.get(result.id) is not None


@WAYS
@pytest.mark.django_db(transaction=True)
def test_a_duplicate_that_shows_at_the_commit_points_at_the_survivor(way, memory, announced):
    survivor = sample.mutex.enqueue(1)
    with transaction.atomic():
        duplicate = way(sample.mutex, 1)
        twice = way(sample.mutex, 2)
        thrice = way(sample.mutex, 2)
    assert (duplicate.is_duplicate, duplicate.duplicate_of) == (True, survivor.id)
    assert (twice.is_duplicate, twice.duplicate_of) == (False, None)
    assert (thrice.is_duplicate, thrice.duplicate_of) == (True, twice.id)
    duplicate.refresh()
    assert duplicate.status == "READY"
    for read in (task_backends["default"].get_result, async_to_sync(task_backends["default"].aget_result)):
        elsewhere = read(duplicate.id)
        assert (elsewhere.id, elsewhere.is_duplicate, elsewhere.duplicate_of) == (duplicate.id, True, survivor.id)
        elsewhere.refresh()
        assert (elsewhere.id, elsewhere.is_duplicate, elsewhere.duplicate_of) == (duplicate.id, True, survivor.id)
    assert announced == [survivor.id, twice.id]
    assert memory.counts()[0].ready == 2


@WAYS
@pytest.mark.django_db(transaction=True)
def test_a_store_that_shares_the_transaction_is_asked_at_once(way, transactional, announced):
    """B 29, B 30."""
    with transaction.atomic():
        result = way(sample.mutex, 1)
        assert transactional.get(result.id) is not None
        assert announced == [result.id]
        assert way(sample.mutex, 1) is None


@pytest.mark.django_db(transaction=True)
def test_enqueue_can_be_a_commit_hook_itself(memory, transactional):
    """B 30."""
    done = []
    with transaction.atomic():
        transaction.on_commit(partial(sample.bare.enqueue, 1))
        transaction.on_commit(lambda: done.append(1))
    assert done == [1]
    assert task_backends["default"].client_store.counts()[0].ready == 1


@pytest.mark.django_db(transaction=True)
def test_sync_code_called_from_a_coroutine_has_its_own_transaction(memory):
    def view():
        with transaction.atomic():
            result = sample.bare.enqueue(1)
            inner = async_to_sync(sample.bare.aenqueue)(2)
            assert memory.get(result.id) is memory.get(inner.id) is None
        connections.close_all()  # this thread outlives the test
        return result, inner

    async def main():
        outside = await sample.bare.aenqueue(0)
        return outside, *(await sync_to_async(view)())

    for result in asyncio.run(main()):
        assert memory.get(result.id) is not None


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_a_coroutine_opened_itself_is_waited_for(memory, monkeypatch):
    """Django allows it with a variable in the environment, which notebooks set."""
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")

    async def main():
        try:
            with transaction.atomic():
                result = await sample.bare.aenqueue(1)
                assert memory.get(result.id) is None
        finally:
            connections.close_all()
        return result

    assert memory.get(asyncio.run(main()).id) is not None


@pytest.fixture
def other(django_db_blocker, tmp_path):
    """A second database alias."""
    entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.sqlite3")}
    connections.settings["other"] = connections.configure_settings({"default": {}, "other": entry})["other"]
    with django_db_blocker.unblock():
        yield "other"
        connections["other"].close()
    del connections["other"]
    connections.settings.pop("other")


@WAYS
@pytest.mark.django_db(transaction=True)
def test_the_commit_of_the_alias_counts_in_which_a_transaction_is_open(way, memory, other):
    named = sample.bare.using(on_commit="other")
    with transaction.atomic():
        with transaction.atomic(using="other"):
            for_other, for_default = way(named, 1), way(sample.bare, 2)
        assert memory.get(for_other.id) is not None
        assert memory.get(for_default.id) is None
    assert memory.get(for_default.id) is not None
    with transaction.atomic(using="other"):
        result = way(sample.bare, 3)
        assert memory.get(result.id) is None
    assert memory.get(result.id) is not None
    with transaction.atomic():
        assert memory.get(way(named, 4).id) is not None


@pytest.fixture
def broken(memory, monkeypatch):
    """The store cannot be reached."""

    def refuse(_jobs):
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(memory, "add", refuse)


@WAYS
@pytest.mark.django_db(transaction=True)
def test_a_store_that_is_away_at_the_commit_is_logged_and_raised(way, broken, caplog):
    results = []

    def view():
        with transaction.atomic():
            Group.objects.create(name="committed")
            results.append(way(sample.bare, 1))

    with pytest.raises(StoreUnavailable):
        view()
    assert Group.objects.filter(name="committed").exists()
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    message = record.getMessage()
    assert all(part in message for part in (results[0].id, "sample_tasks.bare", "the store is away"))
    assert record.job_id == results[0].id


@pytest.mark.django_db(transaction=True)
def test_what_django_drops_behind_a_failed_push_is_logged_too(broken, caplog):
    """Django runs no hook behind one that raises; every job that is lost by that is named."""
    with rolled_back():
        sample.bare.enqueue("another transaction")

    def view():
        with transaction.atomic():
            ids.append(sample.bare.enqueue(1).id)
            with rolled_back():
                sample.bare.enqueue("rolled back")
            ids.append(sample.bare.enqueue(2).id)
            transaction.on_commit(lambda: ids.append("dropped"))
            ids.append(sample.bare.enqueue(3).id)

    ids = []
    with pytest.raises(StoreUnavailable):
        view()
    assert [record.job_id for record in caplog.records if record.levelno == logging.ERROR] == ids


@pytest.mark.django_db(transaction=True)
def test_with_the_option_a_store_that_is_away_at_the_commit_is_only_logged(settings, caplog, monkeypatch):
    settings.TASKS = entry(MEMORY, OPTIONS={"RAISE_AT_COMMIT": False})
    store = task_backends["default"].client_store

    def refuse(_jobs):
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(store, "add", refuse)
    ran = []
    with transaction.atomic():
        first, second = sample.bare.enqueue(1), sample.bare.enqueue(2)
        transaction.on_commit(lambda: ran.append(1))
    lost = [record.job_id for record in caplog.records if record.levelno == logging.ERROR]
    assert lost == [first.id, second.id]
    assert ran == [1]


@WAYS
def test_a_store_that_is_away_at_the_call_raises(way, broken):
    with pytest.raises(StoreUnavailable):
        way(sample.bare, 1)


@pytest.mark.usefixtures("memory")
class TestInTestCases(TestCase):
    """Django's own way of testing what happens at the commit."""

    def test_the_hooks_can_be_captured_and_run(self):
        store = task_backends["default"].client_store
        with self.captureOnCommitCallbacks() as callbacks:
            result = sample.bare.enqueue(1)
        assert len(callbacks) == 1
        assert store.get(result.id) is None
        with self.captureOnCommitCallbacks(execute=True):
            sample.bare.enqueue(2)
        assert store.counts()[0].ready == 1

    def test_coroutines_wait_for_the_commit_too(self):
        store = task_backends["default"].client_store
        with self.captureOnCommitCallbacks(execute=True):
            result = async_to_sync(sample.bare.aenqueue)(1)
            assert store.get(result.id) is None
        assert store.get(result.id) is not None

    async def test_coroutine_tests_are_inside_the_transaction_of_the_test(self):
        result = await sample.bare.aenqueue(1)
        assert task_backends["default"].client_store.get(result.id) is None

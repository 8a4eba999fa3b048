"""The Valkey backend through the framework's interface."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from django_vtasks.framework import InvalidTask, TaskResultDoesNotExist, task_backends
from tests.django.conftest import entry
from tests.support import sample_tasks as sample

VALKEY = "django_vtasks.backends.valkey.ValkeyTaskBackend"


@pytest.fixture
def backend(clean_valkey, settings):
    """The default backend on an empty server."""
    settings.TASKS = entry(VALKEY, OPTIONS={"BROKER_URL": clean_valkey.url})
    return task_backends["default"]


def enqueue(task, *args):
    return task.enqueue(*args)


def aenqueue(task, *args):
    return async_to_sync(task.aenqueue)(*args)


def aenqueue_many(task, *args):
    (result,) = async_to_sync(task.get_backend().aenqueue_many)([(task, args, {})])
    return result


WAYS = pytest.mark.parametrize("way", [enqueue, aenqueue, aenqueue_many])
pytestmark = pytest.mark.valkey


def exists(result):
    try:
        task_backends["default"].get_result(result.id)
    except TaskResultDoesNotExist:
        return False
    return True


@contextmanager
def rolled_back():
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@WAYS
def test_what_is_read_equals_what_enqueue_returned(way, backend):
    """C 33."""
    one = sample.bare.using(priority=-7)
    result = way(one, {"x": ["\x00 é", None, 1.5]})
    assert one.get_result(result.id) == result
    assert async_to_sync(one.aget_result)(result.id) == result
    assert len(result.id) == 32
    assert result.id.isalnum()


@WAYS
def test_duplicates_are_known_at_the_call(way, backend):
    first = way(sample.mutex, 1)
    assert way(sample.mutex, 1) is None
    assert way(sample.mutex, 2).id != first.id
    assert way(sample.survivor, 1).id == way(sample.survivor, 1).id


@WAYS
@pytest.mark.django_db(transaction=True)
def test_a_job_waits_for_the_commit_and_a_rollback_leaves_nothing(way, backend):
    """Invariant 10."""
    with transaction.atomic():
        result = way(sample.mutex, 1)
        assert not exists(result)
    assert exists(result)
    with rolled_back():
        gone = way(sample.mutex, 2)
    assert not exists(gone)
    assert way(sample.mutex, 2) is not None
    with transaction.atomic():
        duplicate = way(sample.mutex, 1)
    assert duplicate.duplicate_of == result.id


@pytest.mark.parametrize(
    "result_id", ["123", "", "x" * 5000, 5, None, "a\x00b", "é"], ids=lambda value: repr(value)[:9]
)
def test_malformed_ids_do_not_exist(result_id, backend):
    """C 36."""
    with pytest.raises(TaskResultDoesNotExist):
        backend.get_result(result_id)


def test_the_dead_letters_queue_name_is_reserved(backend, settings):
    settings.VTASKS_QUEUES = ["failed"]
    with pytest.raises(InvalidTask, match="reserved"):
        sample.bare.using(queue_name="failed")


def test_the_connection_can_come_from_the_caches(clean_valkey, settings):
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        "broker": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": clean_valkey.url},
    }
    settings.TASKS = entry(VALKEY, OPTIONS={"cache_alias": "broker", "BROKER_URL": "valkey://127.0.0.1:1"})
    assert exists(sample.bare.enqueue(1))


@pytest.mark.parametrize(("options", "said"), [({}, "BROKER_URL"), ({"cache_alias": "nowhere"}, "nowhere")])
def test_an_alias_that_does_not_say_where_its_server_is_fails_on_first_use(settings, options, said):
    settings.TASKS = entry(VALKEY, OPTIONS=options)
    assert sample.bare.using(priority=3).priority == 3
    with pytest.raises(ImproperlyConfigured, match=said):
        sample.bare.enqueue()


@pytest.mark.parametrize(
    ("setting", "option", "prefix"),
    [(None, None, "{vt}:"), ("app", None, "app:"), ("app:", None, "app:"), ("app", "{other}", "{other}:")],
)
def test_keys_start_with_the_prefix(backend, settings, setting, option, prefix):
    url = settings.TASKS["default"]["OPTIONS"]["BROKER_URL"]
    settings.VTASKS_VALKEY_PREFIX = setting
    settings.TASKS = entry(VALKEY, OPTIONS={"BROKER_URL": url} | ({"PREFIX": option} if option else {}))
    chosen = task_backends["default"]
    assert chosen.prefix == prefix
    assert chosen._get_key("q:default") == f"{prefix}q:default"
    assert exists(sample.bare.enqueue())
    assert async_to_sync(chosen.get_queue_depth)("default") == 1

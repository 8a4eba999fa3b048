"""The names, fields and keywords of the 3.2 line that clients use."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging

import pytest

from django_vtasks import VTask, task
from django_vtasks.jobs.errors import CodecError
from django_vtasks.serialization import COMPRESS_THRESHOLD, deserialize, serialize
from django_vtasks.utils import UNNEEDED_APPS, crash_reporter, prune_installed_apps
from tests.support import sample_tasks as sample

NAMES = {
    "django_vtasks": ["task", "VTask"],
    "django_vtasks.signals": ["task_started", "task_finished", "task_failure"],
    "django_vtasks.conf": [
        *("settings", "vtasks_settings", "resolve_queue_config", "get_batch_queues", "classify_schedule"),
        *("QUEUE_OPTION_KEYS", "SCHEDULE_ENTRY_KEYS", "CRON", "INTERVAL", "DEFAULTS", "ENV_TYPES"),
    ],
    "django_vtasks.serialization": ["serialize", "deserialize", "COMPRESS_THRESHOLD"],
    "django_vtasks.backends.valkey": ["ValkeyTaskBackend"],
    "django_vtasks.backends.db": ["DatabaseTaskBackend"],
    "django_vtasks.backends.immediate": ["ImmediateBackend"],
    "django_vtasks.backends.base": ["VTasksBaseBackend"],
    "django_vtasks.utils": ["prune_installed_apps", "UNNEEDED_APPS", "crash_reporter"],
    "django_vtasks.empty_urls": ["urlpatterns"],
}


@pytest.mark.parametrize("module", NAMES)
def test_the_names_that_clients_import(module):
    found = importlib.import_module(module)
    assert [name for name in NAMES[module] if not hasattr(found, name)] == []


def test_the_ten_options_of_a_task_and_their_defaults():
    fields = {name: getattr(sample.bare, name) for name in VTask.__dataclass_fields__}
    known = {
        "priority": 0,
        "queue_name": "default",
        "backend": "default",
        "takes_context": False,
        "run_after": None,
        "unique": False,
        "unique_key": None,
        "ttl": None,
        "remove_unique_on_complete": True,
        "on_commit": True,
        "max_rescues": None,
    }
    assert {name: fields[name] for name in known} == known
    declared = task(
        priority=1,
        queue_name="default",
        backend="default",
        takes_context=False,
        unique=True,
        unique_key="k",
        ttl=5,
        remove_unique_on_complete=False,
        on_commit=False,
        max_rescues=2,
    )(sample.plain)
    assert (declared.ttl, declared.remove_unique_on_complete, declared.max_rescues) == (5, False, 2)


def test_using_takes_keywords_only():
    with pytest.raises(TypeError):
        sample.bare.using(5)
    assert inspect.signature(sample.bare.using).parameters["changes"].kind is inspect.Parameter.VAR_KEYWORD


def test_payloads_round_trip_and_are_compressed_above_the_threshold():
    small = {"func": "a.b", "args": [1], "kwargs": {}}
    assert serialize(small) == b'{"func":"a.b","args":[1],"kwargs":{}}'
    assert deserialize(serialize(small)) == small
    large = small | {"args": ["x" * COMPRESS_THRESHOLD]}
    assert serialize(large).startswith(b"zstd:")
    assert deserialize(serialize(large)) == large
    with pytest.raises(CodecError):
        deserialize(b"[1]")


def test_pruned_apps_keep_their_order():
    apps = ["a", "django.contrib.admin", "b", "debug_toolbar", "django.contrib.sessions", "django.contrib.auth"]
    assert prune_installed_apps(apps) == ["a", "b", "django.contrib.auth"]
    assert prune_installed_apps(UNNEEDED_APPS) == []


def test_a_crash_is_reported_and_raised_on(caplog):
    @crash_reporter
    async def crashing():
        raise ValueError("crash")

    @crash_reporter
    async def fine():
        return 5

    @crash_reporter
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(ValueError, match="crash"):
        asyncio.run(crashing())
    (record,) = caplog.records
    assert record.levelno == logging.CRITICAL
    assert "crashing" in record.getMessage()
    assert asyncio.run(fine()) == 5
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert len(caplog.records) == 1

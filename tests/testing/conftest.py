"""The alias under test, on every store: in memory, and in a database inside a transaction that is rolled back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.db import transaction

from django_vtasks.framework import task_backends
from tests.testing.tasks import RAN

MEMORY = "django_vtasks.backends.memory.MemoryTaskBackend"
DATABASE = "django_vtasks.backends.db.DatabaseTaskBackend"
VALKEY = "django_vtasks.backends.valkey.ValkeyTaskBackend"

STORES = [
    "memory",
    "sqlite",
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
    pytest.param("valkey", marks=pytest.mark.valkey),
]


@pytest.fixture(autouse=True)
def ran():
    """What tasks noted."""
    RAN.clear()
    return RAN


@pytest.fixture
def memory(settings):
    """The default alias in memory."""
    settings.TASKS = {"default": {"BACKEND": MEMORY, "QUEUES": []}}
    return task_backends["default"]


@pytest.fixture(params=STORES)
def kit(request, settings, django_db_blocker):
    """The default alias on each store; `database` is the alias of the database, None where there is none."""
    entry = {"BACKEND": MEMORY, "QUEUES": []}
    if request.param == "memory":
        settings.TASKS = {"default": entry}
        yield SimpleNamespace(backend=task_backends["default"], database=None)
        return
    if request.param == "valkey":
        server = request.getfixturevalue("clean_valkey")
        settings.TASKS = {"default": {**entry, "BACKEND": VALKEY, "OPTIONS": {"BROKER_URL": server.url}}}
        yield SimpleNamespace(backend=task_backends["default"], database=None)
        return
    alias = request.getfixturevalue(f"{request.param}_alias")
    settings.TASKS = {"default": {**entry, "BACKEND": DATABASE, "OPTIONS": {"DATABASE": alias}}}
    with django_db_blocker.unblock(), transaction.atomic(using=alias):
        yield SimpleNamespace(backend=task_backends["default"], database=alias)
        transaction.set_rollback(True, using=alias)

"""Backends, chosen per test: over the memory store, or over every store in turn."""

from __future__ import annotations

import pytest
from django.db import connections

from django_vtasks.framework import task_backends
from tests.support import databases
from tests.support.operators import Scene

MEMORY = "tests.support.backends.MemoryBackend"
TRANSACTIONAL = "tests.support.backends.TransactionalBackend"
IMMEDIATE = "django_vtasks.backends.immediate.ImmediateBackend"
DATABASE = "django_vtasks.backends.db.DatabaseTaskBackend"
VALKEY = "django_vtasks.backends.valkey.ValkeyTaskBackend"

STORES = [
    pytest.param("memory"),
    pytest.param("sqlite"),
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
    pytest.param("valkey", marks=pytest.mark.valkey),
    pytest.param("redis", marks=pytest.mark.redis),
]


def entry(backend=MEMORY, **more):
    """A TASKS setting with one alias."""
    return {"default": {"BACKEND": backend, **more}}


@pytest.fixture
def memory(settings):
    """The store behind the default alias, which does not join the caller's transaction."""
    settings.TASKS = entry(MEMORY)
    return task_backends["default"].client_store


@pytest.fixture
def transactional(settings):
    """The same, but it enqueues at once inside transactions."""
    settings.TASKS = entry(TRANSACTIONAL)
    return task_backends["default"].client_store


@pytest.fixture
def immediate(settings):
    """The immediate backend as the default alias."""
    settings.TASKS = entry(IMMEDIATE)
    return task_backends["default"]


@pytest.fixture(params=STORES)
def scene(request, settings, django_db_blocker):
    """An empty store of each kind in turn, behind the alias `default`."""
    kind = request.param
    if kind == "memory":
        settings.TASKS = entry()
        yield Scene.of(task_backends["default"])
    elif kind in ("valkey", "redis"):
        server = request.getfixturevalue(f"clean_{kind}")
        settings.TASKS = entry(VALKEY, QUEUES=[], OPTIONS={"BROKER_URL": server.url})
        yield Scene.of(task_backends["default"])
    else:
        alias = request.getfixturevalue(f"{kind}_alias")
        settings.TASKS = entry(DATABASE, QUEUES=[], OPTIONS={"DATABASE": alias})
        with django_db_blocker.unblock():
            yield Scene.of(task_backends["default"])
            databases.empty(alias)
            connections[alias].close()

"""A worker store tells how many connections it has, and how many it opened."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import valkey
from django.db import connections

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.stores.database.store import DatabaseOptions, DatabaseWorkerStore
from django_vtasks.stores.valkey.store import ValkeyOptions, ValkeyWorkerStore

TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE %s"
)


async def used(store: Any) -> dict[str, tuple[int, int]]:
    """What the store tells after its every connection was used; a call may have met a dead one."""
    try:
        await store.now()
        await store.wait_for_jobs(["default"], 0.05)
        await asyncio.to_thread(store.extend, "alpha", 60)
    except StoreUnavailable:
        pass
    return told(store)


def told(store: Any) -> dict[str, tuple[int, int]]:
    return {use: (known.open, known.opened) for use, known in store.connections().items()}


async def test_a_database_worker_counts_what_it_closed_and_opened_again(database_alias):
    listens = int(connections[database_alias].vendor == "postgresql")
    store = DatabaseWorkerStore(DatabaseOptions(using=database_alias))
    assert told(store) == {"store": (0, 0), "lease": (0, 0), "wait": (0, 0)}
    assert await used(store) == {"store": (1, 1), "lease": (1, 1), "wait": (listens, listens)}
    for thread in (store._thread, store._lease_thread):
        await thread.call(lambda connection: connection.close(), 10)
    assert told(store) == {"store": (0, 1), "lease": (0, 1), "wait": (listens, listens)}
    assert await used(store) == {"store": (1, 2), "lease": (1, 2), "wait": (listens, listens)}
    await store.close()
    assert told(store) == {"store": (0, 2), "lease": (0, 2), "wait": (0, listens)}


@pytest.mark.parametrize("database_alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
async def test_sessions_that_postgresql_ends_are_counted(database_alias):
    def terminate() -> None:
        with connections[database_alias].cursor() as cursor:
            cursor.execute(TERMINATE, ["%vtask%"])
        connections[database_alias].close()

    store = DatabaseWorkerStore(DatabaseOptions(using=database_alias))
    assert await used(store) == dict.fromkeys(("store", "lease", "wait"), (1, 1))
    await asyncio.to_thread(terminate)
    async with asyncio.timeout(20):
        while await used(store) != dict.fromkeys(("store", "lease", "wait"), (1, 2)):
            assert all(opened <= 2 for _, opened in told(store).values())
    await store.close()


async def test_connections_that_valkey_ends_are_counted(keyvalue_server):
    store = ValkeyWorkerStore(ValkeyOptions(urls=(keyvalue_server.url,)))
    await store.open()
    assert told(store) == {"store": (1, 1), "lease": (0, 0), "wait": (0, 0)}
    assert await used(store) == dict.fromkeys(("store", "lease", "wait"), (1, 1))
    with valkey.Valkey.from_url(keyvalue_server.url) as raw:
        raw.client_kill_filter(_type="normal", skipme=True)
    async with asyncio.timeout(20):
        while await used(store) != dict.fromkeys(("store", "lease", "wait"), (1, 2)):
            assert all(opened <= 2 for _, opened in told(store).values())
    await store.close()
    assert told(store) == dict.fromkeys(("store", "lease", "wait"), (0, 2))

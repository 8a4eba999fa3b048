"""A bench over each store. The store is as it was left: who needs it empty, empties it."""

from __future__ import annotations

import datetime
import uuid

import valkey
from asgiref.sync import sync_to_async
from django.db import connections

from django_vtasks.stores.memory import MemoryStore
from tests.stores.bench import Bench
from tests.support.clock import FakeClock

CAP = 10
"""Dead letters that a store keeps, unless told otherwise."""


async def memory_bench(cap: int = CAP) -> Bench:
    """A bench over a new memory store."""
    clock = FakeClock()
    store = MemoryStore(clock, dead_letter_cap=cap)
    return Bench(
        client=store,
        worker=store,
        admin_store=store,
        clock=clock,
        put_raw=store.inject,
        new_worker=lambda: store,
        dead_letter_cap=cap,
    )


async def valkey_bench(url: str, cap: int = CAP) -> Bench:
    """A bench over a Valkey or Redis server."""
    from django_vtasks.stores.valkey.store import (
        ValkeyAdminStore,
        ValkeyClientStore,
        ValkeyOptions,
        ValkeyWorkerStore,
    )

    clock = FakeClock()
    options = ValkeyOptions(urls=(url,), dead_letter_cap=cap, clock=clock)
    client = ValkeyClientStore(options)
    admin = ValkeyAdminStore(options)
    raw = valkey.Valkey.from_url(url)

    def close() -> None:
        client.close()
        admin.close()
        raw.close()

    return Bench(
        client=client,
        worker=ValkeyWorkerStore(options),
        admin_store=admin,
        clock=clock,
        put_raw=lambda queue, payload: raw.lpush(f"{options.prefix}q:{queue}", payload),
        new_worker=lambda: ValkeyWorkerStore(options),
        shift=lambda seconds: _shift_expiries(raw, seconds),
        end_thread=close,
        dead_letter_cap=cap,
    )


async def database_bench(alias: str, cap: int = CAP) -> Bench:
    """A bench over a migrated database."""
    from django_vtasks.stores.database.store import (
        DatabaseAdminStore,
        DatabaseClientStore,
        DatabaseOptions,
        DatabaseWorkerStore,
    )

    clock = FakeClock()
    options = DatabaseOptions(using=alias, dead_letter_cap=cap, clock=clock)
    return Bench(
        client=DatabaseClientStore(options),
        worker=DatabaseWorkerStore(options),
        admin_store=DatabaseAdminStore(options),
        clock=clock,
        put_raw=lambda queue, payload: _insert_row(alias, clock(), queue, payload),
        new_worker=lambda: DatabaseWorkerStore(options),
        end_thread=lambda: connections[alias].close(),
        dead_letter_cap=cap,
    )


async def close_database(alias: str) -> None:
    """Close the connection that the async half of the client store used, so that the database can be dropped."""
    await sync_to_async(lambda: connections[alias].close())()


def _shift_expiries(raw: valkey.Valkey, seconds: float) -> None:
    """Let the time of every key that the server expires by its own clock pass as well."""
    for key in list(raw.scan_iter(count=1000)):
        left = raw.pttl(key)
        if left > 0:
            raw.pexpire(key, int(left - seconds * 1000))


def _insert_row(alias: str, now: float, queue: str, payload: bytes) -> None:
    """Insert the nine columns that producers in other languages write."""
    from django_vtasks.db.models import QueuedTask

    row = QueuedTask(id=uuid.uuid4(), queue=queue, data=payload, status="QUEUED", priority=0)
    row.save(using=alias, force_insert=True)
    created_at = datetime.datetime.fromtimestamp(now, datetime.UTC)
    QueuedTask.objects.using(alias).filter(pk=row.pk).update(created_at=created_at)

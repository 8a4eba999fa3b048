"""The contract on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import datetime
import uuid

import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from django_vtasks.stores.database.store import (
    DatabaseAdminStore,
    DatabaseClientStore,
    DatabaseOptions,
    DatabaseWorkerStore,
)
from tests.stores.bench import Bench
from tests.stores.contract import *  # noqa: F403
from tests.support.clock import FakeClock


@pytest.fixture
async def store(database_alias):
    clock = FakeClock()
    options = DatabaseOptions(using=database_alias, dead_letter_cap=10, clock=clock)
    bench = Bench(
        client=DatabaseClientStore(options),
        worker=DatabaseWorkerStore(options),
        admin_store=DatabaseAdminStore(options),
        clock=clock,
        put_raw=lambda queue, payload: insert_row(database_alias, clock(), queue, payload),
        new_worker=lambda: DatabaseWorkerStore(options),
        end_thread=lambda: connections[database_alias].close(),
        dead_letter_cap=10,
    )
    yield bench
    await bench.close()
    await sync_to_async(lambda: connections[database_alias].close())()


def insert_row(alias: str, now: float, queue: str, payload: bytes) -> None:
    """Insert the nine columns that producers in other languages write."""
    from django_vtasks.db.models import QueuedTask

    row = QueuedTask(id=uuid.uuid4(), queue=queue, data=payload, status="QUEUED", priority=0)
    row.save(using=alias, force_insert=True)
    created_at = datetime.datetime.fromtimestamp(now, datetime.UTC)
    QueuedTask.objects.using(alias).filter(pk=row.pk).update(created_at=created_at)

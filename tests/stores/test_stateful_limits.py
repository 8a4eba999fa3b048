"""Random operations on jobs with limits, with crash points, on every store."""

from __future__ import annotations

import asyncio

import pytest

from tests.stores.benches import close_database, database_bench, memory_bench, valkey_bench
from tests.stores.limits_machine import check_limits
from tests.support import databases

pytestmark = pytest.mark.timeout(600)


def test_the_memory_store_keeps_limits():
    check_limits(memory_bench, examples=60)


def test_valkey_and_redis_keep_limits(keyvalue_server):
    async def open_bench():
        keyvalue_server.flush()
        return await valkey_bench(keyvalue_server.url)

    check_limits(open_bench, examples=12)


def test_the_databases_keep_limits(database_alias):
    async def open_bench():
        await asyncio.to_thread(databases.empty, database_alias)
        return await database_bench(database_alias)

    check_limits(open_bench, examples=6)
    asyncio.run(close_database(database_alias))

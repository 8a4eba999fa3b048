"""Random operations with crash points: every store must agree with the memory store."""

from __future__ import annotations

import asyncio

import pytest

from tests.stores.benches import close_database, database_bench, memory_bench, valkey_bench
from tests.stores.stateful import check_store
from tests.support import databases

FEW = 3
"""Dead letters kept, so that some are evicted."""

pytestmark = pytest.mark.timeout(600)


def test_the_memory_store_agrees_with_itself():
    """Shows that the machine follows what a store may choose, and that crash points are harmless."""
    check_store(lambda: memory_bench(FEW), examples=40)


def test_valkey_and_redis_agree_with_the_model(keyvalue_server):
    async def open_bench():
        keyvalue_server.flush()
        return await valkey_bench(keyvalue_server.url, FEW)

    check_store(open_bench, examples=40)


def test_the_databases_agree_with_the_model(database_alias):
    async def open_bench():
        await asyncio.to_thread(databases.empty, database_alias)
        return await database_bench(database_alias, FEW)

    check_store(open_bench, examples=15)
    asyncio.run(close_database(database_alias))

"""The contract on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import pytest

from tests.stores.benches import close_database, database_bench
from tests.stores.contract import *  # noqa: F403


@pytest.fixture
async def store(database_alias):
    bench = await database_bench(database_alias)
    yield bench
    await bench.close()
    await close_database(database_alias)

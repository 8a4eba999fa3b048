"""The contract on Valkey 8 and Redis 7."""

from __future__ import annotations

import pytest

from tests.stores.benches import valkey_bench
from tests.stores.contract import *  # noqa: F403


@pytest.fixture
async def store(keyvalue_server):
    bench = await valkey_bench(keyvalue_server.url)
    yield bench
    await bench.close()

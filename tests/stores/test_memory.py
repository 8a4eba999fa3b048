"""The contract on the memory store."""

from __future__ import annotations

import pytest

from tests.stores.benches import memory_bench
from tests.stores.contract import *  # noqa: F403


@pytest.fixture
async def store():
    bench = await memory_bench()
    yield bench
    await bench.close()

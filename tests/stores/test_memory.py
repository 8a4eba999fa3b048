"""The contract on the memory store, and what only it promises."""

from __future__ import annotations

import pytest

from django_vtasks.stores.memory import MemoryStore
from tests.stores.bench import Bench
from tests.stores.contract import *  # noqa: F403
from tests.support.clock import FakeClock


@pytest.fixture
async def store():
    clock = FakeClock()
    memory = MemoryStore(clock, dead_letter_cap=10)
    bench = Bench(
        client=memory,
        worker=memory,
        admin_store=memory,
        clock=clock,
        put_raw=memory.inject,
        new_worker=lambda: memory,
        dead_letter_cap=10,
    )
    yield bench
    await bench.close()

"""The thread that runs a store's statements: who waits for one that is given up is told at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.stores.database.threads import DatabaseThread
from tests.support.waiting import DEADLINE


@pytest.fixture
def hung():
    """What a server that does not answer is like: work that ends with the test."""
    released = threading.Event()
    yield lambda _: released.wait(60)
    released.set()


@pytest.fixture
def thread():
    thread = DatabaseThread("default", "test")
    yield thread
    thread.close()


async def test_who_waits_behind_a_call_that_is_given_up_is_told_with_it(thread, hung):
    first = asyncio.create_task(thread.call(hung, 0.05))
    await asyncio.sleep(0)
    second = asyncio.create_task(thread.call(lambda _: "never run", 10 * DEADLINE))
    async with asyncio.timeout(DEADLINE):
        for call in (first, second):
            with pytest.raises(StoreUnavailable, match="did not answer"):
                await call
    assert await thread.call(lambda _: "answer", DEADLINE) == "answer"

"""The contract on Valkey 8 and Redis 7."""

from __future__ import annotations

import pytest
import valkey

from django_vtasks.stores.valkey.store import (
    ValkeyAdminStore,
    ValkeyClientStore,
    ValkeyOptions,
    ValkeyWorkerStore,
)
from tests.stores.bench import Bench
from tests.stores.contract import *  # noqa: F403
from tests.support.clock import FakeClock


@pytest.fixture
async def store(keyvalue_server):
    clock = FakeClock()
    options = ValkeyOptions(urls=(keyvalue_server.url,), dead_letter_cap=10, clock=clock)
    client = ValkeyClientStore(options)
    with valkey.Valkey.from_url(keyvalue_server.url) as raw:
        bench = Bench(
            client=client,
            worker=ValkeyWorkerStore(options),
            admin_store=ValkeyAdminStore(options),
            clock=clock,
            put_raw=lambda queue, payload: raw.lpush(f"{options.prefix}q:{queue}", payload),
            new_worker=lambda: ValkeyWorkerStore(options),
            shift=lambda seconds: shift_expiries(raw, seconds),
            dead_letter_cap=10,
        )
        yield bench
        await bench.close()
        client.close()


def shift_expiries(raw: valkey.Valkey, seconds: float) -> None:
    """Let the time of every key that the server expires by its own clock pass as well."""
    for key in list(raw.scan_iter(count=1000)):
        left = raw.pttl(key)
        if left > 0:
            raw.pexpire(key, int(left - seconds * 1000))

"""Handing back without the event loop: for a process that ends while its loop is blocked or gone."""

import asyncio
import os
from typing import Any

from ..jobs.transitions import Settlement
from .worker import Worker

RELEASE_SECONDS = 1.0
"""Seconds that the end of the lease may take to be written."""


def hand_back(worker: Worker) -> None:
    """Hand back what a worker has, without its event loop: what is finished is settled, the rest goes to its queue.

    Then the lease ends, and with it the worker is gone from the list of those that live.
    """
    runtime = worker.runtime
    if runtime is None or runtime.pid != os.getpid():
        return  # A process that a task forked has a copy of the worker, and none of its jobs.
    runtime.attempts.return_rest()
    settlements = runtime.settler.take_all()
    if settlements:
        asyncio.run(_settle(worker.backend.new_worker_store(), settlements))
    runtime.keeper.end()
    runtime.keeper.join(RELEASE_SECONDS)


async def _settle(store: Any, settlements: list[Settlement]) -> None:
    try:
        async with asyncio.timeout(2.0):
            await store.open()
            await store.exchange(settlements, None)
    finally:
        try:
            await store.close()
        except RuntimeError:
            pass  # The interpreter ends and gives no thread any more; the process takes the connections along.

"""Handing back without the event loop: for a process that ends while its loop is blocked or gone."""

import asyncio
from typing import Any

from ..jobs.transitions import Settlement
from .worker import Worker


def hand_back(worker: Worker) -> None:
    """Hand back what a worker has, without its event loop: what is finished is settled, the rest goes to its queue."""
    runtime = worker.runtime
    if runtime is None:
        return
    runtime.attempts.return_rest()
    settlements = runtime.settler.take_all()
    if settlements:
        asyncio.run(_settle(worker.backend.new_worker_store(), settlements))


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

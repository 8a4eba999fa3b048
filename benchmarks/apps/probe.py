"""Notes in shared files when each job ran, from any thread or process of a worker. Standard library only."""

import asyncio
import mmap
import os
import time
from pathlib import Path

_FOLDER = Path(os.environ["BENCH_FOLDER"])


def _mapped(name: str) -> memoryview:
    with (_FOLDER / name).open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 0))


_ENDS = _mapped("ends").cast("d")
_DELAYS = _mapped("delays").cast("d")
_RUNS = _mapped("runs")


def noop(number: int) -> None:
    """Job `number` ran."""
    _RUNS[number] += 1
    _ENDS[number] = time.monotonic()


def lat(number: int, sent: float) -> None:
    """Job `number`, enqueued at `sent` on the system-wide monotonic clock, began."""
    _DELAYS[number] = time.monotonic() - sent
    noop(number)


async def asleep(number: int) -> None:
    """Job `number` waits for 10 ms, as for an answer from the network."""
    await asyncio.sleep(0.01)
    noop(number)


def sleep(number: int) -> None:
    """The same in a thread."""
    time.sleep(0.01)
    noop(number)

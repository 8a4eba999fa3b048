"""Calls a peer's module: `drive.py MODULE setup`, or `enqueue|load|pace TASK COUNT`; prints what it took as JSON."""

import asyncio
import importlib
import inspect
import json
import sys
import time

WARM_UP = 20
PACE = 0.02


def main(module_name, operation, task="", count="0"):
    """Do it."""
    module = importlib.import_module(module_name)
    if operation == "setup":
        module.setup()
        return
    numbers = list(range(int(count)))
    if hasattr(module, "aenqueue"):
        seconds = asyncio.run(_asynchronously(module, operation, task, numbers))
    else:
        seconds = _synchronously(module, operation, task, numbers)
    print(json.dumps({"seconds": seconds}))


def _synchronously(module, operation, task, numbers):
    getattr(module, "open_", lambda: None)()
    for number in range(len(numbers), len(numbers) + WARM_UP if operation == "enqueue" else 0):
        module.enqueue(task, number)
    began = time.perf_counter()
    if operation == "load" and hasattr(module, "load"):
        module.load(task, numbers)
    else:
        for number in numbers:
            if operation == "pace":
                time.sleep(PACE)
                module.enqueue(task, number, time.monotonic())
            else:
                module.enqueue(task, number)
    seconds = time.perf_counter() - began
    getattr(module, "close", lambda: None)()
    return seconds


async def _asynchronously(module, operation, task, numbers):
    """For the peers that have no other way: one `await` after another."""
    await module.aopen()
    for number in range(len(numbers), len(numbers) + WARM_UP if operation == "enqueue" else 0):
        await module.aenqueue(task, number)
    began = time.perf_counter()
    if operation == "load" and hasattr(module, "aload"):
        await module.aload(task, numbers)
    else:
        for number in numbers:
            if operation == "pace":
                await asyncio.sleep(PACE)
                await module.aenqueue(task, number, time.monotonic())
            else:
                await module.aenqueue(task, number)
    seconds = time.perf_counter() - began
    closing = module.aclose()
    if inspect.isawaitable(closing):
        await closing
    return seconds


main(*sys.argv[1:])

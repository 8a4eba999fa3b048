"""The tasks for procrastinate."""

import asyncio
import os

import tally
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_URL"]), import_paths=["procrastinate_app"])


@app.task(name="noop_async", queue="default")
async def noop_async(number):
    tally.noop(number)


@app.task(name="noop_sync", queue="default")
def noop_sync(number):
    tally.noop(number)


def setup():
    """Make the tables."""

    async def apply():
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(apply())


def open_():
    """Connect."""
    app.open()


def enqueue(name, number):
    """One job."""
    globals()[name].defer(number=number)


def load(name, numbers):
    """Many jobs, however it goes fastest."""
    for first in range(0, len(numbers), 1000):
        globals()[name].batch_defer(*({"number": n} for n in numbers[first : first + 1000]))

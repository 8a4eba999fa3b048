"""The tasks for procrastinate."""

import asyncio
import os

import probe
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_URL"]), import_paths=["procrastinate_app"])


@app.task(name="noop_async", queue="default")
async def noop_async(number):
    probe.noop(number)


@app.task(name="noop_sync", queue="default")
def noop_sync(number):
    probe.noop(number)


@app.task(name="sleep_async", queue="default")
async def sleep_async(number):
    await probe.asleep(number)


@app.task(name="lat_async", queue="default")
async def lat_async(number, sent):
    probe.lat(number, sent)


def setup():
    """Make the tables."""

    async def apply():
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(apply())


def open_():
    """Connect."""
    app.open()


def close():
    """Disconnect."""
    app.close()


def enqueue(name, number, *sent):
    """One job."""
    globals()[name].defer(number=number, **({"sent": sent[0]} if sent else {}))


def load(name, numbers):
    """Many jobs, however it goes fastest."""
    for first in range(0, len(numbers), 1000):
        globals()[name].batch_defer(*({"number": n} for n in numbers[first : first + 1000]))

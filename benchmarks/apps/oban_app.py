"""The jobs for Oban; it is enqueued from coroutines, and runs functions on its event loop."""

import asyncio
import os

import probe
from oban import Oban, job

pool = client = None


@job()
async def noop_async(number):
    probe.noop(number)


@job()
def noop_sync(number):
    probe.noop(number)


@job()
async def sleep_async(number):
    await probe.asleep(number)


@job()
async def lat_async(number, sent):
    probe.lat(number, sent)


def setup():
    """Make the tables."""
    from oban.schema import install

    async def apply():
        made = await Oban.create_pool(dsn=os.environ["BENCH_URL"])
        await install(made)
        await made.close()

    asyncio.run(apply())


async def aopen():
    """Connect."""
    global pool, client
    pool = await Oban.create_pool(dsn=os.environ["BENCH_URL"])
    client = Oban(pool=pool)
    await client.start()


async def aclose():
    """Disconnect."""
    await client.stop()
    await pool.close()


async def aenqueue(name, *args):
    """One job."""
    # `new` and not the task's own `enqueue`, which in 0.7.0 nests the arguments twice.
    await client.enqueue(globals()[name].new(*args))


async def aload(name, numbers):
    """Many jobs, however it goes fastest."""
    await client.enqueue_many([globals()[name].new(n) for n in numbers])

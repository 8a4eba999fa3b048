"""The tasks for chancy."""

import asyncio
import logging
import os

import probe
from chancy import Chancy, Job, Queue

log = logging.getLogger("chancy")
log.setLevel(logging.WARNING)
chancy = Chancy(os.environ["BENCH_URL"], log=log)


async def noop_async(*, number):
    probe.noop(number)


def noop_sync(*, number):
    probe.noop(number)


async def sleep_async(*, number):
    await probe.asleep(number)


async def lat_async(*, number, sent):
    probe.lat(number, sent)


def setup():
    """Make the tables and declare the queue: coroutines in one executor, functions in another."""

    async def apply():
        async with chancy:
            await chancy.migrate()
            threads = os.environ["BENCH_KIND"] == "sync"
            executor = Chancy.Executor.Threaded if threads else Chancy.Executor.Async
            size = int(os.environ["BENCH_THREADS" if threads else "BENCH_CONCURRENCY"])
            queue = Queue("default", concurrency=size, executor=executor, eager_polling=True)
            await chancy.declare(queue, upsert=True)

    asyncio.run(apply())


def open_():
    """Connect."""
    chancy.__enter__()


def close():
    """Disconnect."""
    chancy.__exit__(None, None, None)


def _job(name, number, *sent):
    return Job(func=f"chancy_app.{name}", kwargs={"number": number, **({"sent": sent[0]} if sent else {})})


def enqueue(name, *args):
    """One job."""
    chancy.sync_push(_job(name, *args))


def load(name, numbers):
    """Many jobs, however it goes fastest."""
    for _ in chancy.sync_push_many([_job(name, n) for n in numbers]):
        pass

"""The tasks for Taskiq on a Redis stream, the broker of it that acknowledges; it is enqueued from coroutines."""

import os

import probe
from taskiq_redis import RedisStreamBroker

# "0": jobs that were sent before the consumer group existed count too.
broker = RedisStreamBroker(os.environ["BENCH_URL"], queue_name="default", consumer_id="0")


@broker.task
async def noop_async(number: int) -> None:
    probe.noop(number)


@broker.task
def noop_sync(number: int) -> None:
    probe.noop(number)


@broker.task
async def sleep_async(number: int) -> None:
    await probe.asleep(number)


@broker.task
async def lat_async(number: int, sent: float) -> None:
    probe.lat(number, sent)


def setup():
    """Nothing to make."""


async def aopen():
    """Connect."""
    await broker.startup()


async def aclose():
    """Disconnect."""
    await broker.shutdown()


async def aenqueue(name, *args):
    """One job."""
    await globals()[name].kiq(*args)

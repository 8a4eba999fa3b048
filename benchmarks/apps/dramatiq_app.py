"""The actors for Dramatiq; coroutines through its AsyncIO middleware."""

import os

import dramatiq
import probe
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware.asyncio import AsyncIO

broker = RedisBroker(url=os.environ["BENCH_URL"])
broker.add_middleware(AsyncIO())
dramatiq.set_broker(broker)


@dramatiq.actor
async def noop_async(number):
    probe.noop(number)


@dramatiq.actor
def noop_sync(number):
    probe.noop(number)


@dramatiq.actor
async def sleep_async(number):
    await probe.asleep(number)


@dramatiq.actor
async def lat_async(number, sent):
    probe.lat(number, sent)


def setup():
    """Nothing to make."""


def enqueue(name, *args):
    """One job."""
    globals()[name].send(*args)

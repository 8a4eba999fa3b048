"""The tasks for Huey; it runs no coroutines."""

import logging
import os

import probe
from huey import RedisHuey

logging.getLogger("huey").setLevel(logging.WARNING)
huey = RedisHuey("default", url=os.environ["BENCH_URL"], results=False)


@huey.task()
def noop_sync(number):
    probe.noop(number)


@huey.task()
def sleep_sync(number):
    probe.sleep(number)


@huey.task()
def lat_sync(number, sent):
    probe.lat(number, sent)


def setup():
    """Nothing to make."""


def enqueue(name, *args):
    """One job."""
    globals()[name](*args)

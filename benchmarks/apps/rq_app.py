"""The tasks for RQ; it runs no coroutines."""

import os

import probe
from redis import Redis
from rq import Queue

queue = Queue("default", connection=Redis.from_url(os.environ["BENCH_URL"]))


def noop_sync(number):
    probe.noop(number)


def sleep_sync(number):
    probe.sleep(number)


def lat_sync(number, sent):
    probe.lat(number, sent)


def setup():
    """Nothing to make."""


def enqueue(name, *args):
    """One job."""
    queue.enqueue(f"rq_app.{name}", *args, result_ttl=0)


def load(name, numbers):
    """Many jobs, however it goes fastest."""
    queue.enqueue_many([Queue.prepare_data(f"rq_app.{name}", args=(n,), result_ttl=0) for n in numbers])

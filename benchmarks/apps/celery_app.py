"""The tasks for Celery; it runs no coroutines."""

import os

import probe
from celery import Celery

app = Celery("celery_app", broker=os.environ["BENCH_URL"])
app.conf.update(
    task_ignore_result=True,
    task_default_queue="default",
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
)


@app.task
def noop_sync(number):
    probe.noop(number)


@app.task
def sleep_sync(number):
    probe.sleep(number)


@app.task
def lat_sync(number, sent):
    probe.lat(number, sent)


def setup():
    """Nothing to make."""


def enqueue(name, *args):
    """One job."""
    globals()[name].delay(*args)

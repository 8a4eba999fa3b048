"""The tasks for Celery; it runs no coroutines."""

import os

import tally
from celery import Celery

app = Celery("celery_app", broker=os.environ["BENCH_URL"])
app.conf.update(task_ignore_result=True, task_default_queue="default", worker_send_task_events=False)


@app.task
def noop_sync(number):
    tally.noop(number)


def setup():
    """Nothing to make."""


def enqueue(name, number):
    """One job."""
    globals()[name].delay(number)


def load(name, numbers):
    """Many jobs, one by one: there is no other way."""
    for number in numbers:
        enqueue(name, number)

"""The tasks of this project and of the 3.2 line."""

import django
from django.apps import apps

if not apps.ready:
    django.setup()

import probe
from django.core.management import call_command
from django.tasks import task_backends

from django_vtasks import task


@task
async def noop_async(number):
    probe.noop(number)


@task
def noop_sync(number):
    probe.noop(number)


@task
async def sleep_async(number):
    await probe.asleep(number)


@task
async def lat_async(number, sent):
    probe.lat(number, sent)


def setup():
    """Make the tables."""
    call_command("migrate", verbosity=0)


def enqueue(name, *args):
    """One job."""
    globals()[name].enqueue(*args)


def load(name, numbers):
    """Many jobs, however it goes fastest."""
    chosen = globals()[name]
    for first in range(0, len(numbers), 1000):
        task_backends["default"].enqueue_many([(chosen, (n,), {}) for n in numbers[first : first + 1000]])

"""The tasks of this project and of the 3.2 line."""

import django
from django.apps import apps

if not apps.ready:
    django.setup()

import tally
from django.core.management import call_command
from django.tasks import task_backends

from django_vtasks import task


@task
async def noop_async(number):
    tally.noop(number)


@task
def noop_sync(number):
    tally.noop(number)


def setup():
    """Make the tables."""
    call_command("migrate", verbosity=0)


def enqueue(name, number):
    """One job."""
    globals()[name].enqueue(number)


def load(name, numbers):
    """Many jobs, however it goes fastest."""
    chosen = globals()[name]
    for first in range(0, len(numbers), 1000):
        task_backends["default"].enqueue_many([(chosen, (n,), {}) for n in numbers[first : first + 1000]])

"""Tasks of the tests of Sentry."""

from __future__ import annotations

from django_vtasks import task
from django_vtasks.exceptions import Discard, Retry, Snooze
from tests.support.waiting import aeventually


class Boom(Exception):
    """What the tasks raise."""


@task()
def fail():
    """Raise, in a thread."""
    raise Boom("in a thread")


@task()
async def afail():
    """Raise, on the event loop."""
    raise Boom("on the loop")


@task(max_attempts=3, backoff=0)
def fail_at_last():
    """Raise in each of three attempts."""
    raise Boom("again")


@task(max_attempts=2, backoff=0, takes_context=True)
def recover(context):
    """Raise in the first attempt only."""
    if context.attempt == 1:
        raise Boom("once")


@task(max_attempts=2, takes_context=True)
def retry(context):
    """Ask for another attempt, once."""
    if context.attempt == 1:
        raise Retry(delay=0)


@task()
def discard():
    """Ask to be forgotten."""
    raise Discard("enough")


@task()
def snooze():
    """Ask to be left alone for long."""
    raise Snooze(3600)


@task()
def succeed():
    """Do nothing."""


@task()
async def endless():
    """Run until it is cancelled."""
    await aeventually(lambda: False, within=60)


@task(redact=["iban"])
def pay(amount, iban, password=None):
    """Raise with secrets in arguments, local variables, message and cause."""
    account = {"iban": iban, "user": "olga"}
    try:
        raise KeyError(iban)
    except KeyError as error:
        raise Boom(f"cannot move {amount} to {account['iban']}") from error


@task(redact=["iban"])
async def apay(amount, iban, password=None):
    """As `pay`, on the loop."""
    account = {"iban": iban, "user": "olga"}
    raise Boom(f"cannot move {amount} to {account['iban']}")

"""Tasks of the tests of traces."""

from __future__ import annotations

import asyncio

from django_vtasks import task
from django_vtasks.exceptions import Discard, Retry, Snooze


@task()
def work(value=None):
    """Return what it was given, from a thread."""
    return value


@task()
async def awork(value=None):
    """Return what it was given, from the event loop."""
    return value


@task()
def carried():
    """Return what came along with the trace."""
    from opentelemetry import baggage

    return baggage.get_baggage("tenant")


@task()
def parent():
    """Enqueue another job."""
    work.enqueue("child")


@task(max_attempts=2, backoff=0)
def fail():
    """Raise, twice."""
    raise ValueError("no")


@task(max_attempts=2)
def retry():
    """Ask for another attempt at once, twice."""
    raise Retry(delay=0)


@task()
async def discard():
    """Ask to be forgotten."""
    raise Discard("enough")


@task()
def snooze():
    """Ask to be left alone for long."""
    raise Snooze(3600)


@task()
def batch(members):
    """Take members together."""


@task(timeout=0.01)
async def hang():
    """Wait for what never comes."""
    await asyncio.Event().wait()


@task(takes_context=True)
async def cancel_itself(context):
    """Ask for its own cancellation, and wait for it."""
    await context.task_result.acancel()
    await asyncio.Event().wait()

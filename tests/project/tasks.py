"""Tasks that the tests enqueue."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import threading
from pathlib import Path

from asgiref.sync import sync_to_async

from django_vtasks import task
from tests.project.models import Effect
from tests.support.waiting import aeventually, eventually


@task()
async def add(a, b):
    """Return the sum, from the event loop."""
    return a + b


@task()
def add_in_thread(a, b):
    """Return the sum, from a thread."""
    return a + b


@task()
def echo(value=None):
    """Return what it was given."""
    return value


@task()
def record(label):
    """Leave a row that says so."""
    Effect.objects.create(label=label, pid=os.getpid())


@task()
async def arecord(label):
    """Leave a row that says so, from the event loop."""
    await Effect.objects.acreate(label=label, pid=os.getpid())


@task()
def fail(message="this task fails"):
    """Raise a ValueError."""
    raise ValueError(message)


@task()
async def afail(message="this task fails"):
    """Raise a ValueError, from the event loop."""
    raise ValueError(message)


@task()
def hold(path, within=60):
    """Say that it started by making `<path>.started`, and run until `path` exists; leave an effect in the end."""
    Path(f"{path}.started").touch()
    eventually(Path(path).exists, within=within)
    Effect.objects.create(label=f"held {path}", pid=os.getpid())


@task()
async def ahold(path, within=60):
    """As `hold`, on the event loop."""
    Path(f"{path}.started").touch()
    await aeventually(Path(path).exists, within=within)
    await sync_to_async(Effect.objects.create)(label=f"held {path}", pid=os.getpid())


@task(takes_context=True)
def attempt_number(context):
    """Return which attempt this is."""
    return context.attempt


@task()
async def block_the_loop(path, within=60):
    """Say that it started, and keep the event loop from turning until `path` exists."""
    Path(f"{path}.started").touch()
    eventually(Path(path).exists, within=within)


@task(max_rescues=3)
def record_slowly(label, path):
    """As `record`, but not before `path` exists; may be rescued."""
    Path(f"{path}.{os.getpid()}.started").touch()
    eventually(Path(path).exists, within=60)
    Effect.objects.create(label=label, pid=os.getpid())


@task()
def wait_for(path, within=60):
    """Say that it started, and end when `path` exists."""
    Path(f"{path}.started").touch()
    eventually(Path(path).exists, within=within)


@task(takes_context=True)
def tell(context, message):
    """Report progress and end."""
    context.progress(1, 1, message)


@task(takes_context=True)
async def tell_and_wait(context, message, within=60):
    """Report progress and wait to be cancelled."""
    context.progress(1, 2, message)
    await aeventually(lambda: False, within=within)


def wait_for_ever():
    threading.Event().wait()


@task
def leave_a_process_behind(path):
    """Start a process that never ends, and which Python would wait for."""
    child = multiprocessing.get_context("fork").Process(target=wait_for_ever)
    child.start()
    Path(f"{path}.started").touch()


@task
def end_processes():
    """Start ten processes, one after the other, and end each while it still starts."""
    for _ in range(10):
        child = multiprocessing.get_context("fork").Process(target=wait_for_ever)
        child.start()
        child.terminate()
        child.join()


@task
async def wait_in_a_thread(path):
    """Wait in a thread of asyncio, which does not end with the coroutine."""
    Path(f"{path}.started").touch()
    await asyncio.to_thread(wait_for_ever)


@task
async def take_no_cancellation(path):
    """Go on whatever happens."""
    Path(f"{path}.started").touch()
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

"""The tasks that scenarios feed. Each notes its runs in the ledger and returns the nonce of the run."""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
import time

from django_vtasks import Concurrency, Rate, task
from gauntlet.ledger import VARIABLE, noted

RESCUES = 5
#: Pieces of 16 MiB that `eat_memory` takes at most.
MOST_EATEN = 24


class FirstTry(Exception):
    """Raised by `fail_once` the first time a job gets that far."""


@task(takes_context=True, max_rescues=RESCUES)
async def work(context, label, seconds):
    """Take some time on the event loop."""
    with _noted(context, label) as nonce:
        await asyncio.sleep(seconds)
    return nonce


@task(takes_context=True, max_rescues=RESCUES)
def work_in_thread(context, label, seconds):
    """Take some time in a thread."""
    with _noted(context, label) as nonce:
        time.sleep(seconds)
    return nonce


@task(takes_context=True, max_rescues=RESCUES, unique=True, unique_key="gauntlet:{label}")
async def work_alone(context, label, seconds):
    """As `work`, with a unique key until it is done."""
    with _noted(context, label) as nonce:
        await asyncio.sleep(seconds)
    return nonce


@task(takes_context=True, max_rescues=0)
async def work_once(context, label, seconds):
    """As `work`; must never run twice, so a crash makes it a dead letter."""
    with _noted(context, label) as nonce:
        await asyncio.sleep(seconds)
    return nonce


@task(takes_context=True, max_rescues=RESCUES, max_attempts=2, backoff=0.2)
async def fail_once(context, label, seconds):
    """Raise the first time, succeed the second."""
    with _noted(context, label) as nonce:
        await asyncio.sleep(seconds)
        if _first_time(context.task_result.id):
            raise FirstTry(label)
    return nonce


@task(queue_name="bulk", max_rescues=RESCUES)
async def work_together(jobs):
    """Take some time for a whole batch."""
    open_runs = [noted(job["id"], job.get("ext", {}).get("starts", 0) + 1, job["args"][0]) for job in jobs]
    for run in open_runs:
        run.__enter__()
    try:
        await asyncio.sleep(max(job["args"][1] for job in jobs))
    except BaseException as error:
        for run in open_runs:
            _raise_into(run, error)
        raise
    for run in open_runs:
        run.__exit__(None, None, None)


@task(takes_context=True, max_rescues=RESCUES)
async def block_the_loop(context, label, seconds):
    """Keep the event loop from turning."""
    with _noted(context, label) as nonce:
        time.sleep(seconds)  # noqa: ASYNC251 - the fault
    return nonce


@task(takes_context=True, max_rescues=2)
def kill_the_process(context, label, seconds):
    """End the process that runs it, as a crash in a C extension would."""
    with _noted(context, label):
        time.sleep(seconds)
        os._exit(139)


@task(takes_context=True, max_rescues=2)
def segfault(context, label, seconds):
    """Read where nothing is."""
    with _noted(context, label):
        time.sleep(seconds)
        ctypes.string_at(0)


@task(takes_context=True, max_rescues=2)
def eat_memory(context, label, seconds):
    """Take more and more memory, until somebody ends the process."""
    with _noted(context, label):
        held = []
        while len(held) < MOST_EATEN:
            held.append(b"x" * 2**24)
            time.sleep(seconds / 10)
        threading.Event().wait()


@task(takes_context=True, max_rescues=20, limit=Concurrency(3, key="gauntlet:{key}"))
async def work_keyed(context, label, seconds, key):
    """As `work`; at most three of a key at once."""
    with _noted(context, label) as nonce:
        await asyncio.sleep(seconds)
    return nonce


@task(takes_context=True, max_rescues=20, rate=Rate(5, per=1.0, burst=2))
async def work_paced(context, label, seconds):
    """As `work`; at most five start in a second."""
    with _noted(context, label) as nonce:
        await asyncio.sleep(seconds)
    return nonce


@task(takes_context=True, max_rescues=20)
async def work_in_queue(context, label, seconds):
    """As `work`, for queues that have limits."""
    with _noted(context, label) as nonce:
        await asyncio.sleep(seconds)
    return nonce


@task(takes_context=True, result_ttl=0)
def tick(context, label):
    """What a schedule entry fires. It leaves nothing behind by which a slot that is fired again would be known."""
    with _noted(context, label) as nonce:
        pass
    return nonce


def _noted(context, label):
    return noted(str(context.task_result.id), context.attempt, label)


def _first_time(job_id):
    try:
        os.close(os.open(f"{os.environ[VARIABLE]}.{job_id}.tried", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _raise_into(run, error):
    try:
        run.__exit__(type(error), error, error.__traceback__)
    except BaseException as same:
        if same is not error:
            raise

"""Tasks that the tests of the test kit enqueue. What ran is noted in `RAN`."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from django_vtasks import BatchResult, Discard, Rate, Retry, Snooze, Unique, task
from tests.project.models import Effect

RAN: list = []


@task()
def note(value=None):
    RAN.append(value)
    return value


@task()
async def anote(value=None):
    RAN.append(value)
    return value


@task()
def welcome(user_id, kind="mail", *, urgent=False):
    RAN.append(("welcome", user_id, kind, urgent))


@task(takes_context=True)
def with_context(context, amount):
    context.progress(amount, total=10)
    context.metadata["seen"] = context.attempt
    return context.attempt


@task()
def boom(message="boom"):
    raise ValueError(message)


@task()
async def aboom(message="boom"):
    raise ValueError(message)


@task(max_attempts=3, backoff=60)
def flaky():
    RAN.append("flaky")
    raise ConnectionError("not yet")


@task(max_attempts=5, backoff=0)
def flaky_at_once():
    RAN.append("flaky")
    if len(RAN) < 3:
        raise Retry(0)


@task()
def sleepy(until=2):
    RAN.append("sleepy")
    if len(RAN) < until:
        raise Snooze(30)


@task()
def pointless():
    raise Discard("nothing to do")


@task(timeout=0.05)
async def too_slow():
    await asyncio.Event().wait()


@task(timeout=0.05, takes_context=True)
def too_slow_in_thread(context):
    pause = threading.Event()
    while True:
        context.check()
        pause.wait(0.01)


@task()
def chain(left):
    RAN.append(left)
    if left:
        chain.enqueue(left - 1)


@task()
async def achain(left):
    RAN.append(left)
    if left:
        await achain.aenqueue(left - 1)


@task()
def follow_up_on_commit(value):
    with transaction.atomic():
        transaction.on_commit(lambda: note.enqueue(value))
        RAN.append("before")


@task()
def follow_up_rolled_back(value):
    try:
        with transaction.atomic():
            transaction.on_commit(lambda: note.enqueue(value))
            raise ValueError
    except ValueError:
        RAN.append("rolled back")


@task()
def endless():
    endless.enqueue()


@task()
def write(label):
    Effect.objects.create(label=label, pid=0)
    return Effect.objects.filter(label=label).count()


@task()
async def awrite(label):
    await Effect.objects.acreate(label=label, pid=0)
    return await Effect.objects.filter(label=label).acount()


@task()
def breaks_the_transaction(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT * FROM no_such_table")


@task()
def where(kind="sync"):
    return threading.get_ident()


@task()
async def awhere():
    return await sync_to_async(threading.get_ident)()


@task()
def calls_async():
    return async_to_sync(anote.func)("from sync")


@task()
def store(jobs):
    RAN.append([job["args"][0] for job in jobs])


@task()
def store_some(jobs):
    result = BatchResult()
    for job in jobs:
        if job["args"][0] < 0:
            result.fail(job["id"], ValueError("negative"))
    return result


@task(unique=Unique.once_per(timedelta(hours=1)))
def hourly(user_id):
    RAN.append(user_id)


@task(expires=60)
def perishable():
    RAN.append("perishable")


@task(rate=Rate(1, per=60))
def limited(value):
    RAN.append(value)


@task()
def interrupted():
    raise KeyboardInterrupt

"""Tasks with one option each, and things that are no tasks, for tests of declaring and enqueuing."""

from __future__ import annotations

import functools

from django_vtasks import Unique, task
from django_vtasks.framework import Task, django_task


@task
def bare(a=None, b=None):
    return [a, b]


@task()
def called(a=None):
    return a


@task
async def abare(a=None):
    return a


@django_task
def of_django(a=None):
    return a


@task(takes_context=True)
def with_context(context, a=None):
    return context.attempt


@task(unique=True)
def mutex(a=None):
    return a


@task(unique_key="one")
def keyed(a=None):
    return a


@task(unique=Unique.until_done(key="order:{order_id}"))
def of_order(order_id, note=""):
    return order_id


@task(unique=True, ttl=60, remove_unique_on_complete=False)
def throttled(a=None):
    return a


@task(unique=Unique.debounce(30, key="debounced"))
def debounced(a=None):
    return a


@task(unique=True, on_duplicate="result")
def survivor(a=None):
    return a


@task(on_commit=False)
def impatient(a=None):
    return a


@task(expires=60, result_ttl=5, metadata={"who": "tests"})
def expiring():
    pass


@task(max_attempts=3, backoff=0)
def flaky(until=3):
    calls.append(until)
    if len(calls) < until:
        raise ValueError(f"call {len(calls)}")
    return len(calls)


calls: list[object] = []


@task
def queue_name(ttl=None, unique=None, queue_name=None):
    return [ttl, unique, queue_name]


def plain(a=None):
    return a


renamed = task(plain)


def outer(inner):
    @functools.wraps(inner.func)
    def wrapper(*args, **kwargs):
        return inner.enqueue(*args, **kwargs)

    wrapper.inner = inner
    return wrapper


@outer
@task
def hidden():
    pass


lambdas = [task(lambda: None)]


class Body:
    @task
    def inside():
        pass

    def method(self):
        pass


def six_fields(origin: Task) -> Task:
    """As some packages rebuild a task: from Django's fields alone."""
    return type(origin)(
        func=origin.func,
        priority=origin.priority,
        queue_name=origin.queue_name,
        backend=origin.backend,
        takes_context=origin.takes_context,
        run_after=origin.run_after,
    )

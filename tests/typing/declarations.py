"""What an editor infers for tasks: read by mypy in `test_typing.py`, never run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from django_vtasks import Retry, Unique, VTask, VTaskResult, task
from django_vtasks.framework import AnyContext
from django_vtasks.stores.base import CancelStatus


@task
def add(a: int, b: int = 0) -> str:
    return str(a + b)


@task(priority=5, unique=True, max_attempts=3, backoff="fast", retry_on=ValueError, timeout=timedelta(seconds=5))
async def aadd(a: int) -> int:
    raise Retry(5, "again")


@task(takes_context=True, queue_name="q")
def with_context(context: AnyContext, label: str) -> None: ...


any_task: VTask[..., str] = add
context_task: VTask[..., None] = with_context

result = add.enqueue(1, b=2)
assert_type(result.id, str)
assert_type(result.return_value, str)
assert_type(result.cancel(), CancelStatus)
assert_type(result.duplicate_of, str | None)
assert_type(add(1), str)
assert_type(add.call(1, 2), str)
assert_type(add.func(1), str)
assert_type(add.name, str)


async def main() -> None:
    awaited = await add.aenqueue(1)
    assert_type(awaited.return_value, str)
    assert_type((await awaited.wait(5)).return_value, str)
    read: VTaskResult[Any, str] = await add.aget_result(awaited.id)
    await read.arefresh()


changed = add.using(priority=1, run_after=timedelta(minutes=5), unique=Unique.once_per(60, key="{a}"), expires=9)
assert_type(changed.enqueue(1).return_value, str)
with_context.enqueue("label")

add.enqueue("x")  # error: arg-type
add.enqueue()  # error: call-arg
with_context.enqueue(1)  # error: arg-type
add.using(priority="high")  # error: arg-type
add.using(colour="red")  # error: call-arg
task(uniqe=True)  # error: call-overload
Unique.once_per()  # error: call-arg

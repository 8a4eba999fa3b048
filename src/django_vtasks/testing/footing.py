"""What a worker's own connections give a task and a test's connection does not: an end of its transactions.

In a worker, commit hooks run when the task's transaction commits, and a statement that fails harms that task alone.
In a test everything happens inside one transaction that never commits. So each call gets a savepoint, which is rolled
back if the call left the transaction broken, and the commit hooks that it left behind are run after it.
"""

import inspect
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from typing import Any

from asgiref.sync import sync_to_async
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..framework import AnyTask
from ..tasks import load_task, variant

SAVEPOINT = "vtasks_attempt"


def task_on_footing(path: str) -> AnyTask:
    """The task of a path, as `load_task`, with a function that leaves the caller's transaction usable."""
    task = load_task(path)
    result: AnyTask = variant(task, func=on_footing(task.func))
    return result


def on_footing(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a footing around each call."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return function
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            footing = Footing()
            await sync_to_async(footing.begin)()
            try:
                return await function(*args, **kwargs)
            finally:
                await sync_to_async(footing.end)()

        return acall

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        footing = Footing()
        footing.begin()
        try:
            return function(*args, **kwargs)
        finally:
            footing.end()

    return call


class Footing:
    """The transactions that are open in this thread while one call runs."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []

    def begin(self) -> None:
        """Remember where they are."""
        open_ones = [used for used in connections.all(initialized_only=True) if used.in_atomic_block]
        self._marks = [_Mark(connection) for connection in open_ones]

    def end(self) -> None:
        """Make them usable again, and run the commit hooks of the call. Raises what a hook raises."""
        for mark in self._marks:
            mark.mend()
        while any(mark.has_hooks for mark in self._marks):
            for mark in self._marks:
                mark.run_hooks()


class _Mark:
    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        self._connection = connection
        self._name = connection.ops.quote_name(SAVEPOINT)
        self._hooks_before = len(connection.run_on_commit)
        self._has_savepoint = connection.features.uses_savepoints and not connection.needs_rollback
        if self._has_savepoint:
            self._execute(connection.ops.savepoint_create_sql(self._name))

    def mend(self) -> None:
        if not self._has_savepoint or self._connection.closed_in_transaction:
            return
        if not self._connection.needs_rollback and self._is_released():
            return
        self._execute(self._connection.ops.savepoint_rollback_sql(self._name))
        self._connection.needs_rollback = False
        del self._connection.run_on_commit[self._hooks_before :]

    @property
    def has_hooks(self) -> bool:
        return len(self._connection.run_on_commit) > self._hooks_before

    def run_hooks(self) -> None:
        hooks = self._connection.run_on_commit[self._hooks_before :]
        del self._connection.run_on_commit[self._hooks_before :]
        for entry in hooks:
            entry[1]()

    def _is_released(self) -> bool:
        try:
            self._execute(self._connection.ops.savepoint_commit_sql(self._name))
        except DatabaseError:
            # PostgreSQL takes no statement but a rollback after one that failed.
            return False
        return True

    def _execute(self, sql: str) -> None:
        with self._connection.wrap_database_errors, closing(self._connection.create_cursor()) as cursor:
            cursor.execute(sql)

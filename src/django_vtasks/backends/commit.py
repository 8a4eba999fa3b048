"""Which transaction of the caller an enqueue has to wait for."""

import asyncio
import os
from contextvars import ContextVar
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from asgiref.sync import AsyncToSync
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.signals import connection_created


def open_transaction(on_commit: bool | str) -> str | None:  # noqa: FBT001 - the value of an option
    """The alias whose commit to wait for, None when nothing is open in this thread.

    `on_commit` True means the default database, or, when no transaction is open there, any one in which one is;
    text names an alias.
    """
    if on_commit is False:
        return None
    # A connection that this thread never used cannot be in a transaction, and is not opened to find out.
    open_ones = [used.alias for used in connections.all(initialized_only=True) if used.in_atomic_block]
    if not open_ones:
        return None
    if on_commit is not True:
        return on_commit if on_commit in open_ones else None
    return DEFAULT_DB_ALIAS if DEFAULT_DB_ALIAS in open_ones else open_ones[0]


class _Loops:
    """Whether a connection of Django's was ever opened in a thread whose event loop ran, which Django refuses unless
    `DJANGO_ALLOW_ASYNC_UNSAFE` is set. A context of an event loop has a transaction open only on such a connection."""

    opened = bool(os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE"))


def _note_loop(**_kwargs: Any) -> None:
    if not _Loops.opened and asyncio._get_running_loop() is not None:
        _Loops.opened = True


connection_created.connect(_note_loop, weak=False, dispatch_uid="django_vtasks.backends.commit")


def open_in_loop(on_commit: bool | str) -> str | None:  # noqa: FBT001 - the value of an option
    """As `open_transaction`, for a coroutine: looking at all connections costs as much as the rest of an enqueue."""
    return open_transaction(on_commit) if _Loops.opened else None


class CommitHook:
    """What is done after a commit. A subclass says what, and how to report that it was not done.

    Django drops the hooks behind one that raises, so one that does reports for those of ours that it takes along.
    """

    raises = True

    def __init__(self) -> None:
        self._hooks: list[CommitHook] = []
        self._over = False

    def push(self) -> None:
        """Do it."""
        raise NotImplementedError

    def report(self, error: Exception) -> None:
        """Say that it was not done."""
        raise NotImplementedError

    def __call__(self) -> None:
        self._over = True
        try:
            self.push()
        except Exception as error:
            self.report(error)
            if not self.raises:
                return
            for hook in self._hooks:
                if not hook._over:
                    hook.report(error)
            raise

    def join(self, connection: Any) -> None:
        """Take a place among our hooks of the transaction that is open on a connection."""
        hooks = _hooks.setdefault(connection, [])
        if hooks and not _is_waiting(hooks[-1], connection):
            hooks[:] = [hook for hook in hooks if _is_waiting(hook, connection)]
        hooks.append(self)
        self._hooks = hooks


_hooks: WeakKeyDictionary[Any, list[CommitHook]] = WeakKeyDictionary()


def _is_waiting(hook: CommitHook, connection: Any) -> bool:
    """Whether a hook was neither run nor dropped by a rollback. The latest are looked at first."""
    return any(entry[1] is hook for entry in reversed(connection.run_on_commit))


def after_commit(alias: str, hook: CommitHook) -> None:
    """Call the hook after the commit of the transaction now open in the alias; never, if it rolls back."""
    hook.join(connections[alias])
    transaction.on_commit(hook, using=alias)


def called_from_sync() -> bool:
    """Whether the running coroutine was started by sync code that waits for it, so whose transaction counts.

    In a server's event loop nobody waits in another thread, and asking that thread would cost a switch per enqueue.
    The answer stays the same as long as the coroutine's task lives, and is dear where it is no.
    """
    task = asyncio.current_task()
    free = _free.get()
    if free is not None and free() is task:
        return False
    executors = getattr(AsyncToSync, "executors", None)
    answer = executors is None or getattr(executors, "current", None) is not None
    if not answer and task is not None:
        _free.set(ref(task))
    return answer


_free: ContextVar[ReferenceType[asyncio.Task[Any]] | None] = ContextVar("vtasks_free_task", default=None)
"""The task for which nobody waits in sync code; contexts made from this one have it too, but are of other tasks."""

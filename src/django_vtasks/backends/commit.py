"""Which transaction of the caller an enqueue has to wait for."""

from collections.abc import Callable
from typing import Any

from asgiref.sync import AsyncToSync
from django.db import DEFAULT_DB_ALIAS, connections, transaction


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


def after_commit(alias: str, callback: Callable[[], Any]) -> None:
    """Call back after the commit of the transaction now open in the alias; never, if it rolls back."""
    transaction.on_commit(callback, using=alias)


def called_from_sync() -> bool:
    """Whether the running coroutine was started by sync code that waits for it, so whose transaction counts.

    In a server's event loop nobody waits in another thread, and asking that thread would cost a switch per enqueue.
    """
    executors = getattr(AsyncToSync, "executors", None)
    return executors is None or getattr(executors, "current", None) is not None

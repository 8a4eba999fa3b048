"""Database connections of slots: noticed when they are opened, cleaned between attempts.

A slot is where one attempt at a time runs: a thread for sync functions, a context for coroutines, whose ORM calls use
one thread of the slot's own. Only a slot that has a connection pays for its hygiene.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

logger = logging.getLogger(__name__)

IDLE_SECONDS = 5.0
"""A connection that rested longer is tested before it is used again: servers, proxies and poolers cut resting ones."""

DEPTH = 20
"""How many causes of an exception are looked at."""


class Ledger:
    """Counts the slots that have connections, and all connections `made`; `on_excess` is called, in any thread, when
    they become too many.

    More than `limit` slots have connections only for as long as the resting ones need to close theirs.
    """

    def __init__(self, limit: int, on_excess: Callable[[], None]) -> None:
        self.count = 0
        self.made = 0
        self.doubted_at = float("-inf")
        self._limit = limit
        self._on_excess = on_excess
        self._lock = threading.Lock()

    @property
    def excess(self) -> int:
        """How many slots too many have connections."""
        return self.count - self._limit

    def note_made(self) -> None:
        """A slot opened a connection, its first or one more."""
        with self._lock:
            self.made += 1

    def doubt(self) -> None:
        """The server ended a connection, and maybe all that were open then."""
        self.doubted_at = time.monotonic()

    def opened(self) -> None:
        """A slot has its first connection."""
        with self._lock:
            self.count += 1
        self.kept()

    def kept(self) -> None:
        """A slot keeps connections after an attempt."""
        if self.count > self._limit:
            self._on_excess()

    def closed(self) -> None:
        """A slot has no connection left."""
        with self._lock:
            self.count -= 1


class Slot:
    """Knows whether connections were opened in it, since when they rest, and when they were last known to be alive
    (monotonic seconds)."""

    __slots__ = ("_counted", "_ledger", "_proven_at", "connected", "rests_since")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._counted = False
        self._proven_at = 0.0
        self.connected = False
        self.rests_since = 0.0

    def is_doubtful(self) -> bool:
        """Whether its connections may be dead: they rested long, or those of another slot were found to be."""
        if not self.connected:
            return False
        return self._proven_at <= self._ledger.doubted_at or time.monotonic() - self.rests_since > IDLE_SECONDS

    def proven(self) -> None:
        """Its connections are alive."""
        self._proven_at = time.monotonic()

    def failed(self) -> None:
        """One of its connections turned out to be dead."""
        self._ledger.doubt()

    def opened(self) -> None:
        """A connection was opened in it."""
        self._ledger.note_made()
        if not self.connected:
            self.proven()
        self.connected = True
        if not self._counted:
            self._counted = True
            self._ledger.opened()

    def let_go(self) -> None:
        """Its connections are about to be closed to make room, and do not count from now on."""
        if self._counted:
            self._counted = False
            self._ledger.closed()

    def tidied(self, *, still_connected: bool) -> None:
        """The hygiene is over."""
        self.rests_since = time.monotonic()
        if still_connected:
            self._ledger.kept()
        else:
            self.connected = False
            self.let_go()


current_slot: ContextVar[Slot | None] = ContextVar("django_vtasks_slot", default=None)


def watch() -> None:
    """Have slots notice their connections; calling it again changes nothing."""
    connection_created.connect(_notice, weak=False, dispatch_uid="django_vtasks.execution")


def _notice(**_kwargs: Any) -> None:
    slot = current_slot.get()
    if slot is not None:
        slot.opened()


def look_at(raised: BaseException) -> None:
    """Have every slot of the worker test its connections when an attempt failed by losing its own."""
    slot, seen = current_slot.get(), 0
    error: BaseException | None = raised
    while slot is not None and error is not None and seen < DEPTH:
        if isinstance(error, OperationalError | InterfaceError):
            slot.failed()
            return
        error, seen = error.__cause__ or error.__context__, seen + 1


def tidy() -> bool:
    """After an attempt, in the slot's thread: no transaction, query log or broken connection is left for the next.

    Returns whether a connection is still open.
    """
    return _each(_leave_clean)


def check() -> bool:
    """Before an attempt on doubtful connections, in the slot's thread: dead ones are closed.

    Returns whether a connection is still open.
    """
    if slot := current_slot.get():
        slot.proven()
    return _each(_close_if_dead)


def close_all() -> bool:
    """Close every connection of this thread; returns False, for none is open then."""
    return _each(_close)


def _each(clean: Callable[[BaseDatabaseWrapper], None]) -> bool:
    still_open = False
    for connection in connections.all(initialized_only=True):
        try:
            clean(connection)
        except Exception:
            logger.warning("The connection %r of a finished task could not be cleaned", connection, exc_info=True)
            _discard(connection)
        still_open = still_open or connection.connection is not None
    return still_open


def _leave_clean(connection: BaseDatabaseWrapper) -> None:
    if connection.in_atomic_block or connection.closed_in_transaction:
        _close(connection)
    else:
        failed = connection.errors_occurred
        connection.close_if_unusable_or_obsolete()
        if failed and connection.connection is None and (slot := current_slot.get()):
            slot.failed()
        if connection.connection is not None:
            # Ends a transaction begun behind Django's back; costs nothing on drivers that know there is none.
            connection.rollback()
    connection.queries_log.clear()


def _close_if_dead(connection: BaseDatabaseWrapper) -> None:
    connection.close_if_unusable_or_obsolete()
    if connection.connection is not None and not connection.is_usable():
        _close(connection)


def _close(connection: BaseDatabaseWrapper) -> None:
    # Inside an atomic block Django keeps a closed connection for the block's end, which never comes here.
    _forget_transaction(connection)
    try:
        connection.close()
        if connection.connection is not None:
            # An in-memory SQLite database is never closed, since it would vanish.
            connection.rollback()
            connection.set_autocommit(connection.settings_dict["AUTOCOMMIT"])
    except Exception:
        _discard(connection)


def _discard(connection: BaseDatabaseWrapper) -> None:
    _forget_transaction(connection)
    connection.connection = None


def _forget_transaction(connection: BaseDatabaseWrapper) -> None:
    connection.in_atomic_block = False
    connection.closed_in_transaction = False
    connection.needs_rollback = False
    connection.savepoint_ids = []
    connection.atomic_blocks = []
    connection.run_on_commit = []

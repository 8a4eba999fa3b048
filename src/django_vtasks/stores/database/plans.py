"""Plans that PostgreSQL keeps for the statements of every round, which take longer to plan than to run."""

import logging
import os
import time
from collections.abc import Sequence
from typing import Any

from .session import Session

RENEWED = 30.0
"""Seconds after which a statement is planned anew: a plan for an empty table is none for a full one."""
SLOW = 0.02
"""Seconds after which a plan is suspected of being such a one."""

logger = logging.getLogger("django_vtasks.stores.database")


class Plans:
    """The prepared statements of one store, on one connection at a time. Used in one thread.

    `kept` says whether statements may be prepared: behind a pooler that hands out another session for each transaction
    they would be looked for in vain.
    """

    def __init__(self) -> None:
        self.kept = False
        self._connection: Any = None
        self._names: dict[str, tuple[str, float]] = {}
        self._unplannable: set[str] = set()

    def rows(self, session: Session, template: str, params: Sequence[Any]) -> list[Any]:
        """As `session.rows`, with a plan that is kept where that is possible."""
        if not self.kept or not session.can_prepare or template in self._unplannable:
            return session.rows(template, params)
        try:
            name = self._name(session, template)
            began = time.monotonic()
            rows = session.execute_prepared(name, params)
        except Exception as error:
            # The driver's own: Django's stands for it only at the end of a session.
            if getattr(error, "sqlstate", None) not in _OF_PLANS:
                raise
            self._names.pop(template, None)
            self._unplannable.add(template)
            reason = str(error).partition("\n")[0]
            logger.info("A statement is planned anew each time from now on, until the worker is restarted: %s", reason)
            return session.rows(template, params)
        if time.monotonic() - began > SLOW:
            self._forget(session, template)
        return rows

    def _name(self, session: Session, template: str) -> str:
        """The name of the statement in this session of the server, where it is prepared if need be."""
        connection = session.connection.connection
        if self._connection is not connection:
            self._connection = connection
            self._names.clear()
        now = time.monotonic()
        if template in self._names and now - self._names[template][1] > RENEWED:
            self._forget(session, template)
        if template not in self._names:
            # Unlike any other's: a session may have been another process's before.
            name = f"vtasks_{os.urandom(8).hex()}"
            session.prepare(name, template)
            self._names[template] = (name, now)
        return self._names[template][0]

    def _forget(self, session: Session, template: str) -> None:
        session.deallocate(self._names.pop(template)[0])


#: There is no such statement, it stands for another result by now, or it cannot be prepared (type of a parameter).
_OF_PLANS = frozenset(("26000", "0A000", "42P18", "42P05", "42601"))

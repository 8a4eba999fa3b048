"""Plans that PostgreSQL keeps for the statements of every round, which take longer to plan than to run."""

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

from .session import Session

RENEWED = 30.0
"""Seconds after which a statement is planned anew: a plan for an empty table is none for a full one."""
SLOW = 0.02
"""Seconds after which a plan is suspected of being such a one."""

_numbers = itertools.count(1)


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
        name = self._name(session, template)
        if name is None:
            return session.rows(template, params)
        began = time.monotonic()
        try:
            rows = session.execute_prepared(name, params)
        except Exception as error:
            if not _is_about_the_plan(error):
                raise
            self._give_up(template)
            return session.rows(template, params)
        if time.monotonic() - began > SLOW:
            self._forget(session, template)
        return rows

    def _name(self, session: Session, template: str) -> str | None:
        """The name of the statement in this session of the server, None when it cannot be prepared."""
        connection = session.connection.connection
        if self._connection is not connection:
            self._connection = connection
            self._names.clear()
        name, planned_at = self._names.get(template, ("", 0.0))
        now = time.monotonic()
        if name and now - planned_at > RENEWED:
            self._forget(session, template)
            name = ""
        if not name:
            # Unlike any other's: a session may have been another process's before.
            name = f"vtasks_{os.urandom(6).hex()}_{next(_numbers)}"
            try:
                session.prepare(name, template)
            except Exception as error:
                if not _is_about_the_plan(error):
                    raise
                self._give_up(template)
                return None
            self._names[template] = (name, now)
        return name

    def _give_up(self, template: str) -> None:
        self._names.pop(template, None)
        self._unplannable.add(template)

    def _forget(self, session: Session, template: str) -> None:
        session.deallocate(self._names.pop(template)[0])


#: There is no such statement, it stands for another result by now, or it cannot be prepared (type of a parameter).
_OF_PLANS = frozenset(("26000", "0A000", "42P18", "42P05", "42601"))


def _is_about_the_plan(error: Exception) -> bool:
    # The driver's own: Django's stands for it only at the end of a session.
    return getattr(error, "sqlstate", None) in _OF_PLANS

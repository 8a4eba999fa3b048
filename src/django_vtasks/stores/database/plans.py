"""Plans that PostgreSQL keeps for the statements of every round, which take longer to plan than to run."""

import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .session import Session

AGAIN = 2.0
"""Seconds within which a statement must come again to be worth a plan: an idle worker makes none."""
RENEWED = 30.0
"""Seconds after which a statement is planned anew: a plan for an empty table is none for a full one."""
MOST_LOSSES = 3
"""How often a plan that was kept may be lost, as to a migration, before its statement is planned each time."""
SLOW = 0.02
"""Seconds after which a plan is suspected of being such a one."""

_NEVER = float("-inf")

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
        self._last_run: dict[str, float] = {}
        self._losses: Counter[str] = Counter()
        self._unplannable: set[str] = set()

    def rows(self, session: Session, template: str, params: Sequence[Any]) -> list[Any]:
        """As `session.rows`, with a plan that is kept where that is possible."""
        if not self.kept or not session.can_prepare or template in self._unplannable:
            return session.rows(template, params)
        try:
            name = self._name(session, template)
            if name:
                return self._executed(session, template, name, params)
        except Exception as error:
            # The driver's own: Django's stands for it only at the end of a session.
            state = getattr(error, "sqlstate", None)
            if state not in _LOST | _UNPLANNABLE:
                raise
            self._names.pop(template, None)
            self._losses[template] += 1
            if state in _UNPLANNABLE or self._losses[template] >= MOST_LOSSES:
                self._give_up(template, error)
        return session.rows(template, params)

    def _name(self, session: Session, template: str) -> str | None:
        """The name of the statement in this session of the server, where it is prepared if that is worth it."""
        connection = session.connection.connection
        if self._connection is not connection:
            self._connection = connection
            self._names.clear()
        now = time.monotonic()
        last_run, self._last_run[template] = self._last_run.get(template, _NEVER), now
        name, made_at = self._names.get(template, ("", _NEVER))
        if now - made_at <= RENEWED:
            return name
        if now - last_run > AGAIN:
            return None
        if name:
            session.deallocate(self._names.pop(template)[0])
        # Unlike any other's: a session may have been another process's before.
        name = f"vtasks_{os.urandom(8).hex()}"
        session.prepare(name, template)
        self._names[template] = (name, now)
        return name

    def _executed(self, session: Session, template: str, name: str, params: Sequence[Any]) -> list[Any]:
        began = time.monotonic()
        rows = session.execute_prepared(name, params)
        if time.monotonic() - began > SLOW:
            self._names[template] = (name, _NEVER)
        return rows

    def _give_up(self, template: str, error: Exception) -> None:
        self._unplannable.add(template)
        reason = str(error).partition("\n")[0]
        logger.info("A statement is planned anew each time from now on, until the worker is restarted: %s", reason)


#: There is no such statement, or it stands for another result by now.
_LOST = frozenset(("26000", "0A000"))
#: It cannot be prepared: the type of a parameter, the name, the syntax.
_UNPLANNABLE = frozenset(("42P18", "42P05", "42601"))

"""Plans that PostgreSQL keeps for what a worker asks again and again, which takes longer to plan than to run."""

import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .session import Session

AGAIN = 2.0
"""Seconds within which a statement must come again to be worth a plan: an idle worker makes none."""
RENEWED = 30.0
"""Seconds after which a statement is planned anew: a plan for an empty table is none for a full one."""
MOST_LOSSES = 3
"""With so many losses of its plan, as to a migration, a statement is planned each time."""
SLOW = 0.02
"""Seconds after which a plan is suspected of being such a one, if its first run took less than a third of them."""

LOST = frozenset(("26000", "0A000"))
"""What the server says when there is no such statement, or when it stands for another result by now."""

_NEVER = float("-inf")

logger = logging.getLogger("django_vtasks.stores.database")


@dataclass(slots=True)
class _Plan:
    name: str
    made_at: float
    first_run: float | None = None
    """Seconds that it took, most of which may be the way to the server and back."""


class Plans:
    """The prepared statements of one store, on one connection at a time. Used in one thread, unless that was given up.

    `kept` says whether statements may be prepared: behind a pooler that hands out another session for each transaction
    they would be looked for in vain.
    """

    def __init__(self) -> None:
        self.kept = False
        self._connection: Any = None
        self._plans: dict[str, _Plan] = {}
        self._last_run: dict[str, float] = {}
        self._losses: Counter[str] = Counter()
        self._unplannable: set[str] = set()

    def rows(self, session: Session, template: str, params: Sequence[Any]) -> list[Any]:
        """As `session.rows`, with a plan that is kept where that is possible."""
        if not self.kept or not session.can_prepare or template in self._unplannable:
            return session.rows(template, params)
        try:
            plan = self._plan(session, template)
            if plan:
                return _executed(session, plan, params)
        except Exception as error:
            # The driver's own: Django's stands for it only at the end of a session.
            state = getattr(error, "sqlstate", None)
            if state not in LOST | _UNPLANNABLE:
                raise
            self._plans.pop(template, None)
            self._losses[template] += 1
            if state in _UNPLANNABLE or self._losses[template] >= MOST_LOSSES:
                self._give_up(template, error)
        return session.rows(template, params)

    def _plan(self, session: Session, template: str) -> _Plan | None:
        """The plan of a statement in this session of the server, which is made if that is worth it."""
        connection = session.connection.connection
        if self._connection is not connection:
            self._connection = connection
            self._plans.clear()
        now = time.monotonic()
        last_run, self._last_run[template] = self._last_run.get(template, _NEVER), now
        plan = self._plans.get(template)
        if plan and now - plan.made_at <= RENEWED:
            return plan
        if now - last_run > AGAIN:
            return None
        if plan:
            session.deallocate(self._plans.pop(template).name)
        plan = _Plan(new_name(), now)
        session.prepare(plan.name, template)
        self._plans[template] = plan
        return plan

    def _give_up(self, template: str, error: Exception) -> None:
        self._unplannable.add(template)
        reason = str(error).partition("\n")[0]
        logger.info("A statement is planned anew each time from now on, until the worker is restarted: %s", reason)


def new_name() -> str:
    """A name for a statement, unlike any other's: a session may have been another process's before."""
    return f"vtasks_{os.urandom(8).hex()}"


def _executed(session: Session, plan: _Plan, params: Sequence[Any]) -> list[Any]:
    began = time.monotonic()
    rows = session.execute_prepared(plan.name, params)
    seconds = time.monotonic() - began
    if plan.first_run is None:
        plan.first_run = seconds
    elif seconds > max(SLOW, 3 * plan.first_run):
        plan.made_at = _NEVER
    return rows


#: It cannot be prepared: the type of a parameter, the name, the syntax.
_UNPLANNABLE = frozenset(("42P18", "42P05", "42601"))

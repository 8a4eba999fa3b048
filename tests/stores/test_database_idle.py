"""What an idle worker costs its database: a statement where one does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from django_vtasks.jobs.samples import Sample
from django_vtasks.stores.database import leases, looking, samples, waiting
from django_vtasks.stores.database.names import role_key
from django_vtasks.stores.database.options import DatabaseOptions
from django_vtasks.stores.database.session import Session, worker_session
from django_vtasks.stores.database.waiting import JobWaiter

at_once = pytest.mark.parametrize(
    "database_alias", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


class Counting:
    """A cursor that counts what it is asked."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.statements: list[str] = []

    def execute(self, sql: str, *args: Any, **options: Any) -> Any:
        self.statements.append(sql)
        return self._cursor.execute(sql, *args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


@pytest.fixture
def session(database_alias: str) -> Iterator[Session]:
    with worker_session(connections[database_alias], DatabaseOptions(using=database_alias)) as session:
        session._cursor = Counting(session._cursor)
        yield session
    connections[database_alias].close()


def asked(session: Session) -> int:
    """How many statements were run since the last call."""
    count = len(session._cursor.statements)
    session._cursor.statements.clear()
    return count


@at_once
def test_a_role_is_taken_kept_and_left_to_others_in_one_statement(session):
    assert leases.hold(session, "sampler", "alpha", 60)
    assert asked(session) == 1
    assert leases.hold(session, "sampler", "alpha", 60)
    assert not leases.hold(session, "sampler", "beta", 60)
    assert asked(session) == 2
    assert leases.hold(session, "sampler", "alpha", -60)
    assert leases.hold(session, "sampler", "beta", 60)
    assert not leases.hold(session, "sampler", "alpha", 60)


@at_once
def test_a_role_that_was_left_without_an_end_is_anybodys(session):
    leases.put(session, role_key("sampler"), "somebody")
    assert leases.hold(session, "sampler", "alpha", 60)


@at_once
def test_what_a_worker_says_of_itself_is_written_in_one_statement(session):
    for value in ("first", "second"):
        leases.put(session, "vtasks_worker:alpha", value, expiry=True)
        assert asked(session) == 1
    query = "SELECT value, expires_at IS NULL FROM db_vtaskmetadata"
    assert [(value, bool(empty)) for value, empty in session.rows(query)] == [("second", False)]
    leases.put(session, "vtasks_worker:alpha", "third")
    assert [(value, bool(empty)) for value, empty in session.rows(query)] == [("third", True)]


@at_once
def test_samples_are_written_in_one_statement(session):
    for started in (1, 2):
        samples.record(session, "alpha", 7, [Sample(at=session.now(), queue="default", started=started)])
        assert asked(session) == 2
    assert [sample.started for sample in samples.samples(session)] == [2]


@pytest.mark.postgres
@pytest.mark.parametrize("database_alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_queues_and_their_pauses_are_counted_in_one_statement(session):
    leases.pause(session, "Grüße %s")
    asked(session)
    [counts] = looking.counts(session)
    assert (counts.queue, counts.paused, counts.ready) == ("Grüße %s", True, 0)
    assert asked(session) == 1


class Eyes:
    """Sees nothing, and how often it looked."""

    def __init__(self) -> None:
        self.looks = 0

    async def look(self, queues: Any) -> bool:
        self.looks += 1
        return False

    async def send(self, text: str) -> None:
        raise AssertionError


async def test_who_waited_asks_himself_in_the_end(monkeypatch):
    """The last look would come together with his claim."""
    monkeypatch.setattr(waiting, "SHORTEST", 0.25)
    monkeypatch.setattr(waiting, "GROWTH", 1.0)
    eyes = Eyes()
    waiter = JobWaiter(eyes, None)
    loop = asyncio.get_running_loop()
    now = [1000.0]
    monkeypatch.setattr(loop, "time", lambda: now[0])

    async def later(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(waiter, "_sleep", later)
    assert not await waiter.wait(["default"], 0.5)
    assert eyes.looks == 2
    now[0] += 60
    assert not await waiter.wait(["default"], 0.0)
    assert eyes.looks == 3

"""The statements of every round on PostgreSQL: planned once, and never at the price of a round."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from django.db import connections

from django_vtasks.db.models import JobResult, QueuedTask, UniqueLock
from django_vtasks.jobs.model import UniqueMode
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import ClaimRequest, Want
from django_vtasks.stores.database import plans as module
from django_vtasks.stores.database.plans import Plans
from django_vtasks.stores.database.session import Session, worker_session
from django_vtasks.stores.database.store import DatabaseClientStore, DatabaseOptions, DatabaseWorkerStore
from django_vtasks.stores.database.waiting import SAFETY
from django_vtasks.worker.watch import WAIT
from tests.support.builders import a_job, a_key, settled

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True),
]
SUM = "SELECT %s::int + %s::int, %s::text, 7 %% 4"


@pytest.fixture
def session(database_alias: str) -> Iterator[Session]:
    connections[database_alias].close()
    with worker_session(connections[database_alias], DatabaseOptions(using=database_alias)) as session:
        yield session
    connections[database_alias].close()


@pytest.fixture
def plans(monkeypatch) -> Plans:
    """Plans of a worker that is busy."""
    monkeypatch.setattr(module, "AGAIN", float("inf"))
    plans = Plans()
    plans.kept = True
    return plans


def prepared(session: Session) -> list[tuple[str, int]]:
    """Names of what the server keeps, and how often each was executed."""
    rows = session.rows("SELECT name, generic_plans + custom_plans FROM pg_prepared_statements ORDER BY name")
    return [(name, count) for name, count in rows]


def names(session: Session) -> list[str]:
    return [name for name, _ in prepared(session)]


def test_a_statement_is_prepared_once_and_executed_again_and_again(session, plans):
    for number in range(3):
        assert plans.rows(session, SUM, (number, 1, "it's 100 %")) == [(number + 1, "it's 100 %", 3)]
    assert plans.rows(session, SUM, (None, 1, None)) == [(None, None, 3)]
    [(name, count)] = prepared(session)
    assert (name.startswith("vtasks_"), count) == (True, 4)


@pytest.mark.parametrize("why", ["no session of its own", "in a transaction", "another's clock"])
def test_it_is_not_prepared(session, plans, database_alias, why):
    if why == "no session of its own":
        plans.kept = False
        assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    elif why == "in a transaction":
        with session.atomic():
            assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    else:
        options = DatabaseOptions(using=database_alias, clock=time.time)
        with worker_session(connections[database_alias], options) as other:
            assert plans.rows(other, SUM, (1, 1, "")) == [(2, "", 3)]
    assert prepared(session) == []


def test_one_that_somebody_threw_away_is_run_as_it_is_and_then_made_anew(session, plans):
    plans.rows(session, SUM, (1, 1, ""))
    session.run("DISCARD ALL")
    assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    assert prepared(session) == []
    for _ in range(2):
        assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    assert [count for _, count in prepared(session)] == [2]


def test_one_that_is_thrown_away_again_and_again_is_given_up(session, plans, caplog):
    """As by a pooler that cleans the session after each transaction."""
    caplog.set_level("INFO", logger="django_vtasks.stores.database")
    for _ in range(10):
        assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
        session.run("DISCARD ALL")
    assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    assert prepared(session) == []
    assert len(caplog.records) == 1


def test_one_whose_result_changed_with_a_migration_is_made_anew(session, plans):
    session.run("CREATE TEMPORARY TABLE changing (a int)")
    session.run("INSERT INTO changing VALUES (1)")
    assert plans.rows(session, "SELECT a FROM changing", ()) == [(1,)]
    session.run("ALTER TABLE changing ALTER COLUMN a TYPE text")
    for _ in range(2):
        assert plans.rows(session, "SELECT a FROM changing", ()) == [("1",)]
    assert any("changing" in text for (text,) in session.rows("SELECT statement FROM pg_prepared_statements"))


def test_a_driver_that_binds_on_the_server_is_left_to_its_own_ways(plans, database_alias):
    connection = connections[database_alias].copy()
    connection.settings_dict = connection.settings_dict | {"OPTIONS": {"server_side_binding": True}}
    try:
        with worker_session(connection, DatabaseOptions(using=database_alias)) as session:
            assert plans.rows(session, "SELECT %s::int + 1", (1,)) == [(2,)]
            assert prepared(session) == []
    finally:
        connection.close()


def test_one_that_is_gone_when_it_is_to_be_made_anew_is_run_as_it_is(session, plans, monkeypatch):
    plans.rows(session, SUM, (1, 1, ""))
    session.run("DISCARD ALL")
    monkeypatch.setattr(module, "RENEWED", -1.0)
    assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    monkeypatch.undo()
    assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    assert [count for _, count in prepared(session)] == [1]


def test_giving_up_is_told_in_one_line(session, plans, caplog):
    caplog.set_level("INFO", logger="django_vtasks.stores.database")
    for _ in range(2):
        plans.rows(session, "SHOW server_version", ())
    [line] = [record.getMessage() for record in caplog.records]
    assert "until the worker is restarted: syntax error" in line
    assert "\n" not in line


def test_what_cannot_be_prepared_is_run_as_it_is(session, plans):
    assert len(plans.rows(session, "SHOW server_version", ())) == 1
    assert prepared(session) == []


def test_an_error_of_the_statement_itself_is_raised_and_the_plan_kept(session, plans):
    assert plans.rows(session, "SELECT 1 / %s", (1,)) == [(1,)]
    with pytest.raises(Exception, match="division by zero"):
        plans.rows(session, "SELECT 1 / %s", (0,))
    assert plans.rows(session, "SELECT 1 / %s", (1,)) == [(1,)]
    assert len(prepared(session)) == 1


def test_a_new_connection_has_its_own(session, plans, database_alias):
    plans.rows(session, SUM, (1, 1, ""))
    connection = connections[database_alias]
    connection.close()
    with worker_session(connection, DatabaseOptions(using=database_alias)) as other:
        assert plans.rows(other, SUM, (1, 1, "")) == [(2, "", 3)]
        assert [count for _, count in prepared(other)] == [1]


def test_an_old_plan_is_made_anew(session, plans, monkeypatch):
    plans.rows(session, SUM, (1, 1, ""))
    before = names(session)
    monkeypatch.setattr(module, "RENEWED", -1.0)
    assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    assert len(names(session)) == 1
    assert names(session) != before


@pytest.mark.parametrize(
    ("seconds", "is_kept"),
    [((0.001, 0.015), True), ((0.001, 0.03), False), ((0.03, 0.08), True), ((0.03, 0.1), False)],
)
def test_a_plan_that_became_slow_is_made_anew(session, plans, monkeypatch, seconds, is_kept):
    """Not one whose server is far away: that is slow from the beginning."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    execute = session.execute_prepared
    took = iter((*seconds, 0.001))

    def late(*args):
        now[0] += next(took)
        return execute(*args)

    monkeypatch.setattr(session, "execute_prepared", late)
    plans.rows(session, SUM, (1, 1, ""))
    before = names(session)
    for _ in range(2):
        assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
    assert len(names(session)) == 1
    assert (names(session) == before) is is_kept


def test_what_runs_seldom_is_not_prepared(session, monkeypatch):
    """The first job after a pause must not wait for a plan, nor an idle server make one."""
    assert min(WAIT, SAFETY) > module.AGAIN
    monkeypatch.setattr(module, "AGAIN", 10.0)
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    plans = Plans()
    plans.kept = True
    executions = []
    for pause in (0, 11, 9, 21, 9, 11, 5):
        now[0] += pause
        assert plans.rows(session, SUM, (1, 1, "")) == [(2, "", 3)]
        executions.append([count for _, count in prepared(session)])
    assert executions == [[], [], [1], [2], [3], [3], [1]]


async def test_a_worker_that_hears_executes_its_rounds_by_name(database_alias, monkeypatch):
    """Every form of the statement: alone or with what ended, with results, with keys, with slots that are scarce."""
    monkeypatch.setattr(module, "AGAIN", float("inf"))
    store = DatabaseWorkerStore(DatabaseOptions(using=database_alias))
    try:
        await asyncio.to_thread(store.extend, "alpha", 600)
        await store.wait_for_jobs(["default"], 0.01)
        await asyncio.to_thread(_enqueue, database_alias)
        wants = (Want(queue="default", slots=2), Want(queue="other", slots=2))
        seen, claims = [], ()
        for limit, ttl in ((4, 0), (1, 60), (2, 60), (2, 0), (4, 60)):
            policy = Policy(result_ttl=ttl)
            ended = [settled(claim, Succeeded(value=b"1"), policy, time.time()) for claim in claims]
            found = await store.exchange(ended, ClaimRequest(owner="alpha", wants=wants, limit=limit))
            assert not found.refused
            claims = found.claims
            seen.append((len(claims), await asyncio.to_thread(_last_statements, database_alias)))
        await store.exchange([settled(c, Succeeded(value=b"1"), policy, time.time()) for c in claims], None)
        rounds = await asyncio.to_thread(_last_statements, database_alias)
        assert not await store.look(["default"])
        [look] = await asyncio.to_thread(_last_statements, database_alias)
        assert look not in rounds
        store._waiter.distrust()
        assert not await store.look(["default"])
        assert not any("EXECUTE" in text for text in await asyncio.to_thread(_last_statements, database_alias))
    finally:
        await store.close()
    assert [count for count, _ in seen] == [4, 1, 2, 2, 2]
    assert all(len(statements) == 1 for _, statements in seen)
    left = await asyncio.to_thread(_left, database_alias)
    assert left == (0, 0, 9)


def _enqueue(alias: str) -> None:
    client = DatabaseClientStore(DatabaseOptions(using=alias))
    for number in range(6):
        unique = a_key(f"key {number}", UniqueMode.UNTIL_DONE) if number % 2 else None
        client.add([a_job(id=client.new_id(), queue="default", unique=unique)])
        client.add([a_job(id=client.new_id(), queue="other")])
    connections[alias].close()


def _last_statements(alias: str) -> list[str]:
    """What sessions did last, of those that executed something by name."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT query FROM pg_stat_activity WHERE query LIKE 'EXECUTE vtasks_%%'")
        found = [query for (query,) in cursor.fetchall()]
    connections[alias].close()
    return found


def _left(alias: str) -> tuple[int, int, int]:
    """Leased jobs, unique keys of jobs that are gone, results."""
    jobs = QueuedTask.objects.using(alias)
    waiting = set(jobs.values_list("id", flat=True))
    locks = UniqueLock.objects.using(alias).exclude(job_id__in=waiting).count()
    found = jobs.filter(status="PROCESSING").count(), locks, JobResult.objects.using(alias).count()
    connections[alias].close()
    return found

"""What a worker asks for all day reads the rows it is about and no others, however many there are."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from typing import Any

import pytest
from django.db import connections

from django_vtasks.jobs.codec import encode
from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import ClaimRequest, JobFilter, Want
from django_vtasks.stores.database.session import Session
from django_vtasks.stores.database.store import (
    DatabaseAdminStore,
    DatabaseClientStore,
    DatabaseOptions,
    DatabaseWorkerStore,
)
from tests.support.builders import a_job, settled

MANY = 6000

type Statement = tuple[str, tuple[Any, ...]]


@pytest.fixture
def full_alias(database_alias: str) -> str:
    """A database with many waiting, scheduled, dead and finished jobs."""
    client = DatabaseClientStore(DatabaseOptions(using=database_alias))
    later = time.time() + 36_000
    client.add([a_job(id=client.new_id(), queue="default", priority=number % 3) for number in range(MANY)])
    client.add([a_job(id=client.new_id(), queue="default", run_after=later) for _ in range(MANY)])
    client.add([a_job(id=client.new_id(), queue="elsewhere") for _ in range(2 * MANY)])
    connection = connections[database_alias]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE db_queuedtask SET status = 'FAILED', buried_at = created_at, failed_at = created_at"
            " WHERE queue = 'elsewhere' AND priority = 0"
        )
        cursor.execute(
            "INSERT INTO db_jobresult (id, queue, state, data, settled_at, finished_at, expires_at)"
            " SELECT id, queue, 'succeeded', data, created_at, created_at, run_after FROM db_queuedtask"
            " WHERE run_after IS NOT NULL"
        )
        cursor.execute("ANALYZE" if connection.vendor != "mysql" else "ANALYZE TABLE db_queuedtask, db_jobresult")
        if connection.vendor == "mysql":
            cursor.fetchall()
    return database_alias


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[Statement]:
    """Every statement of the store that is worth a plan."""
    seen: list[Statement] = []
    for name in ("run", "rows"):
        original = getattr(Session, name)

        def noted(self: Session, template: str, params: Any = (), original: Any = original) -> Any:
            seen.append((self.moment.sql(template), tuple(params)))
            return original(self, template, params)

        monkeypatch.setattr(Session, name, noted)
    return seen


def work(alias: str) -> None:
    """What a worker does all day."""

    async def rounds() -> None:
        store = DatabaseWorkerStore(DatabaseOptions(using=alias))
        wants = (Want(queue="default", slots=20), Want(queue="empty", slots=20))
        request = ClaimRequest(owner="alpha", wants=wants, limit=30)
        try:
            store.extend("alpha", 60)
            claims: tuple[Any, ...] = ()
            for _ in range(3):
                ended = [settled(claim, Succeeded(), Policy(result_ttl=60), time.time()) for claim in claims]
                claims = (await store.exchange(ended, request)).claims
                assert len(claims) == 20
            assert await store.look(["default", "empty"])
            await store.pulse("alpha", 100)
            await store.held("alpha")
            await store.expired(100)
        finally:
            await store.close()

    asyncio.run(rounds())


def reads_all_rows(alias: str, statement: Statement) -> str:
    """The plan of a statement that reads a whole table of jobs or results, else nothing."""
    sql, params = statement
    connection = connections[alias]
    # With a thousand ids, of so few rows, a look at all of them may be as cheap.
    if not re.match(r"\s*(WITH|SELECT|UPDATE|DELETE)", sql) or len(params) >= 500:
        return ""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(f"EXPLAIN {sql}", params)
            plan = "\n".join(row[0] for row in cursor.fetchall())
            return plan if re.search(r"Seq Scan on db_(queuedtask|jobresult)", plan) else ""
        if connection.vendor == "sqlite":
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}", params)
            plan = "\n".join(row[3] for row in cursor.fetchall())
            sorts = "TEMP B-TREE" in plan and "'PROCESSING'" not in sql  # what is leased is little
            return plan if sorts or re.search(r"SCAN db_(queuedtask|jobresult)(?! USING)", plan) else ""
        cursor.execute(f"EXPLAIN FORMAT=JSON {sql}", params)
        plan = cursor.fetchone()[0]
        return plan if '"access_type": "ALL"' in json.dumps(_tables(json.loads(plan))) else ""


def _tables(plan: Any) -> list[dict[str, Any]]:
    if isinstance(plan, list):
        return [table for part in plan for table in _tables(part)]
    if not isinstance(plan, dict):
        return []
    own = [plan] if str(plan.get("table_name", "")).startswith(("db_queuedtask", "db_jobresult")) else []
    return own + [table for part in plan.values() for table in _tables(part)]


def test_a_worker_reads_no_whole_table(full_alias, statements):
    work(full_alias)
    ran = list(dict.fromkeys(statements))
    assert len(ran) >= 5
    plans = {sql: plan for sql, params in ran if (plan := reads_all_rows(full_alias, (sql, params)))}
    assert not plans, "\n\n".join(f"{sql}\n{plan}" for sql, plan in plans.items())


def test_enqueuing_reads_no_whole_table(full_alias, statements):
    client = DatabaseClientStore(DatabaseOptions(using=full_alias))
    client.add([a_job(id=client.new_id())])
    [added] = client.add([a_job(id=client.new_id(), run_after=time.time() + 60)])
    client.get(added.job_id)
    client.cancel(added.job_id)
    plans = {sql: plan for sql, params in statements if (plan := reads_all_rows(full_alias, (sql, params)))}
    assert not plans, "\n\n".join(f"{sql}\n{plan}" for sql, plan in plans.items())


def test_a_page_of_a_list_reads_no_whole_table(full_alias, statements):
    admin = DatabaseAdminStore(DatabaseOptions(using=full_alias))
    # Which few results are discarded no index tells.
    states = [state for state in JobState if state is not JobState.DISCARDED]
    for state, narrower in itertools.product(states, ({}, {"queue": "default"}, {"text": "nowhere"})):
        which = JobFilter(state=state, **narrower)
        cursor = admin.page(which, limit=5).next_cursor
        if cursor is not None:
            admin.page(which, after=cursor, limit=5)
    asked = [one for one in {sql: (sql, params) for sql, params in statements}.values() if one[0].startswith("SELECT")]
    assert len(asked) > 10
    plans = {sql: plan for sql, params in asked if (plan := reads_all_rows(full_alias, (sql, params)))}
    # Jobs of one queue, priority and moment SQLite puts in order itself.
    plans = {sql: plan for sql, plan in plans.items() if "RIGHT PART OF ORDER BY" not in plan}
    assert not plans, "\n\n".join(f"{sql}\n{plan}" for sql, plan in plans.items())


def test_a_payload_is_stored_as_the_wire_format_says(database_alias):
    client = DatabaseClientStore(DatabaseOptions(using=database_alias))
    job = a_job(id=client.new_id())
    client.add([job])
    with connections[database_alias].cursor() as cursor:
        cursor.execute("SELECT data FROM db_queuedtask")
        assert bytes(cursor.fetchone()[0]) == encode(job)

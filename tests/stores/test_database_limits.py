"""What limits cost queues that have none, which is nothing; and what counts as the time of a limited start."""

from __future__ import annotations

from typing import Any

import pytest

from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.stores.database import permits
from django_vtasks.stores.database.session import Session
from tests.stores.bench import KEPT, about, ids
from tests.stores.benches import close_database, database_bench
from tests.support.builders import settled

LIMIT = JobLimit(concurrency_key="k", count=1)


@pytest.fixture
async def bench(database_alias):
    bench = await database_bench(database_alias)
    yield bench
    await bench.close()
    await close_database(database_alias)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that a store sends."""
    seen: list[str] = []
    for name in ("run", "rows", "run_many"):
        original = getattr(Session, name)

        def noted(self: Session, template: str, params: Any = (), original: Any = original) -> Any:
            seen.append(template)
            return original(self, template, params)

        monkeypatch.setattr(Session, name, noted)
    return seen


async def statements_of_a_round(bench, statements) -> int:
    """Settling a job and claiming the next, of a queue without limits."""
    await bench.add_all([bench.job(), bench.job()])
    claim = await bench.claim_one()
    done = [settled(claim, Succeeded(value=b"1"), KEPT, bench.clock())]
    statements.clear()
    [_] = (await bench.exchange(done, default=1)).claims
    return len(statements)


async def test_a_round_costs_the_same_whether_or_not_other_queues_have_limits(bench, statements):
    before = await statements_of_a_round(bench, statements)
    await bench.add_all([bench.job(queue="bound", limit=LIMIT) for _ in range(5)])
    assert len(await bench.claim(3, queue="bound")) == 1
    assert await statements_of_a_round(bench, statements) == before


async def test_a_round_costs_the_same_once_a_queues_limited_jobs_are_over(bench, statements):
    before = await statements_of_a_round(bench, statements)
    await bench.add_all([bench.job(limit=LIMIT) for _ in range(2)])
    for claim in [claim for _ in range(3) for claim in await bench.claim()]:
        await bench.succeed(claim)
    [rest] = await bench.claim()
    await bench.succeed(rest)
    await bench.claim()
    assert await statements_of_a_round(bench, statements) == before


async def test_jobs_that_speak_of_limits_cost_what_others_cost(bench, statements):
    plain = await statements_of_a_round(bench, statements)
    await bench.claim()
    await bench.add_all([bench.job(kwargs={"limit": 10, "rate": {"limit": 1}}) for _ in range(2)])
    claim = await bench.claim_one()
    done = [settled(claim, Succeeded(value=b"1"), KEPT, bench.clock())]
    statements.clear()
    [_] = (await bench.exchange(done, default=1)).claims
    assert len(statements) == plain
    assert ids(await bench.claim()) == []


async def test_a_start_that_waited_for_the_lock_of_its_rate_counts_from_then(bench, monkeypatch):
    lock_keys = permits.lock_keys

    def late(session, ids):
        found = lock_keys(session, ids)
        bench.clock.advance(3.0)
        return found

    for _ in range(2):
        await bench.add(limit=JobLimit(rate_key="r", interval=10.0))
    with monkeypatch.context() as patch:
        patch.setattr(permits, "lock_keys", late)
        [claim] = await bench.claim()
    started = bench.clock()
    assert claim.started_at == about(started)
    await bench.advance(9.5)
    assert await bench.claim() == []
    await bench.advance(1.0)
    [second] = await bench.claim()
    assert second.started_at - started > 10.0


async def test_those_who_find_a_limited_job_leased_know_when_it_started(bench, monkeypatch):
    count_permits = permits.count_permits

    def slow(session, ids):
        bench.clock.advance(3.0)
        session.new_moment()
        return count_permits(session, ids)

    await bench.add(limit=JobLimit(concurrency_key="k", count=1, rate_key="r", interval=10.0))
    with monkeypatch.context() as patch:
        patch.setattr(permits, "count_permits", slow)
        [claim] = await bench.claim()
    [held] = await bench.worker.held(claim.lease.owner)
    assert held.started_at == about(claim.started_at)
    await bench.lose(claim)
    [expired] = await bench.worker.expired(10)
    assert expired.started_at == about(claim.started_at)

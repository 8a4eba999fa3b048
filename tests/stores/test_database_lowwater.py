"""Claims that begin where the last one ended leave nobody behind."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from django_vtasks.jobs.outcomes import Untouched
from django_vtasks.stores.database import lowwater
from django_vtasks.stores.database.lowwater import EVERYTHING, LowWater
from django_vtasks.stores.database.store import DatabaseWorkerStore
from tests.stores.benches import close_database, database_bench

on_postgres = pytest.mark.parametrize(
    "database_alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
async def bench(database_alias):
    bench = await database_bench(database_alias)
    yield bench
    await bench.close()
    await close_database(database_alias)


@pytest.fixture
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim of everything is hours away unless something asks for it."""
    monkeypatch.setattr(lowwater, "SHORTEST", 36_000.0)


def jobs(*priorities: int, queue: str = "default") -> list[tuple[str, int, float]]:
    return [(queue, priority, float(number)) for number, priority in enumerate(priorities)]


# -- when to begin where ----------------------------------------------------------------------------------------------


def test_a_backlog_is_read_from_the_last_job_on(seldom):
    water = LowWater()
    assert water.floors(["default"]) == [EVERYTHING]
    water.claimed(jobs(5, 5, 0), {"default": 3}, 3)
    assert water.floors(["default", "other"]) == [(0, 2.0), EVERYTHING]


def test_a_queue_that_gave_less_than_it_was_asked_for_is_read_from_the_start(seldom):
    water = LowWater()
    water.floors(["default"])
    water.claimed(jobs(0, 0), {"default": 3}, 3)
    assert water.floors(["default"]) == [EVERYTHING]


def test_a_queue_that_was_not_reached_keeps_its_place(seldom):
    water = LowWater()
    water.floors(["default", "other"])
    water.claimed(jobs(0) + jobs(0, 0, queue="other"), {"default": 1, "other": 2}, 3)
    water.claimed(jobs(0, 0, 0), {"default": 3, "other": 3}, 3)
    assert water.floors(["other"]) == [(0, 1.0)]


def test_everything_is_read_after_a_time_and_when_asked_for(monkeypatch):
    monkeypatch.setattr(lowwater, "SHORTEST", 0.0)
    monkeypatch.setattr(lowwater, "SHARE", 0)
    water = LowWater()
    water.floors(["default"])
    water.claimed(jobs(0), {"default": 1}, 1)
    assert water.floors(["default"]) == [EVERYTHING]
    monkeypatch.setattr(lowwater, "SHORTEST", 36_000.0)
    water.claimed(jobs(0), {"default": 1}, 1)
    assert water.floors(["default"]) == [(0, 0.0)]
    water.forget()
    assert water.floors(["default"]) == [EVERYTHING]


def test_what_others_put_back_waits_a_tenth_of_a_second_or_twenty_times_as_long_as_a_claim(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(lowwater, "time", SimpleNamespace(monotonic=lambda: now[0]))
    water = LowWater()

    def claim(took: float) -> None:
        water.floors(["default"])
        now[0] += took
        water.claimed(jobs(0, 0), {"default": 2}, 2)

    def begins_at_the_start(after: float) -> bool:
        now[0] += after
        return water.floors(["default"]) == [EVERYTHING]

    claim(0.001)
    assert not begins_at_the_start(after=0.09)
    assert begins_at_the_start(after=0.02)
    claim(0.5)
    assert not begins_at_the_start(after=9.9)
    assert begins_at_the_start(after=0.2)


# -- what is claimed --------------------------------------------------------------------------------------------------


@on_postgres
async def test_a_backlog_of_several_priorities_is_claimed_in_order_and_whole(bench, seldom):
    added = [await bench.add(priority=number % 3, args=[number, 0]) for number in range(30)]
    expected = [job.id for job in sorted(added, key=lambda job: (-job.priority, job.args[0]))]
    claimed = [claim.lease.job_id for _ in range(10) for claim in await bench.claim(3)]
    assert claimed == expected
    assert await bench.claim(3) == []


@on_postgres
async def test_a_higher_priority_comes_first_also_in_the_middle_of_a_backlog(bench, seldom):
    for _ in range(6):
        await bench.add()
    await bench.claim(2)
    urgent = await bench.add(priority=7)
    assert (await bench.claim_one()).lease.job_id == urgent.id


@on_postgres
async def test_what_another_worker_put_back_to_the_front_is_claimed_in_the_end(bench, seldom, database_alias):
    for _ in range(8):
        await bench.add()
    held = await bench.claim(2, owner="beta")
    other: DatabaseWorkerStore = bench.new_worker()
    try:
        await bench.claim(2)
        bench_worker, bench.worker = bench.worker, other
        for claim in held:
            assert await bench.settle(claim, Untouched())
        bench.worker = bench_worker
    finally:
        await other.close()
    left = [claim.lease.job_id for _ in range(4) for claim in await bench.claim(2)]
    assert {claim.lease.job_id for claim in held} <= set(left)
    assert len(left) == len(set(left)) == 6

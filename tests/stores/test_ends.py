"""Waiting for the end of jobs: woken by the store and not by looking, on few connections, and never deaf for good."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from django.db import connections

from django_vtasks.db.models import QueuedTask
from django_vtasks.jobs.model import JobRecord, JobState
from django_vtasks.stores.base import ends
from django_vtasks.stores.database import ends as database_ends
from tests.stores.bench import Bench
from tests.stores.benches import close_database, database_bench, valkey_bench
from tests.stores.valkey_help import raw_client
from tests.support.builders import a_job
from tests.support.databases import closing
from tests.support.waiting import DEADLINE, aeventually

on_postgres = pytest.mark.parametrize(
    "database_alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
async def database(database_alias: str) -> AsyncIterator[Bench]:
    bench = await database_bench(database_alias)
    yield bench
    await aeventually(lambda: listening() == 0)
    await bench.close()
    await close_database(database_alias)


@pytest.fixture
async def valkey(clean_valkey) -> AsyncIterator[Bench]:
    bench = await valkey_bench(clean_valkey.url)
    yield bench
    await bench.close()


@pytest.fixture
def raw(clean_valkey):
    with raw_client(clean_valkey) as client:
        yield client


@pytest.fixture
def never_looking(monkeypatch):
    """Whoever waits looks when he is woken, and at no other time."""
    for name in ("SAFETY", "FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(ends, name, 3600.0)


def listening() -> int:
    return sum(thread.name == ends.EarThread.name for thread in threading.enumerate())


def waits_for(store: Bench, job) -> list[asyncio.Future[bool]]:
    """A wait in the event loop and one in a thread."""

    def in_thread() -> bool:
        try:
            return store.client.until_ended(job.id, DEADLINE)
        finally:
            connections.close_all()

    thread = asyncio.to_thread(in_thread)
    return [asyncio.ensure_future(wait) for wait in (store.client.auntil_ended(job.id, DEADLINE), thread)]


def marked(alias: str) -> int:
    return QueuedTask.objects.using(alias).filter(waited=True).count()


async def all_end(waits) -> None:
    assert all(await asyncio.wait_for(asyncio.gather(*waits), DEADLINE))


@on_postgres
@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("end", ["succeed", "fail", "cancel"])
async def test_postgresql_wakes_those_who_wait_and_nobody_looks(database: Bench, database_alias: str, end: str):
    job = await database.add()
    waits = waits_for(database, job)
    await aeventually(lambda: asyncio.to_thread(closing, marked, database_alias))
    if end == "cancel":
        await database.client.acancel(job.id)
    else:
        [claim] = await database.claim_all()
        await getattr(database, end)(claim)
    await all_end(waits)


@on_postgres
async def test_postgresql_marks_no_job_that_nobody_waits_for(database: Bench, database_alias: str):
    waited, other = await database.add_all([database.job(), database.job()])
    waits = waits_for(database, waited)
    await aeventually(lambda: asyncio.to_thread(closing, marked, database_alias))
    assert await asyncio.to_thread(closing, marked, database_alias) == 1
    claims = {claim.lease.job_id: claim for claim in await database.claim_all(2)}
    await database.succeed(claims[other.id])
    assert not any(wait.done() for wait in waits)
    await database.succeed(claims[waited.id])
    await all_end(waits)


@on_postgres
async def test_where_no_notification_arrives_those_who_wait_look(database: Bench, monkeypatch, caplog):
    monkeypatch.setattr(database_ends, "PROOF_TIMEOUT", 0.0)
    monkeypatch.setattr(ends, "SAFETY", 3600.0)
    job = await database.add()
    waits = waits_for(database, job)
    await aeventually(lambda: "looks again and again" in caplog.text)
    [claim] = await database.claim_all()
    await database.succeed(claim)
    await all_end(waits)


@on_postgres
async def test_many_who_wait_share_one_thread_on_postgresql(database: Bench):
    await _many_share_one_thread(database)


@pytest.mark.valkey
async def test_many_who_wait_share_one_thread_on_valkey(valkey: Bench):
    await _many_share_one_thread(valkey)


async def _many_share_one_thread(store: Bench) -> None:
    await aeventually(lambda: listening() == 0, message="a test before this one left a thread")
    jobs = await store.add_all([store.job() for _ in range(60)])
    waits = [asyncio.ensure_future(store.client.auntil_ended(job.id, DEADLINE)) for job in jobs for _ in range(4)]
    await aeventually(lambda: listening() == 1)
    for claim in await store.claim_all(60):
        await store.succeed(claim)
    assert listening() == 1
    await all_end(waits)
    await aeventually(lambda: listening() == 0)


@pytest.mark.valkey
@pytest.mark.usefixtures("never_looking")
@pytest.mark.parametrize("end", ["succeed", "fail", "cancel"])
async def test_valkey_wakes_those_who_wait_and_nobody_looks(valkey: Bench, raw, end: str):
    job = await valkey.add()
    waits = waits_for(valkey, job)
    await aeventually(lambda: raw.exists(f"{{vt}}:waits:{job.id}"))
    await aeventually(lambda: listening() == 1)
    if end == "cancel":
        await valkey.client.acancel(job.id)
    else:
        await getattr(valkey, end)(await valkey.claim_one())
    await all_end(waits)
    assert not raw.exists(f"{{vt}}:waits:{job.id}")


@pytest.mark.valkey
async def test_valkey_keeps_nothing_for_a_job_that_nobody_waits_for(valkey: Bench, raw):
    waited, other = await valkey.add_all([valkey.job(), valkey.job()])
    waits = waits_for(valkey, waited)
    await aeventually(lambda: raw.exists(f"{{vt}}:waits:{waited.id}"))
    claims = {claim.lease.job_id: claim for claim in await valkey.claim()}
    await valkey.succeed(claims[other.id])
    assert not any(wait.done() for wait in waits)
    await valkey.succeed(claims[waited.id])
    await all_end(waits)
    left = {key.decode() for key in raw.keys("*") if b":wait" in key or b":ended:" in key}
    assert left == {"{vt}:waiting"}
    assert 0 < raw.ttl("{vt}:waiting") <= 60


@pytest.mark.valkey
async def test_those_who_wait_survive_a_server_that_forgets(valkey: Bench, raw, monkeypatch):
    """The slow look is the safety net."""
    monkeypatch.setattr(ends, "SAFETY", 0.05)
    job = await valkey.add()
    waits = waits_for(valkey, job)
    await aeventually(lambda: raw.exists(f"{{vt}}:waits:{job.id}"))
    claim = await valkey.claim_one()
    raw.delete("{vt}:waiting")
    await valkey.succeed(claim)
    await all_end(waits)


@pytest.mark.parametrize("how", ["coroutine", "thread"])
async def test_who_is_woken_for_nothing_again_and_again_keeps_nobody_busy(how):
    """As in a transaction that waits for a job of its own, which nobody else can see."""
    told, looks = ends.Ends(), []

    class Eager:
        def listen_for(self, job_id):
            told.tell(job_id)
            return True

        async def alisten_for(self, job_id):
            return self.listen_for(job_id)

    def get(job_id):
        looks.append(job_id)
        return JobRecord(job=a_job(id=job_id), state=JobState.READY)

    async def aget(job_id):
        return get(job_id)

    wait = ends.EndWait(told, Eager(), get, aget)
    ended = wait.await_("job", 0.2) if how == "coroutine" else asyncio.to_thread(wait.wait, "job", 0.2)
    assert await ended is False
    assert len(looks) < 40
    assert not told

"""The worker's side of the database store: servers that hang, poolers, notifications, several workers at once."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections, transaction

from django_vtasks.db.models import QueuedTask, VTaskMetadata
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import JobState
from django_vtasks.jobs.outcomes import Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import ClaimRequest, Firing, Want
from django_vtasks.stores.database import listen, notify, schedule, waiting
from django_vtasks.stores.database.session import Session
from django_vtasks.stores.database.store import DatabaseClientStore, DatabaseOptions, DatabaseWorkerStore
from tests.support.bouncer import bouncing
from tests.support.builders import a_job, settled
from tests.support.databases import closing, temporary_alias, url_of
from tests.support.servers import PostgresServer
from tests.support.waiting import aeventually

POLICY = Policy(result_ttl=60)


def request(slots: int = 10, owner: str = "alpha", queue: str = "default") -> ClaimRequest:
    return ClaimRequest(owner=owner, wants=(Want(queue=queue, slots=slots),), limit=slots)


def finished(claims, at: float = 0.0):
    return [settled(claim, Succeeded(value=b"1"), POLICY, at or time.time()) for claim in claims]


@asynccontextmanager
async def worker_store(alias: str, **options: Any) -> AsyncIterator[DatabaseWorkerStore]:
    store = DatabaseWorkerStore(DatabaseOptions(using=alias, **options))
    try:
        yield store
    finally:
        await store.close()


async def add(alias: str, count: int = 1, **changes: Any) -> list[str]:
    """Enqueue from a thread, as another process would."""

    def enqueue() -> list[str]:
        client = DatabaseClientStore(DatabaseOptions(using=alias))
        answers = client.add([a_job(id=client.new_id(), **changes) for _ in range(count)])
        connections[alias].close()
        return [answer.job_id or "" for answer in answers]

    return await asyncio.to_thread(enqueue)


on_postgres = pytest.mark.parametrize(
    "database_alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)
on_sqlite = pytest.mark.parametrize("database_alias", ["sqlite"], indirect=True)


@pytest.fixture
def own_postgres(start_server: Callable[[Any], Any], django_db_blocker: Any) -> Iterator[tuple[str, PostgresServer]]:
    """The alias of a migrated database on a server that the test may stop."""
    server = start_server(PostgresServer())
    with django_db_blocker.unblock(), temporary_alias("own", server.url) as alias:
        call_command("migrate", "db", database=alias, verbosity=0)
        connections[alias].close()
        yield alias, server


# -- a server that does not answer ------------------------------------------------------------------------------------


@pytest.mark.postgres
async def test_a_server_that_hangs_costs_a_call_its_timeout_and_no_more(own_postgres):
    """Invariant 12."""
    alias, server = own_postgres
    async with worker_store(alias, reply_timeout=0.5) as store:
        store.extend("alpha", 600)
        [job_id] = await add(alias)
        [claim] = (await store.exchange([], request())).claims
        server.pause()
        try:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="did not answer"):
                await store.exchange(finished([claim]), None)
            with pytest.raises(StoreUnavailable):
                await store.wait_for_jobs(["default"], 1)
            assert time.monotonic() - began < 10
        finally:
            server.resume()

        async def settles() -> bool:
            try:
                await store.exchange(finished([claim]), None)
            except StoreUnavailable:
                return False
            return True

        await aeventually(settles)
        client = DatabaseClientStore(DatabaseOptions(using=alias))
        known = await asyncio.to_thread(closing, lambda _: client.get(job_id), alias)
        assert known.state is JobState.SUCCEEDED


@on_postgres
@pytest.mark.usefixtures("short_standstill")
async def test_who_stands_still_in_a_transaction_keeps_others_waiting_for_seconds_at_most(database_alias, monkeypatch):
    original, stands, go_on = schedule.fire, threading.Event(), threading.Event()

    def fire(session: Any, firing: Firing) -> Any:
        added = original(session, firing)
        if firing.slot == 2.0:
            stands.set()
            go_on.wait(30)
        return added

    monkeypatch.setattr(schedule, "fire", fire)
    async with worker_store(database_alias) as frozen, worker_store(database_alias, reply_timeout=8) as other:
        assert await frozen.fire(Firing(entry="tick", slot=1.0, expected=None, job=None))
        standing = asyncio.create_task(frozen.fire(Firing(entry="tick", slot=2.0, expected=1.0, job=None)))
        await asyncio.to_thread(stands.wait, 30)
        try:
            assert await other.fire(Firing(entry="tick", slot=3.0, expected=1.0, job=None))
        finally:
            go_on.set()
        with pytest.raises(StoreUnavailable):
            await standing
        assert await frozen.last_slots(["tick"]) == {"tick": 3.0}


@on_postgres
@pytest.mark.usefixtures("short_standstill")
async def test_nor_does_who_stands_still_after_writing_many_results(database_alias, monkeypatch):
    original, stands, go_on = Session.run, threading.Event(), threading.Event()

    def run(self: Session, template: str, params: Any = ()) -> int:
        if template.startswith("{delete_jobs}") and not stands.is_set():
            stands.set()
            go_on.wait(30)
        return original(self, template, params)

    async with worker_store(database_alias) as frozen, worker_store(database_alias, reply_timeout=8) as other:
        await add(database_alias, 3, limit=JobLimit(concurrency_key="k", count=3))
        await asyncio.to_thread(frozen.extend, "alpha", 60.0)
        claims = (await frozen.exchange([], request())).claims
        monkeypatch.setattr(Session, "run", run)
        standing = asyncio.create_task(frozen.exchange(finished(claims), None))
        await asyncio.to_thread(stands.wait, 30)
        assert not (await other.exchange(finished(claims), None)).refused
        go_on.set()
        with pytest.raises(StoreUnavailable):
            await standing


@pytest.mark.postgres
async def test_a_renewal_gives_up_after_a_third_of_the_lease(own_postgres):
    """Invariant 4."""
    alias, server = own_postgres
    async with worker_store(alias) as store:
        assert not await asyncio.to_thread(store.extend, "alpha", 3)
        server.pause()
        try:
            began = time.monotonic()
            with pytest.raises(StoreUnavailable):
                await asyncio.to_thread(store.extend, "alpha", 3)
            assert 0.9 <= time.monotonic() - began < 5
        finally:
            server.resume()


@pytest.mark.postgres
async def test_a_restarted_server_is_found_again(own_postgres):
    alias, server = own_postgres
    async with worker_store(alias, reply_timeout=5) as store:
        store.extend("alpha", 600)
        assert not await store.wait_for_jobs(["default"], 0.05)
        server.kill()
        with pytest.raises(StoreUnavailable):
            await store.pulse("alpha", 10)
        server.start()
        [job_id] = await add(alias)

        async def claims() -> list[str]:
            try:
                return [claim.lease.job_id for claim in (await store.exchange([], request())).claims]
            except StoreUnavailable:
                return []

        assert await aeventually(claims) == [job_id]


async def test_a_renewal_does_not_wait_for_the_worker_statements(database_alias):
    """Invariant 4."""
    async with worker_store(database_alias) as store:
        entered, leave = threading.Event(), threading.Event()

        def long_statement(session: Any) -> None:
            entered.set()
            leave.wait(30)

        running = asyncio.create_task(store._run(long_statement))
        await asyncio.to_thread(entered.wait, 30)
        try:
            assert not await asyncio.to_thread(store.extend, "alpha", 30)
            assert await asyncio.to_thread(store.extend, "alpha", 30)
        finally:
            leave.set()
            await running


async def test_closing_twice_and_using_it_again_is_no_error(database_alias):
    async with worker_store(database_alias) as store:
        await store.open()
        await store.close()
        await store.close()
        assert await store.now() > 0


# -- notifications ----------------------------------------------------------------------------------------------------


@on_postgres
async def test_a_commit_wakes_a_waiting_worker_long_before_it_would_look(database_alias):
    async with worker_store(database_alias) as store:
        assert not await store.wait_for_jobs(["default"], 0.05)
        store._waiter.claimed(0, asyncio.get_running_loop().time() + 3600)
        woken = asyncio.create_task(store.wait_for_jobs(["default"], 60))
        await add(database_alias)
        assert await asyncio.wait_for(woken, 30)


@on_postgres
def test_nothing_is_notified_inside_the_callers_transaction(database_alias):
    """A NOTIFY in a transaction that writes lets one commit at a time through the whole server."""
    statements: list[tuple[str, bool]] = []

    def note(execute, sql, params, many, context):
        statements.append((sql, context["connection"].in_atomic_block))
        return execute(sql, params, many, context)

    client = DatabaseClientStore(DatabaseOptions(using=database_alias))
    queue = f"notified {time.time()}"
    with connections[database_alias].execute_wrapper(note):
        with transaction.atomic(using=database_alias):
            client.add([a_job(id=client.new_id(), queue=queue)])
            client.add([a_job(id=client.new_id(), queue=queue, run_after=time.time() + 3600)])
            assert not any("pg_notify" in sql for sql, _ in statements)
        assert [in_atomic for sql, in_atomic in statements if "pg_notify" in sql] == [False]


@on_postgres
def test_a_notification_that_fails_harms_no_caller(database_alias, monkeypatch):
    monkeypatch.setattr(notify, "_NOTIFY", "SELECT no_such_function(%s, %s)")
    client = DatabaseClientStore(DatabaseOptions(using=database_alias))
    [added] = client.add([a_job(id=client.new_id(), queue=f"failing {time.time()}")])
    assert client.get(added.job_id).state is JobState.READY


@on_postgres
def test_without_autocommit_jobs_are_added_and_nobody_is_notified(database_alias):
    client = DatabaseClientStore(DatabaseOptions(using=database_alias))
    transaction.set_autocommit(False, using=database_alias)
    try:
        [added] = client.add([a_job(id=client.new_id(), queue=f"manual {time.time()}")])
        transaction.commit(using=database_alias)
    finally:
        transaction.set_autocommit(True, using=database_alias)
    assert client.get(added.job_id).state is JobState.READY


@on_postgres
async def test_without_notifications_a_worker_looks_and_says_so_once(database_alias, monkeypatch, caplog):
    monkeypatch.setattr(listen, "PROOF_TIMEOUT", 0.2)
    monkeypatch.setattr(listen, "CHANNEL", "nobody_sends_here")
    monkeypatch.setattr(waiting, "NEXT_PROOF", 0.0)
    caplog.set_level(logging.WARNING, "django_vtasks")
    async with worker_store(database_alias) as store:
        for _ in range(2):
            assert not await store.wait_for_jobs(["default"], 0.05)
        woken = asyncio.create_task(store.wait_for_jobs(["default"], 60))
        await add(database_alias)
        assert await asyncio.wait_for(woken, 30)
    assert [record.levelname for record in caplog.records if "LISTEN" in record.message] == ["WARNING"]


@on_postgres
async def test_a_lost_listening_connection_is_replaced(database_alias, monkeypatch):
    monkeypatch.setattr(waiting, "NEXT_TRY", 0.0)

    def listening(then: str) -> int:
        with connections[database_alias].cursor() as cursor:
            cursor.execute(f"SELECT {then} FROM pg_stat_activity WHERE query = 'LISTEN django_vtasks'")
            found = len(cursor.fetchall())
        connections[database_alias].close()
        return found

    async with worker_store(database_alias) as store:
        assert not await store.wait_for_jobs(["default"], 0.05)
        assert await asyncio.to_thread(listening, "pg_terminate_backend(pid)") == 1
        await aeventually(lambda: store._waiter._listener is None)
        assert not await store.wait_for_jobs(["default"], 0.05)
        assert await asyncio.to_thread(listening, "pid") == 1


@pytest.mark.postgres
async def test_an_idle_worker_costs_at_most_two_transactions_a_second(own_postgres):
    alias, server = own_postgres
    owner = f"idle {time.time()}"
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as watcher:

        def transactions() -> int:
            query = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'vtasks'"
            return watcher.execute(query).fetchone()[0]

        async with worker_store(alias) as store:
            store.extend(owner, 600)
            # The first turn begins to listen, and a session publishes what it did with a transaction a second later.
            for turn in range(8):
                if turn == 2:
                    before, began = transactions(), time.monotonic()
                await store.pulse(owner, 100)
                await store.exchange([], request(10, owner, "idle"))
                assert not await store.wait_for_jobs(["idle"], 1.0)
            used, seconds = transactions() - before, time.monotonic() - began
    assert used - 1 <= 2 * seconds + 2


# -- poolers and pools ------------------------------------------------------------------------------------------------


@pytest.fixture
def pooled_alias(database_alias: str) -> Iterator[str]:
    """An alias of the same database with Django's connection pool."""
    pool = {"OPTIONS": {"pool": {"min_size": 1, "max_size": 4}}}
    with temporary_alias("pooled", url_of(database_alias), **pool) as alias:
        yield alias
        connections[alias].close_pool()


@on_postgres
async def test_the_connection_pool_of_django_is_used(pooled_alias):
    async with worker_store(pooled_alias) as store:
        store.extend("alpha", 60)
        [job_id] = await add(pooled_alias)
        assert await store.wait_for_jobs(["default"], 10)
        [claim] = (await store.exchange([], request())).claims
        assert claim.lease.job_id == job_id
        assert not (await store.exchange(finished([claim]), None)).refused


@pytest.fixture
def bounced_alias(own_postgres: tuple[str, PostgresServer]) -> Iterator[str]:
    """The alias of the server behind PgBouncer in transaction mode."""
    _, server = own_postgres
    with bouncing(server.url) as url, temporary_alias("bounced", url, DISABLE_SERVER_SIDE_CURSORS=True) as bounced:
        yield bounced


@pytest.mark.postgres
async def test_behind_a_pooler_in_transaction_mode_a_worker_looks_and_works(bounced_alias, monkeypatch, caplog):
    monkeypatch.setattr(listen, "PROOF_TIMEOUT", 0.5)
    caplog.set_level(logging.WARNING, "django_vtasks")
    async with worker_store(bounced_alias) as store:
        store.extend("alpha", 60)
        assert not await store.wait_for_jobs(["default"], 0.05)
        woken = asyncio.create_task(store.wait_for_jobs(["default"], 60))
        await add(bounced_alias, 5)
        assert await asyncio.wait_for(woken, 30)
        claims = (await store.exchange([], request())).claims
        assert len(claims) == 5
        assert not (await store.exchange(finished(claims), request())).refused
    assert any("LISTEN" in record.message for record in caplog.records)


@pytest.mark.parametrize("age", [0, 1, None])
async def test_any_connection_age_works(database_alias, age, monkeypatch):
    monkeypatch.setitem(connections[database_alias].settings_dict, "CONN_MAX_AGE", age)
    async with worker_store(database_alias) as store:
        assert not store.extend("alpha", 60)
        await add(database_alias, 3)
        for _ in range(3):
            [claim] = (await store.exchange([], request(1))).claims
            assert not (await store.exchange(finished([claim]), None)).refused


# -- several workers --------------------------------------------------------------------------------------------------


async def test_workers_that_claim_at_once_share_the_jobs(database_alias):
    """Invariant 1."""
    ids = await add(database_alias, 120)

    async def work(owner: str) -> list[str]:
        async with worker_store(database_alias) as store:
            await asyncio.to_thread(store.extend, owner, 60)
            done: list[str] = []
            claims: tuple[Any, ...] = ()
            while True:
                round_ = await store.exchange(finished(claims), request(7, owner))
                assert not round_.refused
                claims = round_.claims
                done += [claim.lease.job_id for claim in claims]
                if not claims:
                    return done

    shares = await asyncio.gather(*[work(f"worker-{number}") for number in range(3)])
    assert sorted(job_id for share in shares for job_id in share) == sorted(ids)


async def test_a_round_of_mixed_ends_by_several_owners_is_written(database_alias):
    """The quick way of a round is for ends of one owner; whatever does not fit takes the long way."""
    await add(database_alias, 4)
    async with worker_store(database_alias) as store:
        store.extend("alpha", 60)
        store.extend("beta", 60)
        first = (await store.exchange([], request(2))).claims
        second = (await store.exchange([], request(2, "beta"))).claims
        round_ = await store.exchange(finished([*first, *second]), request())
        assert round_.refused == frozenset()
        assert round_.claims == ()
        again = await store.exchange(finished([*first, *second, first[0]]), None)
        assert again.refused == {claim.lease.token for claim in (*first, *second)}


async def test_an_old_token_of_a_job_claimed_again_is_refused(database_alias):
    """Invariant 2: also when a 3.2 worker, which knows no tokens, gave the job back."""
    await add(database_alias)
    async with worker_store(database_alias) as store:
        store.extend("alpha", 60)
        [old] = (await store.exchange([], request())).claims

        def give_back() -> None:
            rows = QueuedTask.objects.using(database_alias)
            rows.update(status="QUEUED", worker_id=None)
            connections[database_alias].close()

        await asyncio.to_thread(give_back)
        assert (await store.exchange(finished([old]), None)).refused == {old.lease.token}
        [new] = (await store.exchange([], request())).claims
        assert (await store.exchange(finished([old]), None)).refused == {old.lease.token}
        assert (await store.exchange(finished([new]), None)).refused == frozenset()


async def test_a_lease_is_the_row_that_3_2_workers_look_at(database_alias):
    async with worker_store(database_alias) as store:
        store.extend("host-1-abcd", 60)

        def rows() -> list[tuple[str, str]]:
            found = VTaskMetadata.objects.using(database_alias).filter(expires_at__isnull=False)
            values = list(found.values_list("key", "value"))
            connections[database_alias].close()
            return values

        assert await asyncio.to_thread(rows) == [("worker_alive:host-1-abcd", "host-1-abcd")]
        await add(database_alias)
        await store.exchange([], request(owner="host-1-abcd"))

        def owners() -> list[str]:
            found = list(QueuedTask.objects.using(database_alias).values_list("worker_id", flat=True))
            connections[database_alias].close()
            return found

        assert await asyncio.to_thread(owners) == ["host-1-abcd"]


# -- SQLite -----------------------------------------------------------------------------------------------------------


@on_sqlite
async def test_a_locked_database_is_waited_for(database_alias):
    await add(database_alias)
    locked, unlock = threading.Event(), threading.Event()

    def hold_the_lock() -> None:
        with transaction.atomic(using=database_alias):
            QueuedTask.objects.using(database_alias).update(priority=0)
            locked.set()
            unlock.wait(30)
        connections[database_alias].close()

    holder = threading.Thread(target=hold_the_lock)
    async with worker_store(database_alias) as store:
        store.extend("alpha", 60)
        holder.start()
        await asyncio.to_thread(locked.wait, 30)
        claiming = asyncio.create_task(store.exchange([], request()))
        done, _ = await asyncio.wait([claiming], timeout=0.3)
        assert not done
        unlock.set()
        assert len((await claiming).claims) == 1
    holder.join()


@on_sqlite
@pytest.mark.parametrize(("written", "raw"), [('"text"', b'"text"'), ("ü", "ü".encode()), (5, b"5"), (1.5, b"1.5")])
async def test_a_payload_that_sqlite_keeps_as_text_or_number_is_claimed_with_its_bytes(database_alias, written, raw):
    """Invariant 11: foreign producers bind JSON as text, and SQLite keeps the type in a column of bytes."""
    await add(database_alias)

    def write(change: str) -> None:
        with connections[database_alias].cursor() as cursor:
            cursor.execute(f"UPDATE db_queuedtask SET data = {change}", [] if "%s" not in change else [written])
        connections[database_alias].close()

    await asyncio.to_thread(write, "CAST(data AS TEXT)")
    async with worker_store(database_alias) as store:
        store.extend("alpha", 60)
        (claim,) = (await store.exchange([], request())).claims
        assert claim.job is not None
    await add(database_alias)
    await asyncio.to_thread(write, "%s")
    async with worker_store(database_alias) as store:
        store.extend("alpha", 60)
        (claim,) = (await store.exchange([], request())).claims
        assert claim.job is None
        assert claim.raw == raw


@on_sqlite
async def test_a_job_of_another_process_is_seen_soon(database_alias):
    async with worker_store(database_alias) as store:
        assert not await store.wait_for_jobs(["default"], 0.5)
        woken = asyncio.create_task(store.wait_for_jobs(["default"], 60))
        await add(database_alias)
        assert await asyncio.wait_for(woken, 30)

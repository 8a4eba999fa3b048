"""The INSERT that PostgreSQL keeps for the application's session: used where nobody can tell, and never at a price."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from queue import Queue
from typing import Any
from unittest.mock import Mock, patch

import pytest
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.utils import CursorWrapper
from django.test.utils import CaptureQueriesContext, override_settings

from django_vtasks.db.models import QueuedTask
from django_vtasks.jobs.codec import decode
from django_vtasks.jobs.errors import StoreRefused, StoreUnavailable
from django_vtasks.stores.database.prepared import ENOUGH
from django_vtasks.stores.database.store import DatabaseClientStore, DatabaseOptions
from tests.support.bouncer import bouncing
from tests.support.builders import a_job, a_key
from tests.support.databases import temporary_alias, url_of
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.parametrize("database_alias", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True),
]
FUTURE = 4_000_000_000.0


@pytest.fixture
def connection(database_alias: str) -> Iterator[Any]:
    """The application's, fresh."""
    connections[database_alias].close()
    vars(connections[database_alias]).pop("cursor", None)
    yield connections[database_alias]
    connections[database_alias].close()


@pytest.fixture
def client(database_alias: str) -> DatabaseClientStore:
    return DatabaseClientStore(DatabaseOptions(using=database_alias))


def add(client: DatabaseClientStore, count: int = 1, **changes: Any) -> list[str]:
    """Enqueue one by one."""
    ids = [client.new_id() for _ in range(count)]
    for job_id in ids:
        [added] = client.add([a_job(id=job_id, **changes)])
        assert (added.status.value, added.job_id) == ("added", job_id)
    return ids


def warm(client: DatabaseClientStore) -> None:
    """Have the statement kept from here on."""
    add(client, ENOUGH)


def used(connection: Any) -> list[int]:
    """How often each kept statement was executed; asked past everything that a test may have put in the way."""
    with connection.connection.cursor() as cursor:
        cursor.execute("SELECT generic_plans + custom_plans FROM pg_prepared_statements ORDER BY 1")
        return [count for (count,) in cursor.fetchall()]


def kill(connection: Any) -> None:
    """End the session on the server."""
    other = connection.copy("other")
    with closing(other), other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])


def waiting(alias: str) -> set[str]:
    return {str(pk) for pk in QueuedTask.objects.using(alias).values_list("pk", flat=True)}


def test_a_statement_is_kept_for_those_who_enqueue_again_and_again(client, connection, database_alias):
    ids = add(client, ENOUGH - 1)
    assert used(connection) == []
    ids += add(client, 3)
    assert used(connection) == [3]
    assert waiting(database_alias) == set(ids)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"priority": -7, "queue": "Größe'%s\\x", "args": ["ä%s'\\\x00"]},
        {"priority": 100, "kwargs": {"data": "x" * 100_000}},
        {"priority": -100},
        {"kwargs": {"data": random.Random(1).randbytes(2_000_000).hex()}},
    ],
)
def test_a_row_is_the_same_either_way(client, connection, database_alias, changes):
    [plain] = add(client, **changes)
    warm(client)
    [kept] = add(client, **changes)
    assert used(connection) == [3]
    rows = {str(row["id"]): row for row in QueuedTask.objects.using(database_alias).values()}
    first, second = rows[plain], rows[kept]
    jobs = [decode(bytes(row.pop("data"))) for row in (first, second)]
    assert jobs == [a_job(id=job_id, **changes) for job_id in (plain, kept)]
    assert first.pop("id") != second.pop("id")
    assert 0 <= (second.pop("created_at") - first.pop("created_at")).total_seconds() < 60
    assert first == second


def test_jobs_stay_in_the_order_in_which_they_were_enqueued(client, connection, database_alias):
    ids = add(client, 2 * ENOUGH)
    found = QueuedTask.objects.using(database_alias).order_by("created_at").values_list("pk", flat=True)
    assert [str(pk) for pk in found] == ids


# -- where somebody could tell ----------------------------------------------------------------------------------------


@contextmanager
def in_a_transaction(connection: Any) -> Iterator[None]:
    with transaction.atomic(using=connection.alias):
        yield


@contextmanager
def in_a_transaction_by_hand(connection: Any) -> Iterator[None]:
    connection.connection.execute("BEGIN")
    yield
    connection.connection.execute("COMMIT")


@contextmanager
def without_autocommit(connection: Any) -> Iterator[None]:
    transaction.set_autocommit(False, using=connection.alias)
    yield
    transaction.commit(using=connection.alias)
    transaction.set_autocommit(True, using=connection.alias)


@contextmanager
def in_debug_mode(connection: Any) -> Iterator[None]:
    with override_settings(DEBUG=True):
        yield
    assert any("INSERT INTO" in query["sql"] for query in connection.queries)


@contextmanager
def with_queries_counted(connection: Any) -> Iterator[None]:
    with CaptureQueriesContext(connection) as seen:
        yield
    assert sum("INSERT INTO" in query["sql"] for query in seen.captured_queries) == 1


@contextmanager
def with_a_wrapper(connection: Any) -> Iterator[None]:
    seen = []

    def look(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(look):
        yield
    assert sum("INSERT INTO" in sql for sql in seen) == 1


@contextmanager
def with_the_connections_cursor_replaced(connection: Any) -> Iterator[None]:
    """As Django's own test cases forbid queries, and debug toolbars see them."""
    with patch.object(connection, "cursor", Mock(side_effect=connection.cursor)) as cursor:
        yield
    assert cursor.called


@contextmanager
def with_the_class_patched(connection: Any) -> Iterator[None]:
    """As tracers do."""
    seen = []
    real = CursorWrapper.execute

    def traced(self: Any, sql: str, params: Any = None) -> Any:
        seen.append(sql)
        return real(self, sql, params)

    traced.__module__ = real.__module__
    beside = real.__code__.co_filename.replace("/django/", "/django_tracer/")
    traced.__code__ = traced.__code__.replace(co_filename=beside)
    with patch.object(CursorWrapper, "execute", traced):
        yield
    assert sum("INSERT INTO" in sql for sql in seen) == 1


@contextmanager
def with_the_class_patched_by_an_object(connection: Any) -> Iterator[None]:
    """As tracers do that stand for the function in all it is asked for."""
    real = CursorWrapper.execute

    class Traced:
        __code__ = real.__code__
        seen = 0

        def __get__(self, cursor: Any, kind: type) -> Callable[..., Any]:
            type(self).seen += 1
            return partial(real, cursor)

    with patch.object(CursorWrapper, "execute", Traced()):
        yield
    assert Traced.seen


@contextmanager
def with_the_cursor_of_all_connections_replaced(connection: Any) -> Iterator[None]:
    with patch.object(BaseDatabaseWrapper, "cursor", autospec=True, side_effect=BaseDatabaseWrapper.cursor) as cursor:
        yield
    assert cursor.called


@contextmanager
def with_a_drivers_connection_of_another_class(connection: Any) -> Iterator[None]:
    driver = connection.connection
    real, driver.__class__ = type(driver), type("Traced", (type(driver),), {"__module__": "x"})
    yield
    driver.__class__ = real


@contextmanager
def with_a_cursor_class_of_the_drivers_connection(connection: Any) -> Iterator[None]:
    """As tracers and metrics do that hook into the driver."""
    driver = connection.connection
    with patch.object(driver, "cursor_factory", type("Traced", (driver.cursor_factory,), {"__module__": "x"})):
        yield


@contextmanager
def in_a_pipeline(connection: Any) -> Iterator[None]:
    with connection.connection.pipeline():
        yield


@contextmanager
def where_a_pooler_is_announced(connection: Any) -> Iterator[None]:
    with patch.dict(connection.settings_dict, DISABLE_SERVER_SIDE_CURSORS=True):
        yield


@contextmanager
def on_a_derived_engine(connection: Any) -> Iterator[None]:
    """As one for tenants sets the schema when a cursor is made."""
    derived = type("Derived", (DatabaseWrapper,), {"__module__": "elsewhere"})
    real, connections[connection.alias].__class__ = type(connection), derived
    yield
    connections[connection.alias].__class__ = real


@pytest.mark.parametrize(
    "around",
    [
        in_a_transaction,
        in_a_transaction_by_hand,
        without_autocommit,
        in_debug_mode,
        with_queries_counted,
        with_a_wrapper,
        with_the_connections_cursor_replaced,
        with_the_class_patched,
        with_the_class_patched_by_an_object,
        with_the_cursor_of_all_connections_replaced,
        with_a_drivers_connection_of_another_class,
        with_a_cursor_class_of_the_drivers_connection,
        in_a_pipeline,
        where_a_pooler_is_announced,
        on_a_derived_engine,
    ],
)
def test_it_is_inserted_by_a_cursor(client, connection, database_alias, around: Callable[[Any], Any]):
    warm(client)
    before = used(connection)
    with around(connection):
        [job_id] = add(client)
    assert used(connection) == before == [1]
    assert job_id in waiting(database_alias)
    add(client)
    assert used(connection) == [2]


@pytest.mark.parametrize("changes", [{"run_after": FUTURE}, {"unique": a_key()}])
def test_what_may_be_in_the_way_of_another_is_inserted_by_a_cursor(client, connection, changes):
    warm(client)
    add(client, **changes)
    assert used(connection) == [1]


def test_an_id_of_the_callers_is_looked_for(client, connection):
    warm(client)
    job_id = client.new_id()
    assert [added.status.value for _ in range(2) for added in client.add([a_job(id=job_id)])] == ["added"] * 2
    assert used(connection) == [2]
    assert QueuedTask.objects.using(connection.alias).filter(pk=job_id).count() == 1


def test_another_clock_is_heard(database_alias, connection):
    client = DatabaseClientStore(DatabaseOptions(using=database_alias, clock=lambda: 1_000_000_000.0))
    add(client, 2 * ENOUGH)
    assert used(connection) == []
    moments = QueuedTask.objects.using(database_alias).values_list("created_at", flat=True)
    assert {moment.year for moment in moments} == {2001}


def test_a_connection_of_another_thread_is_refused_as_django_does(client, connection, database_alias):
    warm(client)
    errors = []

    def enqueue() -> None:
        connections[database_alias] = connection
        try:
            add(client)
        except StoreRefused as error:
            errors.append(str(error))

    thread = threading.Thread(target=enqueue)
    thread.start()
    thread.join()
    [error] = errors
    assert "can only be used in that same thread" in error


def test_the_driver_is_not_disturbed_by_another_thread(client, connection):
    warm(client)
    driver, entered = connection.connection, []
    real = driver.lock

    class Lock:
        def __enter__(self) -> None:
            entered.append(driver.pgconn.transaction_status)
            real.acquire()

        def __exit__(self, *args: object) -> None:
            entered.append(driver.pgconn.transaction_status)
            real.release()

    driver.lock = Lock()
    add(client)
    driver.lock = real
    assert entered[:2] == [0, 0]


async def test_it_is_not_run_in_an_event_loop(client):
    from django.core.exceptions import SynchronousOnlyOperation

    with pytest.raises(SynchronousOnlyOperation):
        client.add([a_job(id=client.new_id())])


def test_a_transaction_that_is_rolled_back_takes_its_jobs_along(client, connection, database_alias):
    warm(client)
    before = waiting(database_alias)
    with transaction.atomic(using=database_alias):
        add(client, 3)
        transaction.set_rollback(True, using=database_alias)
    assert waiting(database_alias) == before


def test_a_test_case_of_djangos_leaves_no_trace(client, connection):
    """It replaces the method of the object, and puts there what it found."""
    connection.cursor = connection.cursor
    try:
        warm(client)
        assert used(connection) == [1]
    finally:
        del connection.cursor


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_statement_that_somebody_threw_away_is_kept_anew(client, connection, database_alias):
    warm(client)
    connection.connection.execute("DEALLOCATE ALL")
    ids = add(client)
    assert used(connection) == []
    ids += add(client, ENOUGH)
    assert used(connection) == [1]
    assert set(ids) <= waiting(database_alias)


def test_one_that_is_thrown_away_again_and_again_is_given_up(client, connection, database_alias, caplog):
    caplog.set_level("INFO", logger="django_vtasks.stores.database")
    ids = []
    for _ in range(6 * ENOUGH):
        ids += add(client)
        connection.connection.execute("DISCARD ALL")
    ids += add(client, 2 * ENOUGH)
    assert used(connection) == []
    assert waiting(database_alias) == set(ids)
    [line] = [record.getMessage() for record in caplog.records]
    assert "does not exist" in line


def test_what_the_server_will_not_prepare_is_inserted_by_a_cursor(client, connection, database_alias, monkeypatch):
    monkeypatch.setattr("django_vtasks.stores.database.prepared._INSERT", b"INSERT nowhere")
    ids = add(client, 6 * ENOUGH)
    assert used(connection) == []
    assert waiting(database_alias) == set(ids)


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_row_that_the_server_refuses_is_refused_and_the_next_is_taken(client, connection, database_alias, is_kept):
    if is_kept:
        warm(client)
    with pytest.raises(StoreRefused, match="out of range"):
        client.add([a_job(id=client.new_id(), priority=2**40)])
    [job_id] = add(client)
    assert job_id in waiting(database_alias)
    assert used(connection) == ([2] if is_kept else [])


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_session_that_was_killed_is_an_outage_that_a_new_connection_ends(client, connection, is_kept):
    warm(client) if is_kept else add(client)
    kill(connection)
    job_id = client.new_id()
    with pytest.raises(StoreUnavailable):
        client.add([a_job(id=job_id)])
    assert connection.errors_occurred
    connection.close_if_unusable_or_obsolete()
    ids = add(client, ENOUGH)
    assert used(connection) == [1]
    assert set(ids) <= waiting(connection.alias)
    assert job_id not in waiting(connection.alias)


def test_a_session_that_is_killed_while_it_inserts_is_an_outage(client, connection, database_alias):
    warm(client)
    errors, other = [], connection.copy("other")

    def enqueue() -> None:
        mine = DatabaseClientStore(DatabaseOptions(using=database_alias))
        warm(mine)
        pids.put(connections[database_alias].connection.info.backend_pid)
        locked.wait(30)
        try:
            add(mine)
        except StoreUnavailable as error:
            errors.append(str(error))
        connections[database_alias].close()

    pids, locked = Queue(), threading.Event()
    thread = threading.Thread(target=enqueue)
    thread.start()
    pid = pids.get(timeout=30)
    with closing(other), transaction.atomic(using=database_alias), other.cursor() as cursor:
        connection.cursor().execute("LOCK TABLE db_queuedtask IN EXCLUSIVE MODE")
        locked.set()
        waits = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
        eventually(lambda: cursor.execute(waits, [pid]) or cursor.fetchone())
        cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        thread.join(30)
    [error] = errors
    assert "terminating connection" in error


@pytest.mark.parametrize("statuses", [[], [7], [1, 7], [7, 1]])
def test_only_a_server_that_said_so_has_the_job(client, connection, statuses):
    """A result for each thing that libpq has to say; none when the connection broke before the first."""

    def wait(generator: Any) -> list[Any]:
        real(generator)
        return [connection.connection.pgconn.make_empty_result(status) for status in statuses]

    warm(client)
    real, connection.connection.wait = connection.connection.wait, wait
    with pytest.raises((StoreUnavailable, StoreRefused)):
        client.add([a_job(id=client.new_id())])


def test_a_connection_that_django_checks_is_checked(client, connection, monkeypatch):
    warm(client)
    monkeypatch.setitem(connection.settings_dict, "CONN_HEALTH_CHECKS", True)
    kill(connection)
    connection.health_check_enabled, connection.health_check_done = True, False
    [job_id] = add(client)
    assert job_id in waiting(connection.alias)


def test_each_thread_has_its_own(client, connection, database_alias):
    seen = {}

    def enqueue(name: str) -> None:
        add(client, ENOUGH + 1)
        seen[name] = used(connections[database_alias])
        connections[database_alias].close()

    threads = [threading.Thread(target=enqueue, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"a": [2], "b": [2], "c": [2]}
    assert len(waiting(database_alias)) == 3 * (ENOUGH + 1)


def test_it_works_with_the_connection_pool_of_django(client, database_alias):
    with temporary_alias(
        "pooled", url_of(database_alias), CONN_MAX_AGE=0, OPTIONS={"pool": {"min_size": 1, "max_size": 1}}
    ) as alias:
        pooled, ids = DatabaseClientStore(DatabaseOptions(using=alias)), []
        for _ in range(2 * ENOUGH):
            ids += add(pooled)
            used_at_last = used(connections[alias])
            connections[alias].close()
        assert used_at_last == [ENOUGH + 1]
        assert waiting(database_alias) == set(ids)
        connections[alias].close_pool()


def test_behind_a_pooler_that_nobody_announced_no_job_is_lost_or_doubled(database_alias, caplog):
    """Each statement may meet another session of the server."""
    caplog.set_level("INFO", logger="django_vtasks.stores.database")
    two_sessions = {"default_pool_size": 2, "server_round_robin": 1}
    with bouncing(url_of(database_alias), **two_sessions) as url, temporary_alias("bounced", url) as alias:
        client = DatabaseClientStore(DatabaseOptions(using=alias))
        # Two at once, so that the pooler has both to choose from.
        with transaction.atomic(using=alias):
            ids = add(client)
            other = threading.Thread(target=lambda: (ids.extend(add(client)), connections[alias].close()))
            other.start()
            other.join()
        ids += add(client, 8 * ENOUGH)
    assert waiting(database_alias) == set(ids)
    assert len(caplog.records) == 1

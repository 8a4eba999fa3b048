"""Fixtures shared by all tests: servers, database aliases, processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from tests.support import databases
from tests.support.servers import (
    MariaDBServer,
    PostgresServer,
    RedisServer,
    Server,
    ValkeyServer,
    start_or_skip,
)

# The same examples on every run in CI; no deadlines, since the machine is shared.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("local", deadline=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

#: The files that take longest begin first, so that no process is left with one of them when the others are through.
LONGEST = ("tests/acceptance/test_faults", "tests/stores/test_stateful", "tests/acceptance/", "tests/integrations/")

VENDORS = [
    pytest.param("sqlite"),
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For `pytest -n 2 --dist loadfile --no-loadscope-reorder`."""
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    return next((turn for turn, name in enumerate(LONGEST) if item.nodeid.startswith(name)), len(LONGEST))


# -- servers: one of each per test process, started by the first test that asks ---------------------------------------


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """A running Valkey 8; keys of earlier tests may be there, see `clean_valkey`."""
    yield from _running(ValkeyServer())


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A running Redis 7; keys of earlier tests may be there, see `clean_redis`."""
    yield from _running(RedisServer())


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL."""
    yield from _running(PostgresServer())


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDBServer]:
    """A running MariaDB."""
    yield from _running(MariaDBServer())


@pytest.fixture
def start_server() -> Iterator[Callable[[Server], Server]]:
    """Start a server of the test's own, e.g. `start_server(PostgresServer(fsync="on"))`; gone when the test ends."""
    started: list[Server] = []

    def start[AnyServer: Server](server: AnyServer) -> AnyServer:
        started.append(server)
        start_or_skip(server)
        return server

    yield start
    for server in started:
        server.discard()


@pytest.fixture
def clean_valkey(valkey_server: ValkeyServer) -> ValkeyServer:
    """A running Valkey without keys."""
    return _emptied(valkey_server)


@pytest.fixture
def clean_redis(redis_server: RedisServer) -> RedisServer:
    """A running Redis without keys."""
    return _emptied(redis_server)


@pytest.fixture(
    params=[pytest.param("valkey", marks=pytest.mark.valkey), pytest.param("redis", marks=pytest.mark.redis)]
)
def keyvalue_server(request: pytest.FixtureRequest) -> ValkeyServer | RedisServer:
    """Valkey 8 and Redis 7 in turn, without keys."""
    return request.getfixturevalue(f"clean_{request.param}")


# -- databases: one run covers the three vendors ----------------------------------------------------------------------


@pytest.fixture(scope="session")
def sqlite_alias(django_db_setup: None, django_db_blocker: object, tmp_path_factory) -> Iterator[str]:
    """The alias of a migrated SQLite file; pytest-django's own `default` stays apart."""
    file = tmp_path_factory.mktemp("sqlite") / "vtasks.sqlite3"
    yield from databases.migrated_alias("sqlite", f"sqlite://{file}", django_db_blocker)


@pytest.fixture(scope="session")
def postgres_alias(django_db_setup: None, postgres_server: PostgresServer, django_db_blocker: object) -> Iterator[str]:
    """The alias of a migrated PostgreSQL database."""
    yield from databases.migrated_alias("postgres", postgres_server.url, django_db_blocker)


@pytest.fixture(scope="session")
def mariadb_alias(django_db_setup: None, mariadb_server: MariaDBServer, django_db_blocker: object) -> Iterator[str]:
    """The alias of a migrated MariaDB database."""
    databases.require_mysqlclient()
    yield from databases.migrated_alias("mariadb", mariadb_server.url, django_db_blocker)


@pytest.fixture(params=VENDORS)
def database_alias(request: pytest.FixtureRequest, django_db_blocker: object) -> Iterator[str]:
    """The alias of an empty, migrated database of each vendor in turn, open to every thread.

    Do not combine with `django_db`: rows are committed, as a worker sees them, and deleted after the test.
    """
    alias = request.getfixturevalue(f"{request.param}_alias")
    with django_db_blocker.unblock():
        yield alias
        databases.empty(alias)


def _running[AnyServer: Server](server: AnyServer) -> Iterator[AnyServer]:
    start_or_skip(server)
    yield server
    server.discard()


def _emptied[AnyServer: Server](server: AnyServer) -> AnyServer:
    start_or_skip(server)
    server.resume()
    server.flush()
    return server

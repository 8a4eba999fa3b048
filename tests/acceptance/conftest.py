"""A project on each kind of store, worked on by real processes."""

from __future__ import annotations

import json
import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import databases
from tests.support.interpreter import Interpreter
from tests.support.processes import ManagedProcess, manage
from tests.support.servers import MariaDBServer, PostgresServer, ValkeyServer
from tests.support.waiting import eventually

FAST = {
    "VTASKS_HEARTBEAT_INTERVAL": 0.5,
    "VTASKS_LEASE_SECONDS": 2,
    "VTASKS_RESCUE_INTERVAL": 0.5,
    "VTASKS_SHUTDOWN_TIMEOUT": 20,
}


OPEN: list[Site] = []
"""Those of a running test."""


class Site:
    """One project: its environment, code run in it, and its workers."""

    def __init__(self, folder: Path, env: dict[str, str], settings: dict[str, object]) -> None:
        self.folder = folder
        self.settings = settings
        self._env = env
        self._interpreter: Interpreter | None = None

    def env(self, **settings: object) -> dict[str, str]:
        return self._env | {"VTASKS_TEST_SETTINGS": json.dumps(self.settings | settings)}

    def migrate(self) -> None:
        manage("migrate", "--verbosity", "0", env=self.env())

    def python(self, code: str) -> str:
        """Run code that has the tasks at hand, as the site's web process would; return what it printed."""
        if self._interpreter is None or self._interpreter.env != self.env():
            self.close()
            OPEN.append(self)
            self._interpreter = Interpreter(PRELUDE, "connections.close_all()", self.env())
        return self._interpreter.run(code)

    def close(self) -> None:
        """End the process that runs code."""
        if self._interpreter is not None:
            self._interpreter.close()

    def enqueue(self, *calls: str) -> list[str]:
        """Enqueue calls written as code, e.g. `add, 1, 2`; return their ids."""
        return json.loads(self.python(f"show([enqueued({', '.join(f'({call},)' for call in calls)})][0])"))

    def results(self, ids: list[str]) -> dict[str, dict[str, object]]:
        """What the results of jobs say, by id."""
        return json.loads(self.python(f"show(results({ids!r}))"))

    def statuses(self, ids: list[str]) -> list[object]:
        found = self.results(ids)
        return [found[job]["status"] for job in ids]

    def until_statuses(self, ids: list[str], expected: list[str]) -> None:
        eventually(lambda: self.statuses(ids) == expected, within=60, message=lambda: str(self.results(ids)))

    def effects(self) -> dict[str, int]:
        """How often each label was recorded."""
        return json.loads(self.python("show(effects())"))

    def worker(self, *arguments: str, **settings: object) -> ManagedProcess:
        return ManagedProcess("runworker", *arguments, env=self.env(**settings))

    def freeze(self, process: ManagedProcess) -> None:
        """Stop a process, but not while it holds the lock of an SQLite file: that would keep everybody out."""
        with self._nobody_writing():
            process.pause()

    @contextmanager
    def _nobody_writing(self) -> Iterator[None]:
        scheme, _, file = self._env["VTASKS_TEST_DB_URL"].partition("://")
        if scheme != "sqlite":
            yield
            return
        with closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            yield

    def path(self, name: str) -> str:
        return str(self.folder / name)


PRELUDE = """
import collections, json
import django; django.setup()
from django.db import connections
from django.tasks import task_backends
from tests.project.models import Effect
from tests.project.tasks import *
backend = task_backends["default"]

def show(value):
    print(json.dumps(value, default=str))

def enqueued(*calls):
    return [str(task.enqueue(*args).id) for task, *args in calls]

def results(ids):
    found = {}
    for job in ids:
        result = backend.get_result(job)
        found[job] = {
            "status": result.status.value,
            "workers": result.worker_ids,
            "attempts": result.attempts,
            "errors": [error.exception_class_path for error in result.errors],
        }
    return found

def effects():
    return dict(collections.Counter(Effect.objects.values_list("label", flat=True)))
"""


@pytest.fixture(autouse=True)
def sites_are_closed() -> Iterator[None]:
    """Ends the processes that run code."""
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory) -> Path:
    """A migrated SQLite file to copy."""
    file = tmp_path_factory.mktemp("migrated") / "db.sqlite3"
    manage("migrate", "--verbosity", "0", env={"VTASKS_TEST_DB_URL": f"sqlite://{file}"})
    return file


@pytest.fixture
def sqlite_site(tmp_path, migrated_file) -> Site:
    """Jobs in an SQLite file."""
    file = tmp_path / "db.sqlite3"
    shutil.copy(migrated_file, file)
    return Site(tmp_path, {"VTASKS_TEST_DB_URL": f"sqlite://{file}"}, FAST)


@pytest.fixture
def postgres_site(tmp_path, postgres_server) -> Site:
    """Jobs in PostgreSQL, in a database of the test's own."""
    return _database_site("postgres", tmp_path, _new_database(postgres_server))


@pytest.fixture
def mariadb_site(tmp_path, mariadb_server) -> Site:
    """Jobs in MariaDB or MySQL, in a database of the test's own."""
    databases.require_mysqlclient()
    return _database_site("mariadb", tmp_path, _new_database(mariadb_server))


@pytest.fixture
def valkey_site(tmp_path, sqlite_site, clean_valkey) -> Site:
    """Jobs in Valkey, effects in an SQLite file."""
    return _valkey_site(sqlite_site, clean_valkey)


SERVED = [
    pytest.param("postgres", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
    pytest.param("valkey", marks=pytest.mark.valkey),
]


@pytest.fixture(params=SERVED)
def served_site(request, tmp_path, sqlite_site, start_server):
    """A project and the server, its own, that has its jobs."""
    if request.param == "valkey":
        server = start_server(ValkeyServer())
        return _valkey_site(sqlite_site, server), server
    if request.param == "mariadb":
        databases.require_mysqlclient()
    server = start_server(PostgresServer() if request.param == "postgres" else MariaDBServer())
    return _database_site(request.param, tmp_path, server.url), server


def _database_site(kind: str, folder: Path, url: str) -> Site:
    site = Site(folder, {"VTASKS_TEST_DB": kind, "VTASKS_TEST_DB_URL": url}, FAST)
    site.migrate()
    return site


def _valkey_site(sqlite_site: Site, server) -> Site:
    backend = "django_vtasks.backends.valkey.ValkeyTaskBackend"
    tasks = {"default": {"BACKEND": backend, "OPTIONS": {"BROKER_URL": server.url}}}
    return Site(sqlite_site.folder, sqlite_site._env, FAST | {"TASKS": tasks})


@pytest.fixture(params=["sqlite", *SERVED])
def site(request) -> Site:
    """A project on each kind of store in turn."""
    return request.getfixturevalue(f"{request.param}_site")


def _new_database(server) -> str:
    name = f"site_{uuid.uuid4().hex[:12]}"
    quote = "`" if isinstance(server, MariaDBServer) else '"'
    connection = _administrator(server)
    connection.cursor().execute(f"CREATE DATABASE {quote}{name}{quote}")
    connection.close()
    return f"{server.url.rpartition('/')[0]}/{name}"


def _administrator(server):
    if isinstance(server, MariaDBServer):
        import MySQLdb

        parts = urlsplit(server.url)
        return MySQLdb.connect(
            host=parts.hostname, port=parts.port, user=parts.username, password=parts.password or ""
        )
    import psycopg

    return psycopg.connect(server.url, autocommit=True)

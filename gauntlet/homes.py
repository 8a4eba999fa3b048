"""Where the jobs of a run live: a private server, how processes reach it, and what is left in it at the end."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from gauntlet.disks import SmallDisk
from gauntlet.waiting import PATIENCE
from tests.support.processes import manage
from tests.support.servers import PostgresServer, Server, ValkeyServer

PLAIN_APPS = ["django.contrib.contenttypes", "django_vtasks", "tests.project"]
DATABASE_APPS = [*PLAIN_APPS, "django_vtasks.db"]
#: The test project's own lead to the admin, which workers of a run do without.
URLS = "django_vtasks.empty_urls"


class Home(ABC):
    """A store of one kind. `template` is a folder made once by `make_template` that saves each run the setup."""

    name: ClassVar[str]
    #: Whether there is a server process that can be frozen, restarted or cut off.
    served: ClassVar[bool] = True
    apps: ClassVar[list[str]] = DATABASE_APPS

    def __init__(self, folder: Path, template: Path | None) -> None:
        self.folder = folder
        self.template = template
        self.server: Server | None = None

    @abstractmethod
    def start(self) -> None:
        """Make it ready for processes."""

    @abstractmethod
    def settings(self, port: int | None = None) -> dict[str, Any]:
        """Django settings that lead there, through another port if given."""

    @abstractmethod
    def environment(self, port: int | None = None) -> dict[str, str]:
        """Environment variables that lead there."""

    @abstractmethod
    def leftovers(self) -> list[str]:
        """What is left of jobs and workers that are over; called in a process with Django set up."""

    @abstractmethod
    def push(self, queue: str, raw: bytes) -> None:
        """Put bytes into a queue as a foreign producer might; called in a process with Django set up."""

    @abstractmethod
    def abandon(self, queue: str, worker: str) -> None:
        """Make what is ready in a queue what a dead worker of the 3.2 line had in flight; called as `push`."""

    def takes_writes(self) -> bool:
        """Whether one more process may write at this moment."""
        return True

    def ended_who_stood_still(self) -> bool:
        """Whether the server ended the session of somebody who did nothing in the midst of a transaction."""
        return self.server is not None and "idle-in-transaction timeout" in self.server.log_text()

    @property
    def port(self) -> int:
        """The server's port."""
        assert self.server is not None
        return self.server.port

    def stop(self) -> None:
        """End the server and remove its data."""
        if self.server is not None:
            self.server.discard()

    @classmethod
    def make_template(cls, folder: Path) -> Path | None:
        """Prepare what every run of this store needs, in `folder`."""
        return None


class ValkeyHome(Home):
    """Valkey, with its log of every answered write on, so that a restart finds the jobs again."""

    name = "valkey"
    apps = PLAIN_APPS

    def start(self) -> None:
        self.server = ValkeyServer(options=("--appendfsync", "always"))
        self.server.start()

    def settings(self, port: int | None = None) -> dict[str, Any]:
        backend = "django_vtasks.backends.valkey.ValkeyTaskBackend"
        url = f"redis://127.0.0.1:{port or self.port}/0"
        return {"TASKS": {"default": {"BACKEND": backend, "OPTIONS": {"BROKER_URL": url}}}}

    def environment(self, port: int | None = None) -> dict[str, str]:
        return {"VTASKS_TEST_DB_URL": f"sqlite://{self.folder}/project.sqlite3"}

    def leftovers(self) -> list[str]:
        with self.client() as client:
            return [f"the key {key.decode()}" for key in sorted(client.scan_iter()) if _is_leftover(key.decode())]

    def push(self, queue: str, raw: bytes) -> None:
        with self.client() as client:
            client.lpush(f"{{vt}}:q:{queue}", raw)

    def abandon(self, queue: str, worker: str) -> None:
        with self.client() as client:
            while client.lmove(f"{{vt}}:q:{queue}", f"{{vt}}:processing:{worker}", "RIGHT", "LEFT"):
                pass

    def client(self):
        """A plain client of the driver."""
        import valkey

        return valkey.Valkey(port=self.port, socket_timeout=10)

    def forget(self) -> None:
        """Remove the data of the server, which must not run, as a server without a disk would on its end."""
        assert self.server is not None
        shutil.rmtree(self.server.folder / "data" / "appendonlydir")


#: Keys that belong to jobs that are not over, or to workers that are not gone.
LIVE_KEYS = {"inflight", "leases", "workers", "processing", "unique", "cancels", "progress", "sched", "schedh", "prio"}
LIVE_KEYS |= {"permits", "limq", "lim", "limwait"}


def _is_leftover(key: str) -> bool:
    kind = key.partition(":")[2].partition(":")[0]
    return kind in LIVE_KEYS or (kind == "q" and not key.endswith("q:failed"))


class DatabaseHome(Home):
    """What PostgreSQL and SQLite share."""

    @abstractmethod
    def url(self, port: int | None) -> str:
        """The address as the test project reads it."""

    def settings(self, port: int | None = None) -> dict[str, Any]:
        return {}

    def environment(self, port: int | None = None) -> dict[str, str]:
        return {"VTASKS_TEST_DB_URL": self.url(port)}

    def push(self, queue: str, raw: bytes) -> None:
        from django.apps import apps

        apps.get_model("db", "QueuedTask").objects.create(queue=queue, data=raw)

    def abandon(self, queue: str, worker: str) -> None:
        from django.apps import apps

        jobs = apps.get_model("db", "QueuedTask").objects.filter(queue=queue, status="QUEUED")
        jobs.update(status="PROCESSING", worker_id=worker)

    def leftovers(self) -> list[str]:
        from django.db import connection

        found = []
        with connection.cursor() as cursor:
            cursor.execute("SELECT status, count(*) FROM db_queuedtask WHERE status <> 'FAILED' GROUP BY status")
            found += [f"{count} rows of jobs with status {status}" for status, count in cursor.fetchall()]
            cursor.execute("SELECT count(*) FROM db_uniquelock")
            found += [f"{count} unique locks" for (count,) in cursor.fetchall() if count]
            cursor.execute("SELECT count(*) FROM db_limitgroup")
            found += [f"{count} groups of jobs that wait for their limit" for (count,) in cursor.fetchall() if count]
            cursor.execute("SELECT key FROM db_vtaskmetadata WHERE key LIKE '%worker%'")
            found += [f"the metadata row {key}" for (key,) in cursor.fetchall()]
        return found


class PostgresHome(DatabaseHome):
    """PostgreSQL that writes through, so that a crash of the server loses nothing."""

    name = "postgres"

    def start(self) -> None:
        self.server = _CopiedPostgres(self.template)
        self.server.start()
        if self.template is None:
            _migrate(self.url(None))

    def move_to_a_small_disk(self, *, with_log: bool) -> SmallDisk:
        """Have the server go on with its data on a disk that can be filled, and its log of changes there or not."""
        assert isinstance(self.server, _CopiedPostgres)
        self.server.stop()
        self.server.move_to_a_small_disk(with_log=with_log)
        self.server.start()
        assert self.server.disk is not None
        return self.server.disk

    def url(self, port: int | None) -> str:
        return f"postgresql://postgres@127.0.0.1:{port or self.port}/vtasks"

    def client(self):
        """A plain connection of the driver."""
        import psycopg

        return psycopg.connect(self.url(None), autocommit=True)

    @classmethod
    def make_template(cls, folder: Path) -> Path | None:
        server = _CopiedPostgres(None)
        server.start()
        try:
            _migrate(server.url)
            server.stop()
            subprocess.run(["cp", "-a", str(server.folder / "data"), str(folder / "postgres")], check=True)
        finally:
            server.discard()
        return folder / "postgres"


class _CopiedPostgres(PostgresServer):
    """A server whose data is a copy of the template's."""

    def __init__(self, template: Path | None) -> None:
        super().__init__(fsync="on")
        self.external_url = ""
        self.disk: SmallDisk | None = None
        self._template = template

    @property
    def user(self) -> str | None:
        # What leads a process to the disk takes our rights, and drops them.
        return super().user if self.disk is None else None

    def command(self, data: Path) -> list[str]:
        command = super().command(data)
        return command if self.disk is None else self.disk.inside(*command)

    def move_to_a_small_disk(self, *, with_log: bool) -> None:
        """Put the data onto a disk that can be filled. The server must not run."""
        data = self.folder / "data"
        if not with_log:
            (data / "pg_wal").rename(self.folder / "wal")
            (data / "pg_wal").symlink_to(self.folder / "wal")
        self.disk = SmallDisk(data, user=self.user)

    def discard(self) -> None:
        super().discard()
        if self.disk is not None:
            self.disk.close()

    def prepare(self, data: Path) -> None:
        if self._template is None:
            super().prepare(data)
        else:
            subprocess.run(["cp", "-a", f"{self._template}/.", str(data)], check=True)


class SqliteHome(DatabaseHome):
    """An SQLite file, as one would set it up for several processes: with its write-ahead log."""

    name = "sqlite"
    served = False

    def settings(self, port: int | None = None) -> dict[str, Any]:
        pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"
        options = {"timeout": 20, "transaction_mode": "IMMEDIATE", "init_command": pragmas}
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(self._file), "OPTIONS": options}
        return {"DATABASES": {"default": database}}

    def start(self) -> None:
        if self.template is None:
            _migrate(self.url(None))
        else:
            shutil.copy(self.template, self._file)

    def takes_writes(self) -> bool:
        with closing(sqlite3.connect(self._file, timeout=0.5 * PATIENCE, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
            connection.execute("ROLLBACK")
            return True

    def url(self, port: int | None) -> str:
        return f"sqlite://{self._file}"

    @property
    def _file(self) -> Path:
        return self.folder / "db.sqlite3"

    @classmethod
    def make_template(cls, folder: Path) -> Path | None:
        file = folder / "template.sqlite3"
        _migrate(f"sqlite://{file}")
        return file


HOMES: dict[str, type[Home]] = {home.name: home for home in (ValkeyHome, PostgresHome, SqliteHome)}


def _migrate(url: str) -> None:
    settings = json.dumps({"INSTALLED_APPS": DATABASE_APPS, "ROOT_URLCONF": URLS})
    manage(
        "migrate",
        *("--verbosity", "0"),
        env={"VTASKS_TEST_DB_URL": url, "VTASKS_TEST_SETTINGS": settings},
        timeout=180,
    )

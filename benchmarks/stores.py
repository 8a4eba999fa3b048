"""The private servers, and an empty store for each run."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import psycopg

from tests.support.servers import PostgresServer, ValkeyServer

type MakeTables = Callable[[str], None]


class Stores:
    """Starts each server when it is first asked for; `close` ends them all."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vtasks-bench-"))
        self._postgres: PostgresServer | None = None
        self._valkey: ValkeyServer | None = None
        self._made: set[str] = set()

    def fresh(self, store: str, owner: str, make_tables: MakeTables) -> str:
        """The URL of an empty store. `make_tables` is called once for an owner; later runs get copies."""
        if store == "valkey":
            return self._fresh_valkey(make_tables)
        name = f"template_{owner}_{store}".replace("-", "_").replace(".", "_")
        copy = self._copy_file if store == "sqlite" else self._copy_database
        if name not in self._made:
            make_tables(copy("", name))
            self._made.add(name)
        return copy(name, "run")

    def commands(self, store: str, url: str) -> int | None:
        """What the server was asked so far: commands, on PostgreSQL transactions; None where nobody counts."""
        if store == "valkey":
            assert self._valkey is not None
            return int(self._info("total_commands_processed"))
        if store == "postgres":
            with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
                row = connection.execute(
                    "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s",
                    (url.rpartition("/")[2],),
                ).fetchone()
            return int(row[0]) if row else None
        return None

    def close(self) -> None:
        """End the servers and remove their data."""
        for server in (self._postgres, self._valkey):
            if server is not None:
                server.discard()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _fresh_valkey(self, make_tables: MakeTables) -> str:
        if self._valkey is None:
            self._valkey = ValkeyServer()
            self._valkey.start()
        self._valkey.flush()
        make_tables(self._valkey.url)
        return self._valkey.url

    def _info(self, name: str) -> str:
        import valkey

        assert self._valkey is not None
        with contextlib.closing(valkey.Valkey.from_url(self._valkey.url)) as client:
            return str(client.info("stats")[name])

    def _copy_file(self, template: str, name: str) -> str:
        target = self._folder / f"{name}.sqlite3"
        for old in self._folder.glob(f"{name}.sqlite3*"):
            old.unlink()
        if template:
            for part in self._folder.glob(f"{template}.sqlite3*"):
                shutil.copy(part, self._folder / part.name.replace(template, name, 1))
        return str(target)

    def _copy_database(self, template: str, name: str) -> str:
        if self._postgres is None:
            self._postgres = PostgresServer(fsync="on")
            self._postgres.start()
        url = self._postgres.url.rpartition("/")[0]
        with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
            for part in filter(None, (template, name)):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (part,)
                )
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        return f"{url}/{name}"

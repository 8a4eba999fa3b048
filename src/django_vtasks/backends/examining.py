"""What the doctor looks at in a store's server, and what it makes of it. Unlike the checks, this opens connections."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.conf import settings as django_settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from ..conf import settings

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from ..stores.database.options import DatabaseOptions
    from ..stores.valkey.options import ValkeyOptions

CLOCK_SLACK = 5.0
"""Seconds that the server's clock may differ from this host's."""

SPARE_CONNECTIONS = 10
"""Connections that a worker and the web need beside one for each attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """Something that does not work (`error`), will hurt one day (`warning`), or costs (`hint`), and what to do."""

    severity: str
    text: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What a server is, as facts by name, and what is wrong with it."""

    facts: Mapping[str, str] = field(default_factory=dict)
    symptoms: tuple[Symptom, ...] = ()


# -- databases --------------------------------------------------------------------------------------------------------


def examine_database(options: "DatabaseOptions") -> Examination:
    """Look at the database of a store. Raises what Django raises when it cannot be reached."""
    from ..stores.database.client import alias_of

    connection = connections[alias_of(options)]
    connection.ensure_connection()
    facts = {
        "database": connection.alias,
        "server": f"{connection.display_name} {'.'.join(map(str, connection.get_database_version()))}",
    }
    symptoms = [*_migrations(connection), *judge_connection(connection.settings_dict, connection.vendor)]
    if connection.vendor == "sqlite":
        facts["journal_mode"] = str(_value(connection, "PRAGMA journal_mode"))
        symptoms += judge_sqlite(facts["journal_mode"], connection.settings_dict)
    else:
        limit = int(_value(connection, _MAX_CONNECTIONS[connection.vendor]))
        facts["max_connections"] = str(limit)
        concurrency = settings.VTASKS_CONCURRENCY
        symptoms += judge_connections(limit, concurrency if isinstance(concurrency, int) else 0)
        symptoms += judge_clock(_now(connection, options))
    if not connection.features.has_select_for_update_skip_locked and connection.vendor != "sqlite":
        symptoms.append(_NO_SKIP_LOCKED)
    return Examination(facts=facts, symptoms=tuple(symptoms))


_MAX_CONNECTIONS = {"postgresql": "SHOW max_connections", "mysql": "SELECT @@max_connections"}

_NO_SKIP_LOCKED = Symptom(
    severity="warning",
    text="This server has no SKIP LOCKED, so workers wait for each other when they claim.",
    hint="MySQL has it since 8.0.1, MariaDB since 10.6.",
)


def _migrations(connection: "BaseDatabaseWrapper") -> Iterator[Symptom]:
    executor = MigrationExecutor(connection)
    nodes = [node for node in executor.loader.graph.leaf_nodes() if node[0] == "db"]
    missing = [migration.name for migration, _ in executor.migration_plan(nodes)]
    if missing:
        where = "" if connection.alias == DEFAULT_DB_ALIAS else f" --database {connection.alias}"
        yield Symptom(
            severity="error",
            text=f"Migrations are not applied: {', '.join(missing)}.",
            hint=f"Run manage.py migrate db{where}.",
        )


def judge_connection(entry: Mapping[str, Any], vendor: str) -> Iterator[Symptom]:
    """What is wrong with an entry of DATABASES for a worker."""
    options = entry.get("OPTIONS") or {}
    if not entry.get("AUTOCOMMIT", True):
        yield Symptom(
            severity="error",
            text="AUTOCOMMIT is False, so a job that is enqueued outside of a transaction is never committed.",
            hint="Remove it from DATABASES, or commit by hand after every enqueue.",
        )
    if entry.get("CONN_MAX_AGE") == 0 and not options.get("pool") and vendor != "sqlite":
        yield Symptom(
            severity="hint",
            text="CONN_MAX_AGE is 0: every attempt that uses the database connects anew.",
            hint="Set it to 60 or so, with CONN_HEALTH_CHECKS, or use a pool; in settings for workers if not for all.",
        )


def judge_sqlite(journal_mode: str, entry: Mapping[str, Any]) -> Iterator[Symptom]:
    """What is wrong with an SQLite database that several processes write."""
    name = str(entry.get("NAME"))
    if journal_mode == "memory" or ":memory:" in name or "mode=memory" in name:
        yield Symptom(
            severity="error",
            text="The database is in the memory of this process: a worker is another one and sees no job.",
            hint="Use a file.",
        )
        return
    options = entry.get("OPTIONS") or {}
    if journal_mode != "wal":
        yield Symptom(
            severity="warning",
            text=f"journal_mode is {journal_mode}: whoever reads keeps the others from writing.",
            hint='In DATABASES, set OPTIONS["init_command"] to "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL".',
        )
    if str(options.get("transaction_mode", "")).upper() not in ("IMMEDIATE", "EXCLUSIVE"):
        yield Symptom(
            severity="warning",
            text="Transactions begin as readers: one that comes to write while a worker writes fails ('locked').",
            hint='In DATABASES, set OPTIONS["transaction_mode"] to "IMMEDIATE".',
        )


def judge_connections(limit: int, concurrency: int) -> Iterator[Symptom]:
    """Whether one worker's attempts may use up what the server allows."""
    if concurrency + SPARE_CONNECTIONS > limit:
        yield Symptom(
            severity="warning",
            text=f"A worker may use a connection for each of its {concurrency} slots; the server has {limit} in all.",
            hint="Lower VTASKS_CONCURRENCY, raise the server's max_connections, or put a pooler in between.",
        )


def judge_clock(server: float, host: float | None = None) -> Iterator[Symptom]:
    """Whether the server's clock (epoch seconds) is this host's."""
    ahead = server - (time.time() if host is None else host)
    if abs(ahead) > CLOCK_SLACK:
        yield Symptom(
            severity="warning",
            text=f"The server's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this host's.",
            hint="Delays and leases go by the server's, run_after moments by the host's: synchronise both.",
        )


def _value(connection: "BaseDatabaseWrapper", statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def _now(connection: "BaseDatabaseWrapper", options: "DatabaseOptions") -> float:
    from ..stores.database.session import client_session

    with client_session(connection, options) as session:
        return session.now()


# -- Valkey and Redis -------------------------------------------------------------------------------------------------


def examine_valkey(options: "ValkeyOptions") -> Examination:
    """Look at the server of a store. Raises StoreUnavailable, StoreRefused or InvalidOptions."""
    from ..stores.valkey.information import server_information, shares_database

    told = server_information(options)
    name = "Valkey" if "valkey_version" in told else "Redis"
    facts = {
        "server": f"{name} {told.get('valkey_version') or told.get('redis_version', 'of unknown version')}",
        "maxmemory": told.get("maxmemory_human", told.get("maxmemory", "unknown")),
        "maxmemory_policy": told.get("maxmemory_policy", "unknown"),
        "appendonly": "yes" if told.get("aof_enabled") == "1" else "no",
    }
    shared = [name for name, entry in django_settings.CACHES.items() if shares_database(options, entry)]
    symptoms = [*judge_valkey(told, cluster=options.cluster), *judge_sharing(shared)]
    symptoms += judge_clock(float(told["time"]))
    return Examination(facts=facts, symptoms=tuple(symptoms))


OLDEST_REDIS = (6, 2)


def judge_valkey(told: Mapping[str, str], *, cluster: bool) -> Iterator[Symptom]:
    """What is wrong with a server that says this of itself (fields of INFO)."""
    yield from _judge_kind(told, cluster=cluster)
    policy, limit = told.get("maxmemory_policy", "noeviction"), int(told.get("maxmemory", 0))
    if policy != "noeviction":
        yield Symptom(
            severity="error" if limit else "warning",
            text=f"maxmemory-policy is {policy}: when memory is short, the server deletes jobs without a word.",
            hint="Set maxmemory-policy to noeviction, or use a server of its own for jobs.",
        )
    used = int(told.get("used_memory", 0))
    if limit and used > 0.9 * limit:
        yield Symptom(
            severity="error" if used >= limit else "warning",
            text=f"{used / limit:.0%} of maxmemory is used; beyond it nothing can be enqueued.",
            hint="Raise maxmemory, or keep results for a shorter time (VTASKS_RESULT_TTL).",
        )
    if told.get("aof_enabled") == "0":
        yield Symptom(
            severity="warning",
            text="appendonly is off: jobs since the last snapshot are lost when the server crashes.",
            hint="Set appendonly to yes unless they may be lost.",
        )


def _judge_kind(told: Mapping[str, str], *, cluster: bool) -> Iterator[Symptom]:
    version = tuple(int(part) for part in told.get("redis_version", "0").split(".")[:2] if part.isdigit())
    if version < OLDEST_REDIS:
        yield Symptom(
            severity="error",
            text=f"The server speaks as Redis {told.get('redis_version')}, which is older than 6.2.",
            hint="Use Valkey, or Redis 6.2 or newer.",
        )
    if told.get("role") == "slave":
        yield Symptom(
            severity="error",
            text="The server is a replica and takes no writes.",
            hint="Name the primary, or the Sentinels that know it.",
        )
    if told.get("cluster_enabled") == "1" and not cluster:
        yield Symptom(
            severity="error",
            text="The server is part of a cluster, and CLUSTER_MODE is not set.",
            hint="Set OPTIONS['CLUSTER_MODE'] to True.",
        )


def judge_sharing(caches: list[str]) -> Iterator[Symptom]:
    """What is wrong when entries of CACHES are in the database of the jobs."""
    if caches:
        yield Symptom(
            severity="warning",
            text=f"CACHES {', '.join(map(repr, caches))} is in the same database: cache.clear() deletes every job.",
            hint="Give jobs another database number or, better, a server of their own.",
        )

"""How long the admin's lists take with a million jobs: `python -m benchmarks.lists [--jobs N] [store ...]`.

Fills a store (sqlite, postgres, mariadb, valkey) of its own with ready and delayed jobs and dead letters, asks for
what the pages ask for, and prints how long each question took, how much of that was work of this process and of the
server, and how much memory all of them took together. A busy machine makes a question wait, but not work.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import batched
from pathlib import Path
from typing import Any

import django

LETTERS = 10_000
DELAYED = 0.1
TASKS = 20
FILL = 2_000
ENQUEUED = 20_000
"""So many jobs are enqueued; the others are copies of them."""
BOUND = 1.0
"""Seconds of work, here and in the server, that no question may take."""


def main() -> int:
    """Fill and ask each store that was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=["sqlite", "postgres", "mariadb", "valkey"])
    parser.add_argument("--jobs", type=int, default=1_000_000)
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.project.settings")
    django.setup()
    slow = [question for name in options.stores for question in measured(name, options.jobs)]
    sys.stdout.write(f"\nmore work than {BOUND:g} s: {', '.join(slow) or 'nothing'}\n")
    return bool(slow)


def measured(name: str, jobs: int) -> list[str]:
    """Ask one store everything; returns what took too long."""
    with tempfile.TemporaryDirectory() as folder:
        client, admin, server = opened(name, Path(folder))
        try:
            began = time.monotonic()
            fill(client, admin, jobs)
            show(
                f"\n{name}: {jobs:,} jobs and {LETTERS:,} dead letters, put in within {time.monotonic() - began:.0f} s"
            )
            return list(asked(name, admin, jobs, server))
        finally:
            if server is not None:
                server.discard()


def opened(name: str, folder: Path) -> tuple[Any, Any, Any]:
    """The stores of applications and operators, and the server that was started for them (None: there is none)."""
    from tests.support.servers import MariaDBServer, PostgresServer, ValkeyServer

    if name == "valkey":
        from django_vtasks.stores.valkey.store import ValkeyAdminStore, ValkeyClientStore, ValkeyOptions

        server: Any = ValkeyServer()
        server.start()
        options = ValkeyOptions(urls=(server.url,), dead_letter_cap=LETTERS)
        client = ValkeyClientStore(options)
        return Keyed(client, server.url), ValkeyAdminStore(options), server
    if name == "sqlite":
        return *database(f"sqlite://{folder}/jobs.sqlite3"), None
    server = {"postgres": PostgresServer, "mariadb": MariaDBServer}[name]()
    server.start()
    return *database(server.url), server


def database(url: str) -> tuple[Any, Any]:
    """The stores over a migrated database."""
    from django.core.management import call_command
    from django.db import connections

    from django_vtasks.stores.database.store import DatabaseAdminStore, DatabaseClientStore, DatabaseOptions
    from tests.project.dburl import settings_from_url

    connections.settings["lists"] = connections.configure_settings({"default": {}, "lists": settings_from_url(url)})[
        "lists"
    ]
    if hasattr(connections._connections, "lists"):
        del connections["lists"]
    call_command("migrate", "db", database="lists", verbosity=0)
    options = DatabaseOptions(using="lists", dead_letter_cap=LETTERS)
    return DatabaseClientStore(options), DatabaseAdminStore(options)


class Keyed:
    """A client store of Valkey that knows its server."""

    _keys = True

    def __init__(self, client: Any, url: str) -> None:
        self.add, self.new_id, self.url = client.add, client.new_id, url


# --- filling ---------------------------------------------------------------------------------------------------------


def fill(client: Any, admin: Any, jobs: int) -> None:
    """Ready jobs of twenty tasks on five queues, a tenth of them delayed, and dead letters of fifty causes."""
    first = min(jobs, ENQUEUED)
    for chunk in batched(made(client, first), FILL):
        client.add(chunk)
    if jobs > first:
        multiply(client, jobs)
    for chunk in batched(buried(client), FILL):
        admin.restore(chunk)


NEW_IDS = {
    "sqlite": "lower(hex(randomblob(16)))",
    "postgresql": "gen_random_uuid()",
    "mysql": "REPLACE(UUID(), '-', '')",
}


def multiply(client: Any, jobs: int) -> None:
    """Copy what was enqueued until there are so many, past the store, which would take its time."""
    if hasattr(client, "_keys"):
        multiply_keys(client, jobs)
        return
    from django.db import connections

    connection = connections["lists"]
    new_id = NEW_IDS[connection.vendor]
    columns = "queue, data, status, created_at, priority, run_after"
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT COUNT(*) FROM db_queuedtask")
            missing = jobs - cursor.fetchone()[0]
            if missing <= 0:
                break
            cursor.execute(
                f"INSERT INTO db_queuedtask (id, {columns}) SELECT {new_id}, {columns} FROM db_queuedtask"
                f" WHERE queue <> 'tail' LIMIT {missing}"
            )
        cursor.execute(f"ANALYZE {'TABLE' if connection.vendor == 'mysql' else ''} db_queuedtask")
        if connection.vendor == "postgresql":
            cursor.execute("VACUUM db_queuedtask")


def multiply_keys(client: Any, jobs: int) -> None:
    """As a producer of the 3.2 line would add them."""
    import valkey

    from django_vtasks.jobs.codec import encode

    server = valkey.Valkey.from_url(client.url)
    for chunk in batched(made(client, jobs - ENQUEUED), FILL):
        with server.pipeline(transaction=False) as pipeline:
            for job in chunk:
                if job.run_after is None:
                    pipeline.lpush(f"{{vt}}:q:{job.queue}", encode(job))
                else:
                    pipeline.zadd(f"{{vt}}:sched:{job.queue}", {encode(job): job.run_after})
            pipeline.execute()


def made(client: Any, jobs: int) -> Iterator[Any]:
    """The jobs: one in a hundred on a queue of its own priority, one alone of a rare task, the last to be claimed."""
    from django_vtasks.jobs.model import Job

    now = time.time()
    for number in range(jobs):
        yield Job(
            id=client.new_id(),
            func="shop.tasks.rare" if number == jobs - 1 else f"shop.tasks.task_{number % TASKS}",
            args=[number, "customer@example.com"],
            kwargs={"note": "a text as long as texts of arguments are"},
            queue="tail" if number == jobs - 1 else f"queue_{number % 5}",
            priority=5 if number % 100 == 0 else 0,
            enqueued_at=now,
            run_after=now + 3600 + number if number % round(1 / DELAYED) == 1 else None,
        )


def buried(client: Any) -> Iterator[Any]:
    """The dead letters."""
    from django_vtasks.jobs.model import DeadLetter, DeadReason, Failure, Job

    now = time.time()
    for number in range(LETTERS):
        cause = number % 50
        job = Job(id=client.new_id(), func=f"shop.tasks.task_{number % TASKS}", args=[number], enqueued_at=now - 60)
        failure = Failure(
            exception_class=f"shop.errors.Error{cause}",
            message=f"no number {number}",
            traceback="Traceback (most recent call last):\n" + '  File "shop/tasks.py", line 7, in task\n' * 20,
            fingerprint=f"cause-{cause}",
        )
        yield DeadLetter(
            id=job.id,
            raw=b"",
            queue=job.queue,
            job=job,
            reason=DeadReason.FAILED,
            failure=failure,
            first_failed_at=now - number,
            failed_at=now - number,
        )


# --- asking ----------------------------------------------------------------------------------------------------------


def asked(name: str, admin: Any, jobs: int, server: Any) -> Iterator[str]:
    """Ask what the pages ask, and yield what took too much work."""
    show(f"  {'':<38} {'seconds':>9} {'here':>9} {'server':>9}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for question, ask in questions(admin, jobs).items():
        began, here, there = time.monotonic(), time.process_time(), work_of(server)
        found = ask()
        seconds, here, there = time.monotonic() - began, time.process_time() - here, work_of(server) - there
        show(f"  {question:<38} {seconds:9.3f} {here:9.3f} {there:9.3f}   {found}")
        if here + there > BOUND:
            yield f"{name}: {question}"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    show(f"  {'the process grew by':<38} {grown:9.1f} MiB")


def work_of(server: Any) -> float:
    """Seconds of CPU that a server and its processes have used, to a hundredth."""
    if server is None or server.external_url:
        return 0.0
    used: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue  # It ended meanwhile.
        fields = rest.rpartition(")")[2].split()
        used[int(pid)] = int(fields[1]), sum(map(int, fields[11:15]))
    own = {server.pid}
    while more := {pid for pid, (parent, _) in used.items() if parent in own} - own:
        own |= more
    return sum(used[pid][1] for pid in own if pid in used) / os.sysconf("SC_CLK_TCK")


def questions(admin: Any, jobs: int) -> dict[str, Callable[[], Any]]:
    """What is asked, by what it is for."""
    from django_vtasks.jobs.model import JobState
    from django_vtasks.operating.overview import _look
    from django_vtasks.stores.base import JobFilter
    from django_vtasks.tasks.redaction import searcher

    ready, delayed, dead = JobState.READY, JobState.SCHEDULED, JobState.DEAD

    def shown(state: JobState, after: str | None = None, **which: Any) -> Callable[[], str]:
        def ask() -> str:
            page = admin.page(JobFilter(state=state, searchable=searcher(), **which), after=after, limit=50)
            return f"{len(page.records)} jobs{', more' if page.next_cursor else ''}"

        return ask

    def deep(state: JobState, pages: int = 40) -> str | None:
        """A place many jobs into a list; where places are numbers, the middle."""
        cursor = admin.page(JobFilter(state=state), limit=50).next_cursor
        if cursor is not None and cursor.isdigit():
            return str(jobs // 2)
        for _ in range(pages):
            cursor = admin.page(JobFilter(state=state), after=cursor, limit=500).next_cursor
        return cursor

    def letter_id() -> str:
        return str(admin.page(JobFilter(state=dead), limit=1).records[0].job.id)

    return {
        "overview": lambda: f"{len(_look('default', admin, set(), time.time()).queues)} queues",
        "counts": lambda: sum(count.ready for count in admin.counts()),
        "ready, first page": shown(ready),
        "ready, deep page": shown(ready, deep(ready)),
        "ready, a queue": shown(ready, queue="queue_3"),
        "ready, a small queue": shown(ready, queue="tail"),
        "ready, a common task": shown(ready, func="shop.tasks.task_4"),
        "ready, a task that is rare": shown(ready, func="shop.tasks.rare"),
        "ready, text that is nowhere": shown(ready, text="nowhere to be found"),
        "delayed, first page": shown(delayed),
        "delayed, deep page": shown(delayed, deep(delayed)),
        "delayed, a queue": shown(delayed, queue="queue_1"),
        "delayed, a task that is rare": shown(delayed, func="shop.tasks.rare"),
        "running": shown(JobState.LEASED),
        "succeeded": shown(JobState.SUCCEEDED),
        "dead letters, groups": lambda: f"{len(admin.letter_groups(50))} groups",
        "dead letters, first page": shown(dead),
        "dead letters, a cause": shown(dead, fingerprint="cause-7"),
        "dead letters, a task": shown(dead, func="shop.tasks.task_7"),
        "dead letters, text that is nowhere": shown(dead, text="nowhere to be found"),
        "why one is not running": lambda: admin.standing(letter_id()).record.state.value,
    }


def show(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

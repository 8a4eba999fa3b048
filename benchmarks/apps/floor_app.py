"""A worker with nothing but the bookkeeping that no worker of the framework can leave out, and the task it runs.

For each job: a claim with a lease and a token, a task of the event loop, a `TaskResult`, the framework's two signals,
a return value made fit for JSON, a result stored by a settle that checks the token, a counter and a histogram. Jobs
are claimed and settled by the batch. What a product does beyond that is what `python -m benchmarks.floor` measures.
"""

import asyncio
import json
import logging
import sys
import time
import uuid
from datetime import UTC, datetime

import django
from django.apps import apps

if not apps.ready:
    django.setup()

import orjson
from django.core.management import call_command
from django.tasks import TaskResult, TaskResultStatus, task_backends
from django.tasks.signals import task_finished, task_started
from django.utils.json import normalize_json
from prometheus_client import Counter, Histogram

from django_vtasks import task

logging.getLogger("django.tasks").setLevel(logging.WARNING)

SLOTS, BATCH, LEASE, KEPT = 100, 100, 30, 3600


@task
async def noop(number):
    """Nothing."""


class ValkeyFloor:
    """A list of payloads, a hash of what is claimed, one of tokens, and the leases in a sorted set."""

    SCRIPT = """
    local now, lease, want, acks = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
    for at = 6, 5 + 3 * acks, 3 do
        local id = ARGV[at]
        if redis.call('HGET', KEYS[3], id) == ARGV[at + 1] then
            redis.call('HDEL', KEYS[2], id)
            redis.call('HDEL', KEYS[3], id)
            redis.call('ZREM', KEYS[4], id)
            redis.call('SET', 'floor:result:' .. id, ARGV[at + 2], 'EX', 3600)
        end
    end
    local found = want > 0 and redis.call('RPOP', KEYS[1], want) or false
    for _, raw in ipairs(found or {}) do
        local id = string.sub(raw, 1, 36)
        redis.call('HSET', KEYS[2], id, raw)
        redis.call('HSET', KEYS[3], id, ARGV[5])
        redis.call('ZADD', KEYS[4], now + lease, id)
    end
    return found or {}
    """

    def __init__(self, url):
        self._url = url

    def fill(self, count):
        """Put jobs in."""
        import valkey

        with valkey.Valkey.from_url(self._url) as client:
            jobs = [str(uuid.uuid4()) + json.dumps({"func": "noop", "args": [n], "kwargs": {}}) for n in range(count)]
            for first in range(0, count, 1000):
                client.lpush("floor:ready", *jobs[first : first + 1000])

    async def open(self):
        """Connect."""
        import valkey.asyncio

        self._client = valkey.asyncio.Valkey.from_url(self._url)
        self._script = self._client.register_script(self.SCRIPT)

    async def close(self):
        """Disconnect."""
        await self._client.aclose()

    async def turn(self, ended, want):
        """Settle what ended, claim what there are slots for."""
        token = uuid.uuid4().hex
        keys = ["floor:ready", "floor:claimed", "floor:tokens", "floor:leases"]
        settled = [part for one in ended for part in one]
        found = await self._script(keys=keys, args=[time.time(), LEASE, want, len(ended), token, *settled])
        return [(raw[:36].decode(), token, raw[36:]) for raw in found]


class PostgresFloor:
    """One table; a claim is one statement, and so is a settle."""

    TABLE = """
    CREATE TABLE IF NOT EXISTS floor_jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue text NOT NULL DEFAULT 'default',
        priority smallint NOT NULL DEFAULT 0, status smallint NOT NULL DEFAULT 0, payload bytea NOT NULL, token text,
        lease_until timestamptz, created_at timestamptz NOT NULL DEFAULT now(), finished_at timestamptz, result bytea
    );
    CREATE INDEX IF NOT EXISTS floor_ready ON floor_jobs (queue, priority DESC, id) WHERE status = 0;
    CREATE INDEX IF NOT EXISTS floor_leased ON floor_jobs (lease_until) WHERE status = 1;
    """
    CLAIM = """
    WITH chosen AS (
        SELECT id FROM floor_jobs WHERE status = 0 AND queue = 'default' ORDER BY priority DESC, id LIMIT %s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE floor_jobs SET status = 1, token = %s, lease_until = now() + interval '30 s'
    FROM chosen WHERE floor_jobs.id = chosen.id RETURNING floor_jobs.id, payload
    """
    SETTLE = """
    UPDATE floor_jobs SET status = 2, finished_at = now(), lease_until = NULL, result = ended.result
    FROM unnest(%s::bigint[], %s::text[], %s::bytea[]) AS ended (id, token, result)
    WHERE floor_jobs.id = ended.id AND floor_jobs.token = ended.token
    """

    def __init__(self, url):
        self._url = url

    def fill(self, count):
        """Put jobs in."""
        import psycopg

        with psycopg.connect(self._url) as connection:
            connection.execute(self.TABLE)
            payload = 'convert_to(\'{"func": "noop", "args": [\' || n || \'], "kwargs": {}}\', \'UTF8\')'
            connection.execute(f"INSERT INTO floor_jobs (payload) SELECT {payload} FROM generate_series(1, {count}) n")

    async def open(self):
        """Connect."""
        import psycopg

        self._connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)

    async def close(self):
        """Disconnect."""
        await self._connection.close()

    async def turn(self, ended, want):
        """Settle what ended, claim what there are slots for."""
        if ended:
            await self._connection.execute(self.SETTLE, [list(column) for column in zip(*ended, strict=True)])
        if not want:
            return []
        token = uuid.uuid4().hex
        cursor = await self._connection.execute(self.CLAIM, (want, token), binary=True)
        return [(id_, token, payload) for id_, payload in await cursor.fetchall()]


FLOORS = {"valkey": ValkeyFloor, "postgres": PostgresFloor}


class Bookkeeping:
    """Runs jobs in tasks of the loop; what ended waits in `ended`."""

    def __init__(self):
        self.ended, self.running, self.changed = [], 0, asyncio.Event()
        self._backend = task_backends["default"]
        self._total = Counter("floor_jobs", "Jobs.", ["task"]).labels("noop")
        self._seconds = Histogram("floor_seconds", "Seconds.", ["task"]).labels("noop")
        self._tasks = set()

    def start(self, claim):
        """Run a job."""
        self.running += 1
        made = asyncio.create_task(self._run(*claim))
        self._tasks.add(made)
        made.add_done_callback(self._tasks.discard)

    async def _run(self, job_id, token, payload):
        job, now, kind = orjson.loads(payload), datetime.now(UTC), type(self._backend)
        result = TaskResult(
            task=noop, id=str(job_id), status=TaskResultStatus.RUNNING, enqueued_at=now, started_at=now,
            finished_at=None, last_attempted_at=now, args=job["args"], kwargs=job["kwargs"], backend="default",
            errors=[], worker_ids=["floor"],
        )  # fmt: skip
        task_started.send(kind, task_result=result)
        value = normalize_json(await noop.func(*job["args"], **job["kwargs"]))
        ended = datetime.now(UTC)
        for name, to in (("finished_at", ended), ("status", TaskResultStatus.SUCCESSFUL), ("_return_value", value)):
            object.__setattr__(result, name, to)
        task_finished.send(kind, task_result=result)
        self._total.inc()
        self._seconds.observe((ended - now).total_seconds())
        stored = orjson.dumps({"status": "SUCCESSFUL", "value": value, "started": now, "ended": ended})
        self.ended.append((job_id, token, stored))
        self.running -= 1
        self.changed.set()


async def work(floor):
    """Run all jobs there are; returns how many."""
    await floor.open()
    books, count = Bookkeeping(), 0
    while True:
        books.changed.clear()
        ended, books.ended = books.ended, []
        claims = await floor.turn(ended, min(BATCH, SLOTS - books.running))
        count += len(claims)
        for claim in claims:
            books.start(claim)
        if not (claims or books.running or books.ended):
            break
        await books.changed.wait()
    await floor.close()
    return count


def fill(store, url, count):
    """Put jobs of the prototype in."""
    FLOORS[store](url).fill(count)


def main(store, url, count):
    """Do the jobs there are."""
    import uvloop

    done = uvloop.run(work(FLOORS[store](url)))
    assert done == count, f"{done} of {count} jobs ran"


def setup():
    """Make the tables of the product."""
    call_command("migrate", verbosity=0)


def load(count):
    """Enqueue jobs of the product."""
    for first in range(0, count, 1000):
        task_backends["default"].enqueue_many([(noop, (n,), {}) for n in range(first, min(count, first + 1000))])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

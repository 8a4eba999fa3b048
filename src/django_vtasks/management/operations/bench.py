"""`bench`: what the store does on this machine, without any task's own work."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from statistics import median
from typing import Any

from django.core.management.base import CommandError

from ...jobs.model import Job, JobState
from ...jobs.outcomes import Succeeded
from ...jobs.transitions import Policy, Settlement, decide
from ...operating import bulk
from ...operating.aliases import Alias
from ...stores.base import ClaimRequest, ClientStore, JobFilter, Want, WorkerStore
from .base import USAGE, Console, Operation, Options, one_alias

SINGLES = 100
LEASE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured: jobs in all, jobs a call, bytes of text in each job."""

    count: int
    batch: int
    payload: int


class Bench(Operation):
    """Measure the store."""

    name = "bench"
    help = "Measure enqueue and claim-and-settle of the store, in a queue of its own that is removed afterwards."

    def add_arguments(self, parser: Any) -> None:
        """How much."""
        parser.add_argument("--count", type=int, default=2000, help="Jobs in all (default: 2000).")
        parser.add_argument("--batch", type=int, default=50, help="Jobs a call (default: 50).")
        parser.add_argument("--payload-size", type=int, default=100, help="Bytes of arguments (default: 100).")

    def run(self, console: Console, options: Options) -> None:
        """Measure, print, clean up."""
        size = Size(count=options["count"], batch=options["batch"], payload=options["payload_size"])
        if min(size.count, size.batch) < 1 or size.payload < 0:
            raise CommandError("--count and --batch must be at least 1, --payload-size at least 0.", returncode=USAGE)
        alias = one_alias(options)
        queue = f"vtasks-bench-{uuid.uuid4().hex[:8]}"
        try:
            measured = {**_enqueue(alias, queue, size), **asyncio.run(_work(alias, queue, size))}
        finally:
            for state in (JobState.READY, JobState.SUCCEEDED):
                bulk.delete_all(alias.admin, JobFilter(state=state, queue=queue), size.count + SINGLES)
        if console.as_json:
            console.json({"alias": alias.name, "count": size.count, "batch": size.batch, **measured})
        else:
            console.table(("MEASURED", "VALUE"), [(name.replace("_", " "), value) for name, value in measured.items()])


def _enqueue(alias: Alias, queue: str, size: Size) -> dict[str, float]:
    client = alias.client
    singles = [_added(client, [job]) for job in _jobs(client.new_id, queue, SINGLES, size)]
    chunks = list(batched(_jobs(client.new_id, queue, size.count, size), size.batch))
    return {
        "enqueue_one_by_one_ms": round(1000 * median(singles), 3),
        "enqueue_in_batches_per_second": round(size.count / sum(_added(client, chunk) for chunk in chunks)),
    }


def _jobs(new_id: Callable[[], str], queue: str, count: int, size: Size) -> Iterator[Job]:
    now, text = time.time(), "x" * size.payload
    for _ in range(count):
        yield Job(id=new_id(), func="django_vtasks.bench", args=[text], queue=queue, enqueued_at=now, result_ttl=0.0)


def _added(client: ClientStore, jobs: Sequence[Job]) -> float:
    """How many seconds it took to add the jobs."""
    started = time.perf_counter()
    client.add(jobs)
    return time.perf_counter() - started


async def _work(alias: Alias, queue: str, size: Size) -> dict[str, float]:
    store = alias.backend.new_worker_store()
    owner = f"bench-{uuid.uuid4().hex[:8]}"
    await store.open()
    try:
        await asyncio.to_thread(store.extend, owner, LEASE)
        started = time.perf_counter()
        done, rounds = await _drain(store, owner, queue, size)
        seconds = time.perf_counter() - started
    finally:
        await asyncio.to_thread(store.release, owner)
        await store.close()
    return {
        "claim_and_settle_per_second": round(done / seconds),
        "round_trip_ms": round(1000 * seconds / max(1, rounds), 3),
    }


async def _drain(store: WorkerStore, owner: str, queue: str, size: Size) -> tuple[int, int]:
    request = ClaimRequest(owner=owner, wants=(Want(queue=queue, slots=size.batch),), limit=size.batch)
    settlements: list[Settlement] = []
    done = rounds = 0
    while True:
        exchange = await store.exchange(settlements, request)
        rounds += 1
        done += len(exchange.claims)
        if not exchange.claims:
            return done, rounds
        policy = Policy(result_ttl=0.0)
        settlements = [
            Settlement(claim=claim, decision=decide(claim, Succeeded(), policy, time.time()))
            for claim in exchange.claims
        ]

"""What a worker holds."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import orjson

from ...jobs.codec import decode
from ...jobs.errors import CodecError
from ...jobs.model import Claim, Lease, Progress, UniqueMode, evolve_job
from ...jobs.samples import Sample
from ...jobs.transitions import Settlement
from ..base import (
    Added,
    ClaimRequest,
    Connections,
    Exchange,
    Firing,
    Pulse,
    Purged,
    QueueCounts,
    Retention,
    WorkerInfo,
)
from . import overview, sampling, upkeep
from .admission import Gate
from .async_client import AsyncClient
from .claims import split_token, stored_claim
from .connection import link_of
from .decisions import Writer
from .keys import Keys
from .leftovers import Leftovers
from .options import ValkeyOptions
from .records import progress_text
from .requests import Command, Part, Plan, call
from .rounds import Rounds
from .sync_client import SyncClient
from .wakeup import Wakeup

PROGRESS_KEPT = 7 * 24 * 3600
"""Seconds that progress and metadata outlive the last word of a job whose worker was lost."""

FOREIGN_EVERY = 5
"""Every so many pulses the delayed sets of the worker's queues are looked at for what 3.2 producers put there."""

TEST_GRACE = 3600.0
"""Seconds by which the server's own expiry is put off while a test clock decides what is over."""


class ValkeyWorkerStore:
    """Claim, settle, keep leases, and everything else a worker does, on three connections: see `WorkerStore`."""

    parts = 3

    def __init__(self, options: ValkeyOptions) -> None:
        self._options = options
        self._keys = Keys(options.prefix)
        self._link = link_of(options)
        self._client = AsyncClient(self._link)
        self._lease_link = self._link
        self._lease_client = SyncClient(self._lease_link)
        self._wakeup = Wakeup(self._link, self._keys, block=options.blocking_timeout, interval=options.poll_interval)
        self._told: set[str] = set()
        writer = Writer(options.result_ttl, self._told, TEST_GRACE if options.clock else 0.0)
        self._rounds = Rounds(self._now, writer, options.dead_letter_cap)
        self._nonces = (f"{os.urandom(4).hex()}.{number:x}" for number in itertools.count())
        self._leftovers = Leftovers(self._keys)
        self._gate = Gate(options.result_ttl)
        self._beats = 0
        self._queues: tuple[str, ...] = ()

    def _now(self) -> Part:
        clock = self._options.clock
        return repr(clock()) if clock else ""

    async def open(self) -> None:
        """See `WorkerStore.open`."""
        await self._client.send(Command(("PING",)))

    async def close(self) -> None:
        """See `WorkerStore.close`."""
        await self._wakeup.close()
        await self._client.close()
        self._lease_client.close()

    def connections(self) -> Mapping[str, Connections]:
        """See `WorkerStore.connections`."""
        return {
            "store": self._client.connections(),
            "lease": self._lease_client.connections(),
            "wait": self._wakeup.connections(),
        }

    # --- jobs ----------------------------------------------------------------------------------------------------

    async def exchange(self, settlements: Sequence[Settlement], request: ClaimRequest | None) -> Exchange:
        """See `WorkerStore.exchange`."""
        plan = self._rounds.exchange(settlements, request, next(self._nonces))
        result = await self._client.run(plan)
        if self._told:
            self._told.difference_update([item.claim.lease.token for item in settlements])
        started = [claim for claim in result.claims if _frees_its_key(claim)]
        if started:
            await self._client.send(_key_release(started, self._now()))
        return result

    async def wait_for_jobs(self, queues: Sequence[str], timeout: float) -> bool:
        """See `WorkerStore.wait_for_jobs`."""
        self._queues = tuple(queues)
        return await self._wakeup.wait(self._client, queues, timeout)

    async def held(self, owner: str) -> tuple[Claim, ...]:
        """See `WorkerStore.held`."""
        entries = await self._client.send(Command(("HGETALL", self._keys.inflight(owner))))
        return tuple(stored_claim(owner, *entry) for entry in itertools.batched(entries, 2))

    async def expired(self, limit: int) -> tuple[Claim, ...]:
        """See `WorkerStore.expired`."""
        return await self._client.run(self._expired(limit))

    def _expired(self, limit: int) -> Plan[tuple[Claim, ...]]:
        now, found = yield call("expired", self._now(), limit)
        claims = [stored_claim(owner.decode(), field, value) for owner, field, value in itertools.batched(found, 3)]
        if claims:
            ids = [claim.lease.job_id for claim in claims]
            metadata = yield call("metadata", self._now(), len(ids), *ids)
            claims = list(map(_with_metadata, claims, metadata))
        leftovers = yield from self._leftovers.find(limit - len(claims), float(now))
        return (*claims, *leftovers)

    async def progress(self, lease: Lease, progress: Progress | None, metadata: Mapping[str, Any] | None) -> bool:
        """See `WorkerStore.progress`."""
        nonce, field = split_token(lease.token)
        words = (progress_text(progress), b"" if metadata is None else orjson.dumps(metadata))
        args: tuple[Part, ...] = (lease.owner, field, f"{nonce}\n", lease.job_id, PROGRESS_KEPT, *words)
        if not await self._client.send(call("progress", self._now(), *args)):
            return False
        self._told.add(lease.token)
        return True

    async def pulse(self, owner: str, limit: int) -> Pulse:
        """See `WorkerStore.pulse`."""
        return await self._client.run(self._pulse(owner, limit))

    def _pulse(self, owner: str, limit: int) -> Plan[Pulse]:
        promoted = 0
        self._beats += 1
        # What 3.2 producers delay is on no agenda.
        foreign = self._queues if self._beats % FOREIGN_EVERY == 1 else ()
        while True:
            room = min(limit - promoted, 500)
            args: tuple[Part, ...] = (owner, room, len(foreign), *foreign)
            paused, cancelled, wait, due = yield call("pulse", self._now(), *args)
            if due:
                promoted += yield _promotion(due, self._now())
            if len(due) < 3 * room or promoted >= limit:
                break
        return Pulse(
            cancelled=frozenset(itertools.starmap(_token, itertools.batched(cancelled, 2))),
            paused=frozenset(queue.decode() for queue in paused),
            promoted=promoted,
            next_due_in=float(wait) if wait else None,
        )

    # --- leases and roles ----------------------------------------------------------------------------------------

    def extend(self, owner: str, seconds: float) -> bool:
        """See `WorkerStore.extend`."""
        link = self._link.within(seconds / 3)
        if link.timeouts != self._lease_link.timeouts:
            self._lease_link = link
            self._lease_client.turn_to(link)
        return bool(self._lease_client.send(call("extend", self._now(), owner, seconds)))

    def release(self, owner: str) -> None:
        """See `WorkerStore.release`."""
        self._lease_client.send(call("release", self._now(), owner))

    async def announce(self, info: WorkerInfo) -> None:
        """See `WorkerStore.announce`."""
        text = orjson.dumps(asdict(info))
        args: tuple[Part, ...] = (info.incarnation, info.worker_id, 30_000, text, len(info.queues), *info.queues)
        await self._client.send(call("announce", self._now(), *args))

    async def hold(self, role: str, owner: str, seconds: float) -> bool:
        """See `WorkerStore.hold`."""
        return bool(await self._client.send(call("hold", self._now(), role, owner, seconds)))

    # --- samples -------------------------------------------------------------------------------------------------

    async def glance(self) -> list[QueueCounts]:
        """See `WorkerStore.glance`; queues of foreign producers that no worker serves are not searched for."""
        return await self._client.run(overview.counts(self._keys, self._now(), thorough=False))

    async def record(self, owner: str, span: int, samples: Sequence[Sample]) -> None:
        """See `WorkerStore.record`."""
        await self._client.send(sampling.record(self._now(), owner, span, samples))

    # --- schedule and cleaning -----------------------------------------------------------------------------------

    async def last_slots(self, entries: Sequence[str]) -> Mapping[str, float]:
        """See `WorkerStore.last_slots`."""
        return await self._client.run(upkeep.last_slots(self._keys, entries))

    async def fire(self, firing: Firing) -> Added | None:
        """See `WorkerStore.fire`."""
        return await self._client.run(upkeep.fire(self._now(), firing, self._gate))

    async def purge(self, retention: Retention, limit: int) -> Purged:
        """See `WorkerStore.purge`."""
        return await self._client.run(upkeep.purge(self._keys, self._now(), retention, limit))

    async def now(self) -> float:
        """See `WorkerStore.now`."""
        return float(await self._client.send(call("clock", self._now())))


def _token(field: bytes, nonce: bytes) -> str:
    return f"{nonce.decode()}:{field.decode()}"


def _frees_its_key(claim: Claim) -> bool:
    job = claim.job
    return job is not None and job.unique is not None and job.unique.mode in _UNTIL_CLAIMED


_UNTIL_CLAIMED = frozenset((UniqueMode.UNTIL_STARTED, UniqueMode.DEBOUNCE))


def _key_release(claims: Sequence[Claim], now: Part):  # type: ignore[no-untyped-def]
    args: list[Part] = []
    for claim in claims:
        if claim.job and claim.job.unique:
            args += [claim.job.unique.key, claim.job.id]
    return call("start", now, len(claims), *args)


def _promotion(due: Sequence[bytes], now: Part):  # type: ignore[no-untyped-def]
    args: list[Part] = [len(due) // 3]
    for queue, name, payload in itertools.batched(due, 3):
        args += [name, queue, _priority_of(payload), payload]
    return call("promote", now, *args)


def _priority_of(payload: bytes) -> int:
    try:
        return decode(payload).priority
    except CodecError:
        return 0


def _with_metadata(claim: Claim, metadata: bytes) -> Claim:
    if not metadata or claim.job is None:
        return claim
    return replace(claim, job=evolve_job(claim.job, metadata=orjson.loads(metadata)))

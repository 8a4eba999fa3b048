"""What this worker did, counted in memory and written down once a bucket; one worker of the fleet adds the depths."""

import asyncio
import random
import time
from collections.abc import Sequence

from ..jobs.samples import BUCKET, Sample, Standing, added, bucket_of, span_of
from ..stores.base import QueueCounts, WorkerStore
from .service import OUTAGES, Pace, PeriodicService
from .tally import Count, Tally

ROLE = "sampler"
EMPTY = Standing()
LAST_WORD = 0.3
"""Seconds that the last samples have to be written when the worker ends."""


class Sampler(PeriodicService):
    """Writes the tally at the end of each bucket; whoever has the role looks at how the queues stand as well.

    While nothing happens and nothing waits, that is written once in each span.
    """

    def __init__(self, store: WorkerStore, owner: str, queues: Sequence[str], tally: Tally, pace: Pace) -> None:
        super().__init__(pace, BUCKET, first_after=_until_next())
        self._store = store
        self._owner = owner
        self._queues = queues
        self._tally = tally
        self._span = 0
        self._samples: dict[tuple[float, str], Sample] = {}
        self._stood: dict[str, Standing] = {}

    async def tick(self) -> float | None:
        """Write what happened until now."""
        counts = None
        if await self._store.hold(ROLE, self._owner, 2.5 * BUCKET):
            counts = await self._store.glance()
        if counts is not None or self._tally:
            await self._write(bucket_of(await self._store.now() - BUCKET / 2), counts)
        return _until_next()

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until `stop` is set, and write once more what is left."""
        await super().run(stop)
        if not self._tally:
            return
        try:
            async with asyncio.timeout(LAST_WORD):
                await self._write(bucket_of(await self._store.now()), None)
        except (TimeoutError, *OUTAGES):
            pass  # A few counts of a chart: not worth a word.

    async def _write(self, at: float, counts: Sequence[QueueCounts] | None) -> None:
        span = span_of(at)
        if span != self._span:
            self._span, self._samples, self._stood = span, {}, {}
        new = [*_counted(at, self._tally.take()), *([] if counts is None else self._standing(at, counts))]
        for sample in new:
            key = at, sample.queue
            known = self._samples.get(key)
            self._samples[key] = added(known, sample) if known else sample
        if new:
            await self._store.record(self._owner, span, tuple(self._samples.values()))

    def _standing(self, at: float, counts: Sequence[QueueCounts]) -> list[Sample]:
        stands = dict.fromkeys((*self._queues, *self._stood), EMPTY) | {
            count.queue: _stands(count, at + BUCKET) for count in counts
        }
        told = {queue: now for queue, now in stands.items() if now != EMPTY or self._stood.get(queue) != EMPTY}
        self._stood |= told
        return [Sample(at=at, queue=queue, standing=now) for queue, now in told.items()]


def _counted(at: float, counts: dict[str, Count]) -> list[Sample]:
    return [
        Sample(
            at=at,
            queue=queue,
            started=count.started,
            succeeded=count.succeeded,
            failed=count.failed,
            discarded=count.discarded,
            retried=count.retried,
        )
        for queue, count in counts.items()
    ]


def _stands(count: QueueCounts, now: float) -> Standing:
    oldest = max(0.0, now - count.oldest_ready_at) if count.oldest_ready_at else 0.0
    return Standing(ready=count.ready, scheduled=count.scheduled, leased=count.leased, oldest=round(oldest, 3))


def _until_next() -> float:
    """Seconds to the next bucket, and a little more, so that the workers of a fleet do not write all at once."""
    return BUCKET - time.time() % BUCKET + random.uniform(0.05, 0.2 * BUCKET)

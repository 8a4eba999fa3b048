"""The last hour of a queue, from the samples that workers write. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..jobs.samples import BUCKET, KEPT, Sample, bucket_of

POINT = 60.0
"""Seconds that one point of a chart covers."""

POINTS = round(KEPT / POINT)
"""Points of a chart."""

MINUTE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One minute of one queue: what happened in it, and how the queue stood at the end of it.

    `depth` and `oldest` are of ready jobs, None where nobody looked.
    """

    at: float
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    enqueued: int = 0
    depth: int | None = None
    running: int | None = None
    oldest: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Jobs per minute, over the last minute that is complete. `enqueued` is worked out from how counts moved."""

    enqueued: int = 0
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The last hour of one queue: points from the oldest to the newest, and how fast it goes now."""

    points: tuple[Point, ...] = ()
    rates: Rates = Rates()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(p.started or p.succeeded or p.failed or p.enqueued or p.depth for p in self.points)


NO_HISTORY = History()
"""That of a queue of which nothing was written down."""


def histories(samples: Sequence[Sample], now: float) -> Mapping[str, History]:
    """The history of every queue that has one."""
    queues: defaultdict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        queues[sample.queue].append(sample)
    return {queue: _history(found, now) for queue, found in queues.items()}


def _history(samples: Sequence[Sample], now: float) -> History:
    arrivals = _arrivals(samples)
    # The minute that is under way ends the chart; it grows as the samples come in.
    first = (now // POINT + 1) * POINT - KEPT
    minutes: defaultdict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        minutes[int((sample.at - first) // POINT)].append(sample)
    points = tuple(_point(first + at * POINT, minutes.get(at, ()), arrivals) for at in range(POINTS))
    return History(points=points, rates=_rates(samples, arrivals, now))


def _arrivals(samples: Sequence[Sample]) -> Mapping[float, int]:
    """How many jobs came in each bucket: as many as there are more, and as ended meanwhile.

    The first look says nothing of what came before it. Jobs that were removed meanwhile count against those that came.
    """
    found: dict[float, int] = {}
    before: int | None = None
    ended = 0
    for sample in samples:
        ended += sample.ended
        if sample.standing is None:
            continue
        now = sample.standing.unfinished
        if before is not None:
            found[sample.at] = max(0, now - before + ended)
        before, ended = now, 0
    return found


def _point(at: float, samples: Sequence[Sample], arrivals: Mapping[float, int]) -> Point:
    stood = next((sample.standing for sample in reversed(samples) if sample.standing), None)
    return Point(
        at=at,
        started=sum(sample.started for sample in samples),
        succeeded=sum(sample.succeeded for sample in samples),
        failed=sum(sample.failed for sample in samples),
        retried=sum(sample.retried for sample in samples),
        enqueued=_sum(arrivals, samples),
        depth=stood.ready if stood else None,
        running=stood.leased if stood else None,
        oldest=stood.oldest if stood else None,
    )


def _rates(samples: Sequence[Sample], arrivals: Mapping[float, int], now: float) -> Rates:
    # The last complete bucket may not be written by everybody yet.
    end = bucket_of(now) - BUCKET
    recent = [sample for sample in samples if end - MINUTE <= sample.at < end]
    return Rates(
        enqueued=_sum(arrivals, recent),
        started=sum(sample.started for sample in recent),
        succeeded=sum(sample.succeeded for sample in recent),
        failed=sum(sample.failed for sample in recent),
        retried=sum(sample.retried for sample in recent),
    )


def _sum(arrivals: Mapping[float, int], samples: Iterable[Sample]) -> int:
    return sum(arrivals.get(sample.at, 0) for sample in samples)

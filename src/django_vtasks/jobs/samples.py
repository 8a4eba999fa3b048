"""What the queues did in the last hour, in short buckets: each worker writes down what it did, a store keeps it.

A worker writes what it did in one span of time as one value, again and again until the span is over, so that writing
twice changes nothing. Readers add up what all of them wrote.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

BUCKET = 15.0
"""Seconds that one sample covers."""

SPAN = 300.0
"""Seconds that are written together."""

KEPT = 3600.0
"""Seconds for which a span is kept after it is over."""

LARGEST_COUNT = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one queue stood at one moment; `oldest` is how many seconds its oldest ready job had waited."""

    ready: int = 0
    scheduled: int = 0
    leased: int = 0
    oldest: float = 0.0

    @property
    def unfinished(self) -> int:
        """Every job that is not over."""
        return self.ready + self.scheduled + self.leased


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What happened on one queue in the bucket that begins at `at` (epoch seconds), and how it stood at the end.

    `standing` is None where nobody looked.
    """

    at: float
    queue: str
    started: int = 0
    succeeded: int = 0
    failed: int = 0
    discarded: int = 0
    retried: int = 0
    standing: Standing | None = None

    @property
    def ended(self) -> int:
        """How many jobs were over."""
        return self.succeeded + self.failed + self.discarded


def bucket_of(at: float) -> float:
    """When the bucket of a moment begins."""
    return math.floor(at / BUCKET) * BUCKET


def span_of(at: float) -> int:
    """The number of the span that a moment is in."""
    return math.floor(at / SPAN)


def spans_kept(now: float) -> Sequence[int]:
    """The numbers of the spans that are of interest at a moment, the oldest first."""
    return range(span_of(now - KEPT), span_of(now) + 1)


def added(one: Sample, other: Sample) -> Sample:
    """What two workers did in the same bucket on the same queue."""
    return replace(
        one,
        started=one.started + other.started,
        succeeded=one.succeeded + other.succeeded,
        failed=one.failed + other.failed,
        discarded=one.discarded + other.discarded,
        retried=one.retried + other.retried,
        standing=one.standing or other.standing,
    )


def merged(samples: Iterable[Sample], *, since: float) -> list[Sample]:
    """The samples that begin at `since` or later, one for each bucket and queue, in order."""
    found: dict[tuple[float, str], Sample] = {}
    for sample in samples:
        if sample.at < since:
            continue
        key = sample.at, sample.queue
        found[key] = added(found[key], sample) if key in found else sample
    return [found[key] for key in sorted(found)]


def encode_samples(samples: Iterable[Sample]) -> bytes:
    """Samples as ASCII text, which columns of any encoding hold."""
    return orjson.dumps([_row(sample) for sample in samples])


def _row(sample: Sample) -> list[object]:
    stood = sample.standing
    counts = (sample.started, sample.succeeded, sample.failed, sample.discarded, sample.retried)
    return [
        sample.at,
        sample.queue.encode("unicode_escape").decode("ascii"),
        *counts,
        *((stood.ready, stood.scheduled, stood.leased, stood.oldest) if stood else ()),
    ]


def decode_samples(data: bytes | str) -> list[Sample]:
    """The samples in a text; none in one that is damaged or of another version."""
    try:
        return [_sample(*row) for row in orjson.loads(data)]
    except (ValueError, TypeError):
        return []


def _sample(at: object, queue: object, *numbers: object) -> Sample:
    if not isinstance(at, float | int) or not isinstance(queue, str) or len(numbers) not in (5, 9):
        raise ValueError("not a sample")
    whole = [number for number in numbers[:8] if type(number) is int and 0 <= number <= LARGEST_COUNT]
    oldest = numbers[8] if len(numbers) > 8 else 0.0
    if len(whole) != len(numbers[:8]) or not isinstance(oldest, float | int):
        raise ValueError("not a sample")
    started, succeeded, failed, discarded, retried, *stood = whole
    return Sample(
        at=float(at),
        queue=queue.encode("ascii").decode("unicode_escape"),
        started=started,
        succeeded=succeeded,
        failed=failed,
        discarded=discarded,
        retried=retried,
        standing=Standing(ready=stood[0], scheduled=stood[1], leased=stood[2], oldest=float(oldest))
        if stood
        else None,
    )

"""What the queues did in the last hour: a hash for each span, with a field for each worker."""

from collections.abc import Sequence
from itertools import chain

from ...jobs.samples import KEPT, SPAN, Sample, decode_samples, encode_samples, merged, spans_kept
from .requests import Call, Part, Plan, call


def record(now: Part, owner: str, span: int, samples: Sequence[Sample]) -> Call:
    """Write what a worker did in a span over what it wrote of it before."""
    return call("record", now, span, owner, encode_samples(samples), int(SPAN + KEPT))


def samples(now: Part) -> Plan[list[Sample]]:
    """What all workers wrote, added up."""
    at = float((yield call("clock", now)))
    spans = spans_kept(at)
    found: list[bytes] = yield call("samples", now, len(spans), *spans)
    return merged(chain.from_iterable(map(decode_samples, found)), since=at - KEPT)

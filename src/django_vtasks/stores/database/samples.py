"""What the queues did in the last hour: metadata rows, one for each worker and span."""

from collections.abc import Sequence
from itertools import chain

from ...jobs.samples import KEPT, SPAN, Sample, decode_samples, encode_samples, merged
from .leases import like
from .names import METADATA, SAMPLES, metadata_key
from .session import Session


def record(session: Session, owner: str, span: int, samples: Sequence[Sample]) -> None:
    """Write what a worker did in a span over what it wrote of it before."""
    key, value = metadata_key(SAMPLES, f"{span}:{owner}"), encode_samples(samples).decode()
    session.run(_RECORD, (key, value, session.moment.later(SPAN + KEPT)))


# The expiry is in an index and stays as it was, so that writing again is as cheap as can be.
_RECORD = f"INSERT INTO {METADATA} ({{key}}, value, expires_at) VALUES (%s, %s, {{later}}) {{or_value}}"


def samples(session: Session) -> list[Sample]:
    """What all workers wrote, added up."""
    rows = session.rows(
        f"SELECT value FROM {METADATA} WHERE {{key}} LIKE %s AND expires_at > {{now}}", (like(SAMPLES),)
    )
    return merged(chain.from_iterable(decode_samples(row[0]) for row in rows), since=session.now() - KEPT)


def purge(session: Session) -> None:
    """Remove what is older."""
    session.run(f"DELETE FROM {METADATA} WHERE {{key}} LIKE %s AND expires_at <= {{now}}", (like(SAMPLES),))

"""Claims out of the bytes the server has. Pure."""

import hashlib
from collections.abc import Sequence
from itertools import batched, islice
from typing import Any

from ...jobs.codec import decode
from ...jobs.errors import CodecError
from ...jobs.model import Claim, Job, assemble_claim, assemble_lease, evolve_job

ADOPTED = "processing:"
"""What the owner of a claim begins with that was found in the list of a dead 3.2 worker."""


def new_claims(owner: str, nonce: str, now: float, counts: Sequence[Any], parts: Sequence[bytes]) -> tuple[Claim, ...]:
    """The claims in the reply of the script `exchange`: name and count of each queue, field and payload of each."""
    claims: list[Claim] = []
    entries = batched(parts, 2)
    for name, count in batched(counts, 2):
        queue = name.decode()
        claims += [
            _claim(owner, f"{nonce}:{field.decode()}", raw, queue, now) for field, raw in islice(entries, count)
        ]
    return tuple(claims)


def stored_claim(owner: str, field: bytes, value: bytes) -> Claim:
    """The claim in one entry of an in-flight hash."""
    nonce, started_at, queue, raw = value.split(b"\n", 3)
    return _claim(owner, f"{nonce.decode()}:{field.decode()}", raw, queue.decode(), float(started_at))


def adopted_claim(worker_id: str, position: int, raw: bytes, now: float) -> Claim:
    """The claim on a payload in the list of a dead 3.2 worker; equal payloads differ by their position."""
    token = f"{position}:{hashlib.sha256(raw).hexdigest()}"
    return _claim(ADOPTED + worker_id, token, raw, "default", now)


def split_token(token: str) -> tuple[str, str]:
    """Nonce and field of a lease token."""
    nonce, _, field = token.partition(":")
    return nonce, field


def _claim(owner: str, token: str, raw: bytes, queue: str, started_at: float) -> Claim:
    job: Job | None
    try:
        job, defect = decode(raw, fallback_queue=queue), None
    except CodecError as error:
        job, defect = None, str(error)
    if job is None or not job.id:
        # A payload without an id gets one that stays the same however often the claim is read.
        job_id = hashlib.sha256(token.encode()).hexdigest()[:32]
        job = evolve_job(job, id=job_id) if job else None
    else:
        job_id = job.id
    return assemble_claim(assemble_lease(job_id, token, owner), raw, queue, started_at, job, defect)

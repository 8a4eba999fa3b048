"""Values for tests, complete by default: name only what the test is about."""

from __future__ import annotations

from typing import Any

from django_vtasks.jobs.codec import encode
from django_vtasks.jobs.model import Claim, DeadLetter, DeadReason, Failure, Job, Lease, Unique, UniqueMode
from django_vtasks.jobs.outcomes import Outcome, Raised
from django_vtasks.jobs.transitions import Policy, Settlement, decide
from tests.support.clock import START

FUNC = "tests.project.tasks.add"


def a_job(**changes: Any) -> Job:
    """A waiting job; lists instead of tuples, so that it equals what a store gives back."""
    values: dict[str, Any] = {
        "id": "0" * 32,
        "func": FUNC,
        "args": [1, 2],
        "kwargs": {},
        "enqueued_at": START,
    }
    return Job(**(values | changes))


def a_key(key: str = "key", mode: UniqueMode = UniqueMode.UNTIL_DONE, window: float | None = None) -> Unique:
    """A unique key."""
    return Unique(key=key, mode=mode, window=window)


def a_failure(message: str = "boom", exception_class: str = "builtins.ValueError", **changes: Any) -> Failure:
    """A failure with a traceback and a fingerprint."""
    values: dict[str, Any] = {
        "traceback": f"Traceback (most recent call last):\n{exception_class}: {message}",
        "fingerprint": f"{FUNC}:{exception_class}:tasks.py:1",
    }
    return Failure(exception_class=exception_class, message=message, **(values | changes))


def a_claim(job: Job | None = None, *, owner: str = "alpha", token: str = "1", started_at: float = START) -> Claim:
    """A claim of a job, held by nobody but the test."""
    job = job or a_job()
    lease = Lease(job_id=job.id, token=token, owner=owner)
    return Claim(lease=lease, raw=encode(job), queue=job.queue, started_at=started_at, job=job)


def an_undecodable_claim(raw: bytes = b"\xff\x00 no job", queue: str = "default") -> Claim:
    """A claim of bytes that are no job."""
    lease = Lease(job_id="f" * 32, token="1", owner="alpha")
    return Claim(lease=lease, raw=raw, queue=queue, started_at=START, job=None, defect="not JSON")


def a_letter(**changes: Any) -> DeadLetter:
    """A dead letter of a job that failed; `job=None` and `raw` for bytes that are no job."""
    job = changes.get("job") or a_job()
    values: dict[str, Any] = {
        "id": job.id,
        "raw": encode(job),
        "queue": job.queue,
        "job": job,
        "reason": DeadReason.FAILED,
        "failure": a_failure(),
        "first_failed_at": START,
        "failed_at": START,
    }
    return DeadLetter(**(values | changes))


def raised(message: str = "boom", *, delay: float | None = None, **changes: Any) -> Raised:
    """The outcome of an attempt that raised; without a delay it asks for no retry."""
    return Raised(failure=a_failure(message, **changes), delay=delay)


def settled(claim: Claim, outcome: Outcome, policy: Policy, at: float, *, reclaim: bool = False) -> Settlement:
    """What a worker writes when an attempt ended like this."""
    return Settlement(claim=claim, decision=decide(claim, outcome, policy, at), reclaim=reclaim)

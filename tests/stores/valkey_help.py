"""Short words for tests of the Valkey store."""

from __future__ import annotations

import itertools
from typing import Any

import valkey

from django_vtasks.jobs.model import Job
from django_vtasks.jobs.outcomes import Outcome, Succeeded
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import ClaimRequest, Exchange, Want
from django_vtasks.stores.valkey.store import ValkeyOptions, ValkeyWorkerStore
from tests.support.builders import a_job, settled

PREFIX = "{vt}:"
NUMBERS = itertools.count(1)


def options(server: Any, **changes: Any) -> ValkeyOptions:
    """Options for a test server, with a short patience."""
    values: dict[str, Any] = {"read_timeout": 2.0} | changes
    return ValkeyOptions(**({"urls": (server.url,)} | values if server else values))


def job(**changes: Any) -> Job:
    """A job with an id of its own."""
    return a_job(**({"id": f"{next(NUMBERS):032x}"} | changes))


def raw_client(server: Any) -> valkey.Valkey:
    """A plain client, as an operator's or a foreign producer's."""
    return valkey.Valkey.from_url(server.url)


def wanted(*queues: str, owner: str = "alpha", slots: int = 100) -> ClaimRequest:
    """A claim of everything in some queues."""
    wants = tuple(Want(queue=queue, slots=slots) for queue in queues or ("default",))
    return ClaimRequest(owner=owner, wants=wants, limit=slots)


async def claim(worker: ValkeyWorkerStore, *queues: str, owner: str = "alpha", slots: int = 100) -> Exchange:
    """Renew the lease and claim."""
    worker.extend(owner, 60)
    return await worker.exchange([], wanted(*queues, owner=owner, slots=slots))


async def run_all(worker: ValkeyWorkerStore, *queues: str, outcome: Outcome | None = None) -> list[Job | None]:
    """Claim everything and end it as `outcome`; returns the jobs in order."""
    claims = (await claim(worker, *queues)).claims
    policy = Policy(max_attempts=1, result_ttl=60)
    now = await worker.now()
    done = await worker.exchange([settled(one, outcome or Succeeded(), policy, now) for one in claims], None)
    assert not done.refused
    return [one.job for one in claims]

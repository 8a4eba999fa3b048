"""Jobs in every state, as operators find them; made through the seam, so for any store."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager

from django_vtasks import task
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.model import Job, Progress
from django_vtasks.jobs.outcomes import Raised, Succeeded
from django_vtasks.jobs.transitions import Policy, Settlement, decide
from django_vtasks.stores.base import ClaimRequest, Want, WorkerInfo
from tests.support.backends import MemoryBackend
from tests.support.builders import a_failure

OWNER = "worker-1-abcd"
FUNC = "tests.project.tasks.echo"


@task(redact=["iban"])
def pay(amount, iban):
    """A task with an argument that is not shown."""


class Scene:
    """Makes jobs in a store given by its client, worker and admin side (one object for the memory store).

    `new_worker` makes a worker store for one event loop.
    """

    def __init__(self, client, new_worker=None, admin=None):
        self.client = client
        self.new_worker = new_worker or (lambda: client)
        self.admin = admin or client

    @classmethod
    def of(cls, backend):
        """The scene of a backend."""
        return cls(backend.client_store, backend.new_worker_store, backend.admin_store)

    def ready(self, count=1, **changes):
        """Ids of new waiting jobs."""
        values = {"func": FUNC, "enqueued_at": time.time()} | changes
        jobs = [Job(id=self.client.new_id(), **values) for _ in range(count)]
        self.client.add(jobs)
        return [job.id for job in jobs]

    def delayed(self, count=1, seconds=3600.0, **changes):
        """Ids of new jobs that are due later."""
        return self.ready(count, run_after=time.time() + seconds, **changes)

    def running(self, count=1, owner=OWNER, progress=None, **changes):
        """Ids of new jobs that an incarnation runs."""
        return [claim.lease.job_id for claim in self._claimed(count, owner, progress, changes)]

    def dead(self, count=1, outcome=None, **changes):
        """Ids of new dead letters."""
        self._settled(claims := self._claimed(count, OWNER, None, changes), outcome or Raised(failure=a_failure()))
        return [claim.lease.job_id for claim in claims]

    def succeeded(self, count=1, value=b"null", **changes):
        """Ids of new jobs that succeeded and whose result is kept."""
        self._settled(claims := self._claimed(count, OWNER, None, changes), Succeeded(value=value))
        return [claim.lease.job_id for claim in claims]

    def announce(self, worker_id="worker-1", queues=("default",), concurrency=4, running=0, incarnation=OWNER):
        """Let a worker be known as live."""
        info = WorkerInfo(
            incarnation=incarnation,
            worker_id=worker_id,
            host="host-1",
            pid=4711,
            version="4.0",
            queues=tuple(queues),
            concurrency=concurrency,
            started_at=time.time() - 60,
            running=running,
            seen_at=time.time(),
        )
        self.renew(incarnation)
        self._run(lambda store: store.announce(info))

    def renew(self, owner=OWNER, seconds=600.0):
        """Let an incarnation have a lease."""
        self._run(lambda store: asyncio.to_thread(store.extend, owner, seconds))

    def release(self, owner=OWNER):
        """End the lease of an incarnation."""
        self._run(lambda store: asyncio.to_thread(store.release, owner))

    def end(self, job_id, outcome, owner=OWNER, max_attempts=1):
        """Let a running job end."""
        held = self._run(lambda store: store.held(owner))
        self._settled([claim for claim in held if claim.lease.job_id == job_id], outcome, max_attempts)

    def claim(self, queue, slots=1):
        """Let a worker take the next jobs of a queue."""
        self.renew()
        request = ClaimRequest(owner=OWNER, wants=(Want(queue=queue, slots=slots),), limit=slots)
        return self._run(lambda store: store.exchange((), request)).claims

    def claim_and_end(self, queue, outcome):
        """Let the next job of a queue run and end."""
        self._settled(self.claim(queue), outcome)

    def _claimed(self, count, owner, progress, changes):
        # A queue is claimed from its front, so the new jobs go before all others of their queue.
        ids = self.ready(count, **({"priority": 100} | changes))
        queue = changes.get("queue", "default")
        self.renew(owner)
        request = ClaimRequest(owner=owner, wants=(Want(queue=queue, slots=count),), limit=count)
        claims = self._run(lambda store: store.exchange((), request)).claims
        assert {claim.lease.job_id for claim in claims} == set(ids), "other jobs were claimed"
        if progress:
            done, total, message = (*progress, "working")[:3]
            said = Progress(done=done, total=total, message=message, updated_at=time.time())
            for claim in claims:
                self._run(lambda store, lease=claim.lease: store.progress(lease, said, None))
        return claims

    def _settled(self, claims, outcome, max_attempts=1):
        policy = Policy(result_ttl=3600.0, max_attempts=max_attempts)
        settlements = [Settlement(claim=c, decision=decide(c, outcome, policy, time.time())) for c in claims]
        refused = self._run(lambda store: store.exchange(settlements, None)).refused
        assert not refused

    def _run(self, call):
        async def opened():
            store = self.new_worker()
            await store.open()
            try:
                return await call(store)
            finally:
                await store.close()

        return asyncio.run(opened())


class Away:
    """A store that cannot be reached, whatever is asked of it."""

    def __getattr__(self, name):
        def refuse(*_args, **_kwargs):
            raise StoreUnavailable("no answer within 5 s")

        return refuse


class AwayBackend(MemoryBackend):
    """A backend whose store cannot be reached."""

    def _store(self):
        return Away()


@contextmanager
def answering(monkeypatch, text):
    """Let the operator type `text` at the next question."""
    questions = []

    def answer(question=""):
        questions.append(question)
        return text

    monkeypatch.setattr("builtins.input", answer)
    yield questions

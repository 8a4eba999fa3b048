"""The jobs that wait, as a test sees them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connections

from ..backends.base import VTasksBaseBackend
from ..backends.enqueuing import Push
from ..framework import AnyTask, task_backends
from ..jobs.model import Job, JobRecord, JobState
from ..stores.base import AdminStore, JobFilter
from ..tasks import clock, to_datetime
from .arguments import Wanted
from .wording import call_text

WAITING = (JobState.READY, JobState.SCHEDULED)
PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedJob:
    """A job that waits. `task` is the dotted path; `run_after` is when it is due, None for at once."""

    id: str
    task: str
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    queue: str
    priority: int
    alias: str
    enqueued_at: datetime | None
    run_after: datetime | None = None
    unique_key: str | None = None

    def result(self) -> Any:
        """The job's TaskResult, read anew."""
        return task_backends[self.alias].get_result(self.id)

    def __str__(self) -> str:
        details = f"queue {self.queue}"
        if self.priority:
            details += f", priority {self.priority}"
        if self.run_after is not None:
            details += f", not before {self.run_after:%Y-%m-%d %H:%M:%S}"
        return f"{call_text(self.task, self.args, self.kwargs)}  [{details}]"


def enqueued(
    task: AnyTask | str | None = None,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue: str | None = None,
    alias: str = "default",
) -> list[EnqueuedJob]:
    """The jobs of an alias that wait, due or not, in the order in which they were enqueued.

    Only those of the task (or dotted path), whose first arguments are `args`, that have the arguments `kwargs` however
    they were passed, and that are in the queue.
    """
    wanted = Wanted(task=task, args=args or (), kwargs=kwargs or {}, queue=queue)
    return [job for job in waiting_jobs(alias) if wanted.fits(job)]


def waiting_jobs(alias: str) -> list[EnqueuedJob]:
    """Every job of an alias that waits, in the order in which they were enqueued."""
    store = backend_of(alias).admin_store
    records = [record for state in WAITING for record in records_in(store, state)]
    records.sort(key=lambda record: record.job.enqueued_at)
    return [seen(record.job, alias) for record in records]


def records_in(store: AdminStore, state: JobState, *, queue: str | None = None) -> Iterator[JobRecord]:
    """Every job of one state in the state's natural order."""
    after: str | None = None
    while True:
        page = store.page(JobFilter(state=state, queue=queue), after=after, limit=PAGE)
        yield from page.records
        after = page.next_cursor
        if after is None:
            return


def uncommitted_jobs(alias: str) -> list[EnqueuedJob]:
    """The jobs of an alias that wait for the commit of a transaction that is open in this thread."""
    hooks = [entry[1] for used in connections.all(initialized_only=True) for entry in used.run_on_commit]
    jobs = [job for hook in hooks if isinstance(hook, Push) and hook.alias == alias for job in hook.jobs]
    return [seen(job, alias) for job in jobs]


def backend_of(alias: str) -> VTasksBaseBackend:
    """The backend of an alias. Raises TypeError for one that keeps no jobs."""
    backend = task_backends[alias]
    if isinstance(backend, VTasksBaseBackend):
        try:
            if backend.client_store is not None:
                return backend
        except NotImplementedError:
            pass
    path = f"{type(backend).__module__}.{type(backend).__name__}"
    raise TypeError(
        f"TASKS[{alias!r}] is {path}, which keeps no jobs that a test could look at. Use the backend of your "
        "production settings, or django_vtasks.backends.memory.MemoryTaskBackend."
    )


def seen(job: Job, alias: str) -> EnqueuedJob:
    """A job as a test sees it."""
    due = job.run_after
    return EnqueuedJob(
        id=job.id,
        task=job.func or "(undecodable)",
        args=tuple(job.args),
        kwargs=dict(job.kwargs),
        queue=job.queue,
        priority=job.priority,
        alias=alias,
        enqueued_at=to_datetime(job.enqueued_at or None),
        run_after=to_datetime(due) if due is not None and due > clock() else None,
        unique_key=job.unique.key if job.unique else None,
    )

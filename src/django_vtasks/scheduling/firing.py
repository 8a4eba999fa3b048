"""The job of one slot of one entry."""

import uuid
from dataclasses import dataclass, replace

from ..framework import AnyTask
from ..jobs.model import Job, Unique, UniqueMode
from ..tasks import load_task, to_job
from .due import spread
from .entries import ScheduleEntry
from .options import Overlap

NAMESPACE = uuid.UUID("3f6f3cf1-6f5b-5f0e-9c57-1f1a4f1d7c7e")

UNIQUE_MODES = {Overlap.SKIP: UniqueMode.UNTIL_DONE, Overlap.QUEUE: UniqueMode.UNTIL_STARTED}


def unique_key(entry: str) -> str:
    """The unique key of an entry whose jobs must not overlap."""
    return f"schedule:{entry}"


def job_id(entry: str, slot: float, *, like: str) -> str:
    """The id of the job of a slot, in the form of the id `like`; always the same, so that runs can be looked up."""
    made = uuid.uuid5(NAMESPACE, f"{entry}@{slot!r}")
    return str(made) if "-" in like else made.hex


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMaker:
    """Makes jobs for the backend `alias`; `sample_id` is a job id in the form of its store."""

    alias: str
    sample_id: str

    def __call__(self, entry: ScheduleEntry, slot: float, now: float) -> Job:
        """The job of a slot, made at `now`.

        Raises TaskNotFound when the path leads to no task, InvalidTask when the backend does not take its queue or
        priority, TypeError or ValueError for arguments that are not JSON, JobTooLarge.
        """
        job = to_job(
            self.task_of(entry),
            entry.args,
            entry.kwargs,
            id=job_id(entry.name, slot, like=self.sample_id),
            now=now,
        )
        due_at = slot + spread(entry.name, slot, entry.jitter)
        return replace(
            job,
            run_after=due_at if entry.jitter and due_at > now else job.run_after,
            unique=job.unique or _unique(entry),
        )

    def task_of(self, entry: ScheduleEntry) -> AnyTask:
        """The task of an entry as the entry wants it; raises like a call of this."""
        task = load_task(entry.task)
        backend = None if task.backend == self.alias else self.alias
        if entry.queue is None and entry.priority is None and backend is None:
            return task
        return task.using(queue_name=entry.queue, priority=entry.priority, backend=backend)


def _unique(entry: ScheduleEntry) -> Unique | None:
    mode = UNIQUE_MODES.get(entry.overlap)
    return Unique(key=unique_key(entry.name), mode=mode) if mode else None

"""The TaskResult of this package: Django's, plus what a store knows beyond it."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from ..framework import TASK_REFRESH_ATTRS, AnyTask, TaskError, TaskResultOf, TaskResultStatus
from ..jobs.model import Failure, Job, JobRecord, JobState, Progress
from ..stores.base import CancelStatus
from .building import task_of, to_datetime
from .vtask import variant

STATUS: Mapping[JobState, TaskResultStatus] = {
    JobState.SCHEDULED: TaskResultStatus.READY,
    JobState.READY: TaskResultStatus.READY,
    JobState.LEASED: TaskResultStatus.RUNNING,
    JobState.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    JobState.DISCARDED: TaskResultStatus.FAILED,
    JobState.DEAD: TaskResultStatus.FAILED,
}
"""How the states of a job show in the framework's four."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VTaskResult[**P, R](TaskResultOf[P, R]):  # type: ignore[misc] # the stubs forget that the base is frozen
    """The result of a job. A held result does not change by itself: `refresh()` reads it again.

    `is_duplicate` says that the call turned out to be a duplicate only at the commit, after its result was returned;
    `duplicate_of` is then the job that stands for it, if the store knows, and reading, here or in another process,
    reads that job.
    `progress` and `metadata` are what the running task last saved.
    """

    progress: Progress | None = field(default=None, compare=False)
    metadata: Mapping[str, Any] | None = field(default=None, compare=False)
    is_duplicate: bool = field(default=False, compare=False)
    duplicate_of: str | None = field(default=None, compare=False)
    retry_of: str | None = field(default=None, compare=False)
    state: JobState = field(default=JobState.READY, compare=False)

    def refresh(self) -> None:
        """Read it again. Raises TaskResultDoesNotExist when the result is gone."""
        self._take(self._backend.get_result(self._read_id))

    async def arefresh(self) -> None:
        """As `refresh`."""
        self._take(await self._backend.aget_result(self._read_id))

    def cancel(self) -> CancelStatus:
        """Ask that the job does not run: a waiting one never starts, a running one is told. Says what was found."""
        return self._backend.cancel(self._read_id)  # type: ignore[no-any-return]

    async def acancel(self) -> CancelStatus:
        """As `cancel`."""
        return await self._backend.acancel(self._read_id)  # type: ignore[no-any-return]

    async def wait(self, timeout: float | None = None) -> "VTaskResult[P, R]":
        """This result, refreshed once the job is over. Raises TimeoutError after `timeout` seconds (None = never)."""
        for left in _until(timeout):
            await self.arefresh()
            if self.is_finished:
                return self
            await self._backend.client_store.auntil_ended(self._read_id, left)
        raise TimeoutError(f"the job {self.id} did not finish within {timeout} seconds")

    def wait_sync(self, timeout: float | None = None) -> "VTaskResult[P, R]":
        """As `wait`, for code without an event loop. Inside a transaction it waits for a job nobody can see yet."""
        for left in _until(timeout):
            self.refresh()
            if self.is_finished:
                return self
            self._backend.client_store.until_ended(self._read_id, left)
        raise TimeoutError(f"the job {self.id} did not finish within {timeout} seconds")

    def became_duplicate(self, of: str | None, own_id: str | None = None) -> None:
        """Note that the call turned out to be a duplicate of a job; `own_id` is the id that the call was given."""
        object.__setattr__(self, "is_duplicate", True)
        object.__setattr__(self, "duplicate_of", of)
        object.__setattr__(self, "id", own_id or self.id)

    @property
    def _backend(self) -> Any:
        return self.task.get_backend()

    @property
    def _read_id(self) -> str:
        return self.duplicate_of or self.id

    def _take(self, read: Any) -> None:
        for name in _REFRESHED:
            object.__setattr__(self, name, getattr(read, name))
        if read.is_duplicate:
            self.became_duplicate(read.duplicate_of)


_REFRESHED = (*sorted(TASK_REFRESH_ATTRS), "progress", "metadata", "retry_of", "state")


def _until(timeout: float | None) -> Iterator[float | None]:
    """The seconds that are left, again and again until none are; once more at the very end."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while deadline is None or (left := deadline - time.monotonic()) > 0:
        yield None if deadline is None else left
    yield 0.0


class _Draft(VTaskResult[..., Any]):
    """A result while it is made: not frozen, which makes filling it ten times as fast."""

    __slots__ = ()
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    def __init__(self: Any, task: AnyTask, job: Job, backend: str) -> None:
        self.task = task
        self.id = job.id
        self.status = TaskResultStatus.READY
        self.enqueued_at = to_datetime(job.enqueued_at)
        self.started_at = self.finished_at = self.last_attempted_at = None
        self.args = job.args
        self.kwargs = job.kwargs
        self.backend = backend
        self.errors = []
        self.worker_ids = []
        self._return_value = None
        self.progress = None
        self.metadata = job.metadata
        self.is_duplicate = False
        self.duplicate_of = self.retry_of = None
        self.state = JobState.READY


def new_result(task: AnyTask, job: Job, backend: str) -> VTaskResult[..., Any]:
    """The result of a job that was just enqueued; not normalised again, since the arguments are JSON already."""
    if job.run_after is not None and not isinstance(task.run_after, datetime):
        task = variant(task, run_after=to_datetime(job.run_after))
    result: Any = _Draft(task, job, backend)
    result.__class__ = VTaskResult
    return result  # type: ignore[no-any-return]


def result_from(record: JobRecord, backend: str) -> VTaskResult[..., Any]:
    """The result that a store's record shows, for the TASKS alias `backend`."""
    job = record.job
    result = new_result(task_of(job, backend), job, backend)
    object.__setattr__(result, "args", list(job.args))
    object.__setattr__(result, "kwargs", dict(job.kwargs))
    show(result, record)
    if record.stands_for is not None:
        result.became_duplicate(record.job.id, record.stands_for)
    return result


def show(result: VTaskResult[..., Any], record: JobRecord) -> None:
    """Make a result tell what a record of its job says."""
    put = object.__setattr__
    put(result, "status", STATUS[record.state])
    put(result, "state", record.state)
    put(result, "started_at", to_datetime(record.started_at))
    put(result, "last_attempted_at", to_datetime(record.last_attempted_at))
    put(result, "finished_at", to_datetime(record.finished_at))
    put(result, "worker_ids", list(record.worker_ids))
    put(result, "errors", _errors(record))
    put(result, "progress", record.progress)
    put(result, "metadata", record.job.metadata)
    put(result, "retry_of", record.job.retry_of)
    if record.state is JobState.SUCCEEDED and record.value is not None:
        put(result, "_return_value", orjson.loads(record.value))


def _errors(record: JobRecord) -> list[TaskError]:
    failures = [attempt.failure for attempt in record.job.attempts if attempt.failure]
    letter = record.letter
    if letter is not None and letter.failure not in failures:
        failures.append(letter.failure)
    return [task_error(failure) for failure in failures]


def task_error(failure: Failure) -> TaskError:
    """A failure as the framework's error."""
    text = failure.traceback or f"{failure.exception_class.rpartition('.')[2]}: {failure.message}\n"
    return TaskError(exception_class_path=failure.exception_class, traceback=text)

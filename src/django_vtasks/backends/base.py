"""The backend behind the framework's interface: one path for every way of enqueuing, over any store."""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.core.checks import CheckMessage

from ..conf import dlq_cap, queue_names, settings
from ..framework import AnyTask, BaseTaskBackend, TaskResultDoesNotExist
from ..jobs.model import JobRecord
from ..stores.base import AdminStore, CancelStatus, ClientStore, WorkerStore
from ..tasks import TaskOptions, VTask, check_importable, clock, new_result, prepared, result_from, to_job
from .enqueuing import Enqueuer, Entry, Result
from .validation import CallShape, check_call, validate

if TYPE_CHECKING:
    from .examining import Examination

type Call = tuple[AnyTask, Sequence[Any], Mapping[str, Any]]


class VTasksBaseBackend(BaseTaskBackend):
    """Enqueues, reads and cancels through a store. Subclasses say which one, and open nothing before first use.

    The framework makes one object per thread; what it holds is shared by all of them.
    """

    task_class = VTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True
    supports_unique = True
    supports_throttle = True
    requires_scheduled_promotion = False
    keeps_relative_run_after = True
    runs_elsewhere = True
    default_result_ttl = 86_400.0
    reserved_queues: frozenset[str] = frozenset()
    known_options: frozenset[str] = frozenset(("DLQ_CAP", "RAISE_AT_COMMIT"))

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        self._declared_queues = _declared_queues(params)
        self._accepted: tuple[int, set[str]] = (-1, set())
        self.params = params
        options = params.get("OPTIONS")
        options = options if isinstance(options, Mapping) else {}
        super().__init__(alias, {**params, "QUEUES": self._declared_queues, "OPTIONS": options})
        self._enqueuer = Enqueuer(self)
        self.hostname = socket.gethostname()
        self.worker_id = f"{self.hostname}-{os.getpid()}"

    # --- what subclasses give

    @property
    def client_store(self) -> ClientStore:
        """The store for application code, shared by the threads of this process."""
        raise NotImplementedError

    @property
    def admin_store(self) -> AdminStore:
        """The store for operators."""
        raise NotImplementedError

    def new_worker_store(self) -> WorkerStore:
        """A store for one worker, not shared."""
        raise NotImplementedError

    def new_inline_store(self) -> WorkerStore:
        """A store for somebody who works jobs off where they are enqueued: what it does in a database happens on the
        caller's connection and in the caller's transaction."""
        return self.new_worker_store()

    @property
    def location(self) -> str:
        """Where the jobs are, for people to read; no password in it, and nothing is opened."""
        return type(self).__name__

    @property
    def is_private(self) -> bool:
        """Whether the jobs are in the memory of this process, where no other process sees them. Opens nothing."""
        return False

    # --- configuration

    @property
    def queues(self) -> set[str]:
        """The queue names accepted: `QUEUES` of the TASKS entry and the names in `VTASKS_QUEUES`; empty = any."""
        generation, names = self._accepted
        if generation != settings.generation:
            names = set(self._declared_queues)
            if names and settings.is_given("VTASKS_QUEUES"):
                names |= queue_names()
            self._accepted = (settings.generation, names)
        return names

    @queues.setter
    def queues(self, _names: set[str]) -> None:
        # The framework's constructor assigns what is computed above.
        self._accepted = (-1, set())

    @property
    def raises_at_commit(self) -> bool:
        """Whether a store that fails at the commit makes the commit hook raise, beside the log line (the default)."""
        return bool(self.options.get("RAISE_AT_COMMIT", True))

    @property
    def dlq_cap(self) -> int:
        """How many dead letters the alias keeps."""
        return int(dlq_cap(self.params))

    def validate_task(self, task: AnyTask) -> None:
        """Raise InvalidTask for a task that this backend cannot run."""
        validate(self, task)

    def check(self, **_kwargs: Any) -> list[CheckMessage]:
        """The system checks of this alias; opens nothing."""
        from .checking import check_entry

        return [*check_entry(self), *self.check_store()]

    def check_store(self) -> list[CheckMessage]:
        """The part of the checks that depends on the store."""
        return []

    def examine(self) -> "Examination":
        """What the server of the store is and what is wrong with it. Opens connections; raises what they raise."""
        from .examining import Examination

        return Examination()

    # --- enqueuing

    def enqueue(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue one call; returns its result, or None when a unique rule refused it.

        On a store that does not share the caller's transaction the job is stored when that commits. Raises
        InvalidTask, TypeError or ValueError for a call that cannot be stored, and StoreUnavailable.
        """
        store = self.client_store
        return self._enqueuer.run_one(self._entry(task, args, kwargs, store), store)

    async def aenqueue(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """As `enqueue`."""
        store = self.client_store
        return await self._enqueuer.arun_one(self._entry(task, args, kwargs, store), store)

    def enqueue_many(self, calls: Iterable[Call]) -> list[Result | None]:
        """Enqueue `(task, args, kwargs)` triples; one result per call, in order, None for a refused duplicate.

        All are validated before any is stored; they are stored in chunks, so an unavailable store may leave the
        first chunks done: the error says how many.
        """
        store = self.client_store
        return self._enqueuer.run([self._entry(*call, store) for call in map(triple, calls)])

    async def aenqueue_many(self, calls: Iterable[Call]) -> list[Result | None]:
        """As `enqueue_many`."""
        store = self.client_store
        return await self._enqueuer.arun([self._entry(*call, store) for call in map(triple, calls)])

    def check_call(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskOptions:
        """The task's options, once it is sure that the task and its arguments can be enqueued here.

        Raises InvalidTask, and TypeError for arguments that the function does not take.
        """
        kept = prepared(task)
        if not kept.checked:
            self.validate_task(task)
            if self.runs_elsewhere:
                check_importable(task)
            kept.shape = CallShape(task)
            kept.checked = True
        if not kept.options.batch:
            check_call(task, kept.shape, args, kwargs)
        return kept.options

    def _entry(self, task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any], store: ClientStore) -> Entry:
        options = self.check_call(task, args, kwargs)
        job = to_job(task, args, kwargs, id=store.new_id(), now=clock())
        result = new_result(task, job, self.alias)
        return Entry(job, result, options.on_commit, options.on_duplicate == "result")

    # --- reading and cancelling

    def get_result(self, result_id: str) -> Any:
        """The result of a job by id. Raises TaskResultDoesNotExist for one that is unknown, malformed or pruned."""
        return self._found(result_id, self.client_store.get(result_id) if _may_exist(result_id) else None)

    async def aget_result(self, result_id: str) -> Any:
        """As `get_result`."""
        return self._found(result_id, await self.client_store.aget(result_id) if _may_exist(result_id) else None)

    def result_from(self, record: JobRecord) -> Result:
        """The result that a store's record shows. Not validated: settings may no longer allow the job."""
        return result_from(record, self.alias)

    def cancel(self, job_id: str) -> CancelStatus:
        """Cancel a job: a waiting one never starts, a running one is told. Says what was found."""
        return self.client_store.cancel(job_id) if _may_exist(job_id) else CancelStatus.UNKNOWN

    async def acancel(self, job_id: str) -> CancelStatus:
        """As `cancel`."""
        return await self.client_store.acancel(job_id) if _may_exist(job_id) else CancelStatus.UNKNOWN

    def _found(self, result_id: Any, record: JobRecord | None) -> Result:
        if record is None:
            raise TaskResultDoesNotExist(result_id)
        return self.result_from(record)

    # --- what operators' scripts of the 3.2 line call

    async def get_queue_depth(self, queue: str) -> int:
        """How many jobs of a queue are ready."""
        counts = await sync_to_async(self.admin_store.counts)()
        return next((count.ready for count in counts if count.queue == queue), 0)


def _declared_queues(params: Mapping[str, Any]) -> list[str]:
    """`QUEUES` of a TASKS entry as a list; what is no list is reported by the checks and means the default here."""
    declared = params.get("QUEUES", ["default"])
    if isinstance(declared, str):
        return [declared]
    return list(declared) if isinstance(declared, Iterable) else ["default"]


def _may_exist(job_id: Any) -> bool:
    return isinstance(job_id, str) and 0 < len(job_id) <= 64 and job_id.isascii() and job_id.isprintable()


def triple(call: Any) -> Call:
    """A call as given to `enqueue_many`. Raises ValueError when it has not three parts."""
    try:
        task, args, kwargs = call
    except (TypeError, ValueError):
        raise ValueError(f"enqueue_many() takes (task, args, kwargs) triples, not {call!r}") from None
    return task, args, kwargs

"""The attempt of one job."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..jobs.model import Claim, Job, Progress, evolve_job
from ..jobs.outcomes import Outcome, Succeeded
from .context import JobContext, Metadata
from .environment import Done, Environment
from .registry import RunnableTask
from .stopping import StoppableAttempt
from .values import NULL, own_copy, to_json

_NOTHING_RETURNED = (Succeeded(value=NULL),)


class SingleAttempt(StoppableAttempt):
    """Calls the function with the job's arguments; it is the other end of the line a JobContext speaks into."""

    metadata: Metadata | None = None

    def __init__(self, env: Environment, claim: Claim, job: Job, runnable: RunnableTask, done: Done) -> None:
        StoppableAttempt.__init__(self, env, (claim,), runnable.path, done)
        self.runnable = runnable
        self.is_async = runnable.is_async
        self.job = job

    def call(self) -> Any:
        """Call the function: its value, or the coroutine of an async one."""
        job, runnable = self.job, self.runnable
        args, kwargs = own_copy(job.args), job.kwargs
        if kwargs:
            kwargs = own_copy(kwargs)
            if runnable.dropped and not runnable.dropped.isdisjoint(kwargs):
                kwargs = {name: value for name, value in kwargs.items() if name not in runnable.dropped}
        if runnable.takes_context:
            return runnable.function(self._context(), *args, **kwargs)
        return runnable.function(*args, **kwargs)

    def returned(self, value: Any) -> Sequence[Outcome]:
        """The outcome when the function returned. Raises TypeError for a value that is not JSON."""
        return _NOTHING_RETURNED if value is None else (Succeeded(value=to_json(value)),)

    def names(self) -> dict[str, Any]:
        """`task_id`, `task_ids` and `name`, as signals and contexts get them."""
        return {"task_id": self.job.id, "task_ids": None, "name": self.path}

    def arguments(self) -> dict[str, Any]:
        """`args` and `kwargs`, as signals get them."""
        return {"args": list(self.job.args), "kwargs": dict(self.job.kwargs)}

    def current(self, claim: Claim) -> Claim:
        """The claim, its job with the metadata that the function left."""
        if self.metadata is None or not self.metadata.changed:
            return claim
        return replace(claim, job=evolve_job(self.job, metadata=self.metadata.copy()))

    # -- the line of the context --------------------------------------------------------------------------------------

    @property
    def shutdown_requested(self) -> bool:
        """Whether the worker is going away."""
        return self.env.shutdown_requested

    def say(self, progress: Progress | None, metadata: Mapping[str, Any] | None) -> None:
        """Have the worker save what the job says of itself."""
        if self.runs:
            self.env.options.report(self.claims[0], progress, metadata)

    def _context(self) -> JobContext[..., Any]:
        self.metadata = Metadata(self.job.metadata, lambda entries: self.say(None, entries))
        return JobContext(task_result=self.result_of(self.claims[0]), metadata=self.metadata, _line=self)

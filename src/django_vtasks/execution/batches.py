"""The attempt of a group of jobs that one call of a batch function does together."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..jobs.codec import to_payload
from ..jobs.model import Claim, Job
from ..jobs.outcomes import Abandonment, Outcome, Succeeded
from .endings import Case, is_control
from .environment import Done, Environment
from .members import BatchResult, MemberFailed
from .registry import RunnableTask
from .stopping import StoppableAttempt
from .values import own_copy, to_json

logger = logging.getLogger(__name__)

_DONE = Succeeded()


class BatchAttempt(StoppableAttempt):
    """Calls the function with one list of payloads: the fields of each job, its `id`, and the stored bytes as `_raw`.

    `alone` are the outcomes of members that were run again alone, by token.
    """

    def __init__(self, env: Environment, claims: Sequence[Claim], runnable: RunnableTask, done: Done) -> None:
        StoppableAttempt.__init__(self, env, claims, runnable.path, done)
        self.runnable = runnable
        self.is_async = runnable.is_async
        self.alone: dict[str, Outcome] = {}

    def call(self) -> Any:
        """Call the function with all members."""
        return self.runnable.function([_payload(claim, job) for claim, job in self.jobs()])

    def call_alone(self, claim: Claim, job: Job) -> Any:
        """Call the function with one member."""
        return self.runnable.function([_payload(claim, job)])

    def returned(self, value: Any) -> Sequence[Outcome]:
        """The outcome of every member: success, unless a BatchResult says otherwise; other values are not kept."""
        if isinstance(value, BatchResult):
            return self._told_apart(value)
        return [_DONE] * len(self.claims)

    def raised(self, error: BaseException) -> Sequence[Outcome]:
        """The outcome of every member when the function raised: all share it, unless it says which failed."""
        if isinstance(error, MemberFailed):
            return self._told_apart(error.result)
        return StoppableAttempt.raised(self, error)

    def stopped(self, told: BaseException, how: Abandonment = Abandonment.STOPPED) -> Sequence[Outcome]:
        """The outcome of every member when the call was stopped; those that were through alone keep theirs."""
        outcomes = StoppableAttempt.stopped(self, told, how)
        return [self.alone.get(c.lease.token, outcome) for c, outcome in zip(self.claims, outcomes, strict=True)]

    def is_tried_alone(self, error: BaseException) -> bool:
        """Whether the members of this group are run again, each alone."""
        if len(self.claims) < 2 or isinstance(error, MemberFailed) or is_control(error):
            return False
        return self.claims[0].queue in self.env.options.one_by_one

    def ended_alone(self, claim: Claim, value: Any, error: BaseException | None) -> None:
        """A member was run alone, and returned or raised."""
        one = BatchAttempt(self.env, (claim,), self.runnable, lambda *_: None)
        self.alone[claim.lease.token] = (one.returned(value) if error is None else one.raised(error))[0]

    def names(self) -> dict[str, Any]:
        """`task_id`, `task_ids` and `name`, as signals and contexts get them."""
        return {"task_id": None, "task_ids": [job.id for _, job in self.jobs()], "name": self.path}

    def arguments(self) -> dict[str, Any]:
        """`args` and `kwargs`, as signals get them."""
        jobs = [job for _, job in self.jobs()]
        return {"args": [list(job.args) for job in jobs], "kwargs": [dict(job.kwargs) for job in jobs]}

    def cancel(self) -> None:
        """Stop a group of one; one of several cannot be stopped, and ends with the others."""
        if len(self.claims) == 1:
            StoppableAttempt.cancel(self)

    def _told_apart(self, result: BatchResult) -> Sequence[Outcome]:
        unknown = {*result.failed, *result.values}.difference(job.id for _, job in self.jobs())
        if unknown:
            logger.error("The batch function %s tells of jobs that are not in its batch: %s", self.path, unknown)
        return [self._of_member(claim, job, result) for claim, job in self.jobs()]

    def _of_member(self, claim: Claim, job: Job, result: BatchResult) -> Outcome:
        error = result.failed.get(job.id)
        if error is None:
            try:
                return Succeeded(value=to_json(result.values.get(job.id)))
            except TypeError as refused:
                error = refused
        return Case(error, self.runnable, self.hide()).outcome(job, partial(self.result_of, claim))


def _payload(claim: Claim, job: Job) -> dict[str, Any]:
    payload = to_payload(job)
    payload["args"] = list(own_copy(job.args))
    payload["kwargs"] = dict(own_copy(job.kwargs))
    payload["_raw"] = claim.raw
    return payload

"""An attempt under way: its phases, its outcome, and how its end is told exactly once."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..events import AttemptEnded, assemble_ended
from ..exceptions import JobCancelled, JobTimedOut, QueueError
from ..jobs.model import Claim, Job
from ..jobs.outcomes import Abandonment, Outcome, Raised, Succeeded, Untouched
from ..jobs.transitions import Decision, decide
from ..tasks.redaction import Hide, Redaction, hiding
from .announcements import running_record
from .conduct import drive
from .endings import Case, Stop, stop_error
from .environment import AnyResult, Done, Environment
from .failures import describe, describe_stop
from .registry import RunnableTask

if TYPE_CHECKING:
    from .contexts import ContextSlot

logger = logging.getLogger(__name__)

type Ending = tuple[Claim, Outcome, Decision]

_STOP_CLASSES: Mapping[Stop, type[JobCancelled | JobTimedOut]] = {
    Stop.CANCEL: JobCancelled,
    Stop.TIMEOUT: JobTimedOut,
    Stop.SHUTDOWN: JobCancelled,
    Stop.LOST: JobCancelled,
}


class Attempt:
    """The attempt of one claim, or of all members of a batch group.

    It waits, runs, and has ended. Whoever takes it to the last phase makes its outcome, be that the function's own end
    or a stop from outside; a late end of an abandoned function changes nothing. `done` is told on the loop, once.
    """

    # Most attempts need none of these, so they cost nothing until they are set.
    is_async: bool = False
    task: asyncio.Task[None] | None = None
    slot: "ContextSlot | None" = None
    stop: Stop | None = None
    stack: str = ""
    endings: Sequence[Ending] = ()
    ended_at: float = 0.0
    executed: bool = True
    """Whether the function was called, if the attempt is over."""
    _timer: asyncio.TimerHandle | None = None
    _results: dict[str, AnyResult] | None = None

    runnable: RunnableTask
    """What is run; absent in an attempt that is refused."""

    def __init__(self, env: Environment, claims: Sequence[Claim], path: str, done: Done) -> None:
        self.env = env
        self.claims = claims
        self.path = path
        self.started_monotonic = time.monotonic()
        self._done: Done | None = done
        # Whoever takes the only item out begins or ends the attempt; taking it is one step, in any thread.
        self._beginning = [True]
        self._ending = [True]

    # -- what kinds of attempts differ in -----------------------------------------------------------------------------

    def call(self) -> Any:
        """Call the function: its value, or the coroutine of an async one."""
        raise NotImplementedError

    def returned(self, value: Any) -> Sequence[Outcome]:
        """The outcome of every claim when the function returned. Raises TypeError for what is not JSON."""
        raise NotImplementedError

    def names(self) -> dict[str, Any]:
        """`task_id`, `task_ids` and `name`, as signals and contexts get them."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """`args` and `kwargs`, as signals get them."""
        raise NotImplementedError

    def call_alone(self, claim: Claim, job: Job) -> Any:
        """Call the function for one member of a group."""
        raise NotImplementedError

    def ended_alone(self, claim: Claim, value: Any, error: BaseException | None) -> None:
        """A member was run alone, and returned or raised."""
        raise NotImplementedError

    def is_tried_alone(self, error: BaseException) -> bool:  # noqa: ARG002 - batches look at it
        """Whether the members of a group that raised are run again, each alone."""
        return False

    def current(self, claim: Claim) -> Claim:
        """The claim, its job as it is by now."""
        return claim

    # -- outcomes -----------------------------------------------------------------------------------------------------

    def raised(self, error: BaseException) -> Sequence[Outcome]:
        """The outcome of every claim when the function raised."""
        case = Case(error, self.runnable, self.hide())
        return [case.outcome(job, partial(self.result_of, claim)) for claim, job in self.jobs()]

    def stopped(self, told: BaseException, how: Abandonment = Abandonment.STOPPED) -> Sequence[Outcome]:
        """The outcome of every claim when the function was stopped from outside; `told` stands for the stop."""
        case = Case(told, self.runnable, self.hide(), is_stop=True)
        stop = self.stop or Stop.SHUTDOWN
        return [case.stopped(stop, how, job, partial(self.result_of, claim)) for claim, job in self.jobs()]

    def despite_stop(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """The outcomes of a function that returned, those that succeeded with a note that it had been told to stop."""
        if self.stop not in (Stop.TIMEOUT, Stop.CANCEL):
            return outcomes
        failure = describe_stop(self.stop_error(), self.path)
        seconds = time.monotonic() - self.started_monotonic
        failure = replace(failure, message=f"{failure.message}; it went on and returned after {seconds:.1f} s")
        return [replace(item, despite=failure) if isinstance(item, Succeeded) else item for item in outcomes]

    def stop_error(self) -> BaseException:
        """The exception that stands for the stop, with a note of where the function's thread was when it was told."""
        error = stop_error(self.stop or Stop.SHUTDOWN, self.runnable)
        if self.stack:
            error.add_note(f"When it was told to stop it was here:\n{self.stack}")
        return error

    def hide(self) -> Hide:
        """Takes what is hidden of the arguments out of a text."""
        # What was refused has no task to ask.
        runnable: RunnableTask | None = getattr(self, "runnable", None)
        redaction = runnable.redaction if runnable else Redaction()
        return hiding(redaction, ((job.args, job.kwargs) for _, job in self.jobs()))

    def jobs(self) -> Iterator[tuple[Claim, Job]]:
        """Every claim with its job."""
        for claim in self.claims:
            if claim.job is not None:
                yield claim, claim.job

    def result_of(self, claim: Claim) -> AnyResult:
        """The TaskResult of a claim's job while it runs; made once."""
        if self._results is None:
            self._results = {}
        result = self._results.get(claim.lease.token)
        if result is None:
            assert claim.job is not None  # noqa: S101 - an attempt has claims with jobs only
            result = self.env.options.result_from(running_record(claim, claim.job))
            self._results[claim.lease.token] = result
        return result

    # -- phases -------------------------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """The function is about to be called; False when the attempt ended before."""
        try:
            return self._beginning.pop()
        except IndexError:
            return False

    def begins(self) -> bool:
        """As `begin` when the worker is sure of its claims; otherwise the attempt ends, and its jobs are as they were.

        It may have waited for a thread or the loop while the process stood still, and others may run its jobs by now.
        """
        if not self.begin():
            return False
        if self.env.options.may_begin():
            return True
        self.executed = False
        if self.end():
            self.settle([Untouched()] * len(self.claims))
        return False

    def still_begins(self) -> None:
        """Look again after a wait. Raises what stands for the loss of the jobs when the worker is not sure of them."""
        if not self.env.options.may_begin():
            self.stop = self.stop or Stop.LOST
            raise self.stop_error()

    def end(self) -> bool:
        """Take the attempt to its end; False when somebody did already, and makes its outcome."""
        try:
            return self._ending.pop()
        except IndexError:
            return False

    @property
    def is_over(self) -> bool:
        """Whether it ended."""
        return not self._ending

    @property
    def runs(self) -> bool:
        """Whether the function was called and has not ended."""
        return not self._beginning and bool(self._ending)

    @property
    def told_to_stop(self) -> type[JobCancelled | JobTimedOut] | None:
        """The class of exception that says why the function is to stop; None when it is not."""
        return None if self.stop is None else _STOP_CLASSES[self.stop]

    def now(self) -> float:
        """Epoch seconds by the store's clock."""
        return self.claims[0].started_at + time.monotonic() - self.started_monotonic

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Decide what becomes of every claim, and say so. Follows a successful `end`."""
        self.ended_at = ended_at = self.now()
        options = self.env.options
        policy_of = options.policy_of
        self.endings = [
            (claim, outcome, decide(self.current(claim), outcome, policy_of(claim), ended_at))
            for claim, outcome in zip(self.claims, outcomes, strict=True)
        ]
        if options.emitter.wanted(AttemptEnded):
            self._emit_ended()

    def report(self) -> None:
        """Tell `done`, on the loop; does nothing the second time. Never raises."""
        done, self._done = self._done, None
        if done is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        if not self.endings:
            self._settle_unended()
        for claim, outcome, decision in self.endings:
            try:
                done(claim, outcome, self.ended_at, decision)
            except Exception:
                logger.exception("The end of the job %s could not be taken", claim.lease.job_id)

    def _emit_ended(self) -> None:
        duration = self.ended_at - self.claims[0].started_at
        for claim, outcome, decision in self.endings:
            if type(outcome) is not Untouched:
                self.env.options.emitter.emit(assemble_ended(claim, claim.lease.owner, outcome, decision, duration))

    def _settle_unended(self) -> None:
        """Nobody made the outcome: the loop was torn down before the function began, or this package broke."""
        untouched = self.begin()
        self.end()
        try:
            if not untouched:
                broken = QueueError("the attempt broke outside of the task; the worker's log has the traceback")
                outcomes: Sequence[Outcome] = [Raised(failure=describe(broken, self.path))] * len(self.claims)
            else:
                outcomes = [Untouched()] * len(self.claims)
            self.settle(outcomes)
        except Exception:
            logger.exception("Nothing could be decided about an attempt of %s", self.path)

    # -- called when the code is through ------------------------------------------------------------------------------

    def task_done(self, task: asyncio.Task[None]) -> None:
        """The task of a coroutine is over."""
        if self.slot is not None:
            self.env.contexts.give_back(self.slot)
        if not task.cancelled() and task.exception() is not None:
            logger.error("An attempt of %s broke", self.path, exc_info=task.exception())
        self.report()

    def run(self) -> None:
        """Run a sync function, in a slot thread."""
        drive(self, self.env.send_in_thread)

    def ended(self) -> None:
        """The slot thread is through."""
        self.report()

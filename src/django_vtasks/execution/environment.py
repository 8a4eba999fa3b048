"""What all attempts of one worker share."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ..events import Emitter, events
from ..framework import BaseTaskBackend, TaskResult
from ..jobs.model import Claim, JobRecord, Progress
from ..jobs.outcomes import Outcome
from ..jobs.transitions import Decision, Policy
from .announcements import ThreadSender
from .conduct import conduct, conduct_wrapped
from .connections import Ledger
from .contexts import ContextPool
from .threads import SlotThreads

type AnyResult = TaskResult[..., Any]

type Done = Callable[[Claim, Outcome, float, Decision], None]
"""Told once for every claim, on the loop: claim, outcome, when it ended (epoch seconds by the store's clock), and what
becomes of the job."""

type Report = Callable[[Claim, Progress | None, Mapping[str, Any] | None], None]
"""Saves what a running job says of itself (None = nothing new); called from any thread, and often."""

type MayBegin = Callable[[], bool]
"""Whether claims are surely the worker's still; asked in any thread, right before a function is called."""

type Wrapper = Callable[..., AbstractContextManager[Any]]


def say_nothing(_claim: Claim, _progress: Progress | None, _metadata: Mapping[str, Any] | None) -> None:
    """A `Report` that saves nothing."""


def always() -> bool:
    """A `MayBegin` for claims that nobody else can have."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorOptions:
    """How a worker wants its attempts run. Durations are seconds.

    `backend_class` sends the framework's signals and `worker_class` those of the 3.2 line. `result_from` turns a
    record into a TaskResult, `policy_of` tells what counts for a job. `task_context` (the setting) is called with
    `task_id`, `task_ids`, `name` and `queue`, `span` with the claims and the worker's id; what they return is entered
    around each attempt. A function that `may_begin` does not let begin is not called. An attempt that was told to stop
    has `grace` to do so, then it is abandoned, as long as fewer than `max_abandoned_threads` threads are. `one_by_one`
    names the batch queues whose failing groups are run again member by member.
    """

    backend_class: type[BaseTaskBackend]
    worker_class: type
    result_from: Callable[[JobRecord], AnyResult]
    policy_of: Callable[[Claim], Policy]
    report: Report = say_nothing
    may_begin: MayBegin = always
    task_context: Wrapper | None = None
    span: Wrapper | None = None
    concurrency: int = 20
    grace: float = 5.0
    max_abandoned_threads: int = 100
    one_by_one: frozenset[str] = frozenset()
    emitter: Emitter = events


class Environment:
    """What all attempts of one event loop share: its slots, the options, and whether the worker is going away."""

    def __init__(self, options: ExecutorOptions) -> None:
        self.options = options
        self.loop = asyncio.get_running_loop()
        self.connections = Ledger(options.concurrency, self._too_many_connections)
        self.contexts = ContextPool(self.connections)
        self.threads = SlotThreads(self.loop, options.concurrency, self.connections)
        self.send_in_thread = ThreadSender(self.loop)
        wraps = options.task_context is not None or options.span is not None
        self.conduct = conduct_wrapped if wraps else conduct
        self.shutdown_requested = False

    def _too_many_connections(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self._trim_connections)
        except RuntimeError:
            # The loop is closed, and so will the connections be.
            pass

    def _trim_connections(self) -> None:
        excess = self.connections.excess
        excess -= self.contexts.trim(excess)
        self.threads.trim(excess)

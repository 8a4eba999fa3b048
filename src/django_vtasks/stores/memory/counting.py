"""The queues at a glance, for operators and for workers."""

from collections import defaultdict

from ...jobs.model import JobState
from ..base import QueueCounts
from .state import State


def counts(state: State) -> list[QueueCounts]:
    """Every queue that has jobs or is paused, by name."""
    with state.lock:
        queues: defaultdict[str, list[JobState]] = defaultdict(list)
        for stored in state.jobs.values():
            queues[stored.queue].append(stored.state)
        for record in state.letters.values():
            queues[record.job.queue].append(JobState.DEAD)
        return [_count(state, queue, queues.get(queue, [])) for queue in sorted({*queues, *state.paused})]


def ready_ids(state: State, queue: str) -> list[str]:
    """The ids of a queue's ready jobs, those that wait for a limit last. The caller holds the lock."""
    return [*state.ready[queue].ids(), *state.limits.parked(queue)]


def _count(state: State, queue: str, states: list[JobState]) -> QueueCounts:
    ready = [state.jobs[job_id].ready_at for job_id in ready_ids(state, queue)]
    return QueueCounts(
        queue=queue,
        ready=len(ready),
        scheduled=states.count(JobState.SCHEDULED),
        leased=states.count(JobState.LEASED),
        dead=states.count(JobState.DEAD),
        oldest_ready_at=min(ready, default=None),
        paused=queue in state.paused,
    )

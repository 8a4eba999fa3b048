"""Collects the facts about one job, for `explain`."""

from dataclasses import replace

from ..jobs.errors import TaskNotFound
from ..tasks import load_task
from ..tasks.redaction import veiled
from .aliases import Alias
from .explain import Facts, Reason, explain, unknown


def facts_about(alias: Alias, job_id: str) -> Facts | None:
    """What is known about a job; None when nothing is."""
    store = alias.admin
    standing = store.standing(job_id)
    if standing is None:
        return None
    queue = standing.record.job.queue
    return Facts(
        standing=replace(standing, record=veiled(standing.record)),
        queue=next((count for count in store.counts() if count.queue == queue), None),
        workers=tuple(store.workers()),
        task_problem=task_problem(standing.record.job.func),
    )


def task_problem(path: str) -> str | None:
    """Why a task cannot be found in this code; None when it is there, or when no path is known."""
    try:
        if path:
            load_task(path)
    except TaskNotFound as error:
        return str(error)
    return None


def why(alias: Alias, job_id: str) -> tuple[Reason, ...]:
    """Why a job is not running, or what became of it."""
    facts = facts_about(alias, job_id)
    return unknown(job_id) if facts is None else explain(facts)

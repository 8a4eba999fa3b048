"""Assertions about what was enqueued, with failures that say what was enqueued instead."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..framework import AnyTask
from .arguments import Wanted
from .jobs import EnqueuedJob, uncommitted_jobs, waiting_jobs

SHOWN = 20
"""How many jobs a failure lists."""


def assert_enqueued(
    task: AnyTask | str,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue: str | None = None,
    count: int | None = None,
    alias: str = "default",
) -> EnqueuedJob:
    """Fail unless a job like this waits, see `enqueued`; with `count`, unless exactly so many do.

    Returns the first.
    """
    __tracebackhide__ = True
    wanted = Wanted(task=task, args=args or (), kwargs=kwargs or {}, queue=queue)
    waiting = waiting_jobs(alias)
    found = [job for job in waiting if wanted.fits(job)]
    if count == 0:
        raise ValueError("use assert_not_enqueued() for none")
    if not found:
        raise AssertionError("\n".join([f"No {wanted} is enqueued.", *_told(wanted, waiting, alias)]))
    if count is not None and len(found) != count:
        told = _listed(f"There are {len(found)}", found)
        raise AssertionError("\n".join([f"Not {count} times a {wanted}, but {len(found)} times.", *told]))
    return found[0]


def assert_not_enqueued(
    task: AnyTask | str | None = None,
    *,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    queue: str | None = None,
    alias: str = "default",
) -> None:
    """Fail if a job like this waits, see `enqueued`, or waits for the commit of a transaction that is open here."""
    __tracebackhide__ = True
    wanted = Wanted(task=task, args=args or (), kwargs=kwargs or {}, queue=queue)
    found = [job for job in (*waiting_jobs(alias), *uncommitted_jobs(alias)) if wanted.fits(job)]
    if found:
        raise AssertionError("\n".join([f"A {wanted} is enqueued.", *_listed("Found", found)]))


def _told(wanted: Wanted, waiting: Sequence[EnqueuedJob], alias: str) -> list[str]:
    lines = _listed("Enqueued", waiting) if waiting else ["Nothing is enqueued."]
    nearest = min(
        (job for job in waiting if wanted.is_task(job)), key=lambda job: len(wanted.differences(job)), default=None
    )
    if nearest is not None:
        lines += [f"Nearest: {nearest}", *(f"  {line}" for line in wanted.differences(nearest))]
    return lines + _about_commits(wanted, alias)


def _about_commits(wanted: Wanted, alias: str) -> list[str]:
    pending = uncommitted_jobs(alias)
    if not pending:
        return []
    what = "The job" if any(wanted.fits(job) for job in pending) else f"{len(pending)} other job(s)"
    return [
        f"{what} will be enqueued when the open transaction commits, which a TestCase never does:",
        "  wrap what enqueues in `with self.captureOnCommitCallbacks(execute=True):`.",
    ]


def _listed(heading: str, jobs: Sequence[EnqueuedJob]) -> list[str]:
    lines = [f"{heading}:", *(f"  {job}" for job in jobs[:SHOWN])]
    if len(jobs) > SHOWN:
        lines.append(f"  … and {len(jobs) - SHOWN} more")
    return lines

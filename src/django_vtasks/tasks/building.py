"""From a call to a Job, and from what a store knows of a job to the Task it belongs to."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from django.conf import settings as django_settings
from django.utils import timezone

from ..conf import settings
from ..framework import AnyTask
from ..jobs.errors import TaskNotFound
from ..jobs.limits import Call, JobLimit, limit_of
from ..jobs.model import Job, UniqueMode, evolve_job
from ..jobs.model import Unique as UniqueKey
from ..jobs.mould import Mould
from .arguments import written
from .loading import load_task, lost_function
from .options import TaskOptions, options_of
from .vtask import VTask, variant


class Prepared:
    """What is kept with a task until a setting changes: its options, and whether it was found fit to be enqueued."""

    __slots__ = ("checked", "generation", "mould", "options", "shape", "template")

    def __init__(self, task: AnyTask) -> None:
        self.generation = settings.generation
        self.options = options_of(task)
        self.template = _template(task, self.options)
        self.mould: Mould | None = None
        self.checked = False
        self.shape: Any = None

    def __deepcopy__(self, _memo: object) -> "Prepared":
        # `dataclasses.asdict` copies what a task holds, and compares as different what was copied twice.
        return self


def to_job(task: AnyTask, args: Sequence[Any], kwargs: Mapping[str, Any], *, id: str, now: float) -> Job:  # noqa: A002
    """The job of a call made at `now` (epoch seconds), with its arguments in JSON form.

    Raises TypeError or ValueError for an argument that is not JSON, and JobTooLarge.
    """
    kept = prepared(task)
    options = kept.options
    text = written(task, args, kwargs)
    json_args, json_kwargs = orjson.loads(text.joined)
    if kept.mould is not None:
        return kept.mould.job(id, json_args, json_kwargs, now, text)
    due = _due(task.run_after, now)
    unique = None
    if options.unique is not None:
        unique, due = _unique(task, options, json_args, json_kwargs, due, now)
    return evolve_job(
        kept.template,
        id=id,
        args=json_args,
        kwargs=json_kwargs,
        enqueued_at=now,
        run_after=due,
        unique=unique,
        expires_at=None if options.expires is None else _expiry(options.expires, due or now),
        limit=None if options.limit is options.rate is None else _limit(task, options, json_args, json_kwargs),
    )


def _is_plain(task: AnyTask, options: TaskOptions) -> bool:
    """Whether the jobs of a task differ in nothing but arguments, id and time."""
    differing = (task.run_after, options.unique, options.expires, options.limit, options.rate)
    return all(value is None for value in differing)


def _template(task: AnyTask, options: TaskOptions) -> Job:
    """What all jobs of a task have in common."""
    return Job(
        id="",
        func=options.path,
        queue=task.queue_name,
        priority=options.priority,
        max_rescues=options.max_rescues,
        result_ttl=options.own_result_ttl,
        metadata=options.metadata,
    )


def prepared(task: AnyTask) -> Prepared:
    """What is kept with the task; a plain Task keeps nothing, so it is made anew each time."""
    if type(task) is not VTask:
        return Prepared(task)
    kept: Prepared | None = task._prepared
    if kept is None or kept.generation != settings.generation:
        kept = Prepared(task)
        kept.mould = Mould(kept.template) if _is_plain(task, kept.options) else None
        object.__setattr__(task, "_prepared", kept)
    return kept


def _unique(
    task: AnyTask,
    options: TaskOptions,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    due: float | None,
    now: float,
) -> tuple[UniqueKey, float | None]:
    rule = options.unique
    assert rule is not None  # noqa: S101 - the caller asked for it
    unique = rule.of_call(task.func, options.path, args, kwargs, leading=1 if task.takes_context else 0)
    if rule.mode is UniqueMode.DEBOUNCE and due is None:
        due = now + (rule.delay or 0.0)
    return unique, due


def _limit(task: AnyTask, options: TaskOptions, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JobLimit | None:
    call = Call(
        function=task.func,
        default_key=options.path,
        args=args,
        kwargs=kwargs,
        leading=1 if task.takes_context else 0,
    )
    return limit_of(options.limit, options.rate, call)


def _due(run_after: datetime | timedelta | None, now: float) -> float | None:
    if run_after is None:
        return None
    if isinstance(run_after, timedelta):
        return round(now + run_after.total_seconds(), 6)
    return to_epoch(run_after)


def _expiry(expires: float | datetime, counted_from: float) -> float:
    return to_epoch(expires) if isinstance(expires, datetime) else counted_from + expires


def to_epoch(moment: datetime) -> float:
    """A datetime as epoch seconds; a naive one is in the current time zone's default."""
    if moment.tzinfo is None:
        moment = timezone.make_aware(moment, timezone.get_default_timezone())
    return moment.timestamp()


class _Zones:
    """What `USE_TZ` was when a setting last changed: one look at Django's settings costs as much as a datetime."""

    generation = -1
    aware = True


def to_datetime(epoch: float | None) -> datetime | None:
    """Epoch seconds as a datetime: aware in UTC with `USE_TZ`, else naive in the default time zone."""
    if epoch is None:
        return None
    moment = datetime.fromtimestamp(epoch, UTC)
    if _Zones.generation != settings.generation:
        _Zones.generation, _Zones.aware = settings.generation, django_settings.USE_TZ
    if _Zones.aware:
        return moment
    return timezone.make_naive(moment, timezone.get_default_timezone())


def task_of(job: Job, backend: str) -> AnyTask:
    """The declared task of a job, with the queue, priority and due time the job was enqueued with.

    Not validated, so jobs whose queue or priority the settings no longer allow can still be read. A function that is
    gone is replaced by a stand-in with the same path that raises TaskNotFound when called.
    """
    try:
        declared = load_task(job.func)
    except TaskNotFound:
        declared = _lost_task(job.func)
    if _is_as_declared(job, declared, backend):
        return declared
    return variant(  # type: ignore[no-any-return]
        declared,
        queue_name=job.queue,
        priority=job.priority,
        backend=backend,
        run_after=to_datetime(job.run_after),
    )


def _is_as_declared(job: Job, task: AnyTask, backend: str) -> bool:
    if job.run_after is not None or task.run_after is not None:
        return False
    return (job.queue, job.priority, backend) == (task.queue_name, task.priority, task.backend)


def _lost_task(path: str) -> AnyTask:
    task = _lost_tasks.get(path)
    if task is None:
        blank: Any = object.__new__(VTask)
        task = _lost_tasks[path] = _filled(blank, path)
    return task


_lost_tasks: dict[str, AnyTask] = {}


def _filled(blank: Any, path: str) -> AnyTask:
    for item in fields(VTask):
        object.__setattr__(blank, item.name, lost_function(path) if item.name == "func" else item.default)
    return blank  # type: ignore[no-any-return]

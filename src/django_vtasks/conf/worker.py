"""Everything a worker is told, as one value: settings, backend options and command-line flags, validated together."""

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from ..framework import task_backends
from ..jobs.retries import NAMED, Backoff, named_backoff
from ..stores.base import Retention
from .environment import settings
from .problems import COUNT, SECONDS, SECONDS_OR_ZERO, WHOLE, Bounds, Problems
from .queues import QueueConfig, parse_queues

ALL_QUEUES = "*"
PID = "{pid}"
"""Stands for the process in the name of a health file."""


class QueueOrder(StrEnum):
    """Which queue a worker asks first: each in turn as often as its weight says, or always in the order given."""

    FAIR = "fair"
    STRICT = "strict"


PORT = Bounds(least=0, whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What one worker does. Durations are seconds; None switches the part off unless said otherwise.

    `every_queue`: beside `queues` those are served that turn up, since the alias takes any name.
    `worker_id` is the name operators see; `result_ttl`, `max_attempts`, `backoff` and `timeout` are what tasks and
    queues fall back to.
    """

    alias: str = "default"
    queues: tuple[QueueConfig, ...] = (QueueConfig(name="default"),)
    every_queue: bool = False
    concurrency: int = 20
    worker_id: str = ""
    lease_seconds: float = 15.0
    heartbeat_interval: float = 5.0
    rescue_interval: float = 30.0
    shutdown_timeout: float = 30.0
    shutdown_cancel_grace: float | None = None
    run_scheduler: bool = False
    queue_order: QueueOrder = QueueOrder.FAIR
    schedule_timezone: str = "UTC"
    health_check_file: str | None = None
    health_port: int | None = None
    metrics_port: int | None = None
    task_context: Any = None
    result_ttl: float = 86_400.0
    retention: Retention = field(default_factory=Retention)
    loop_block_threshold: float = 1.0
    max_abandoned_threads: int = 100
    max_attempts: int = 1
    backoff: Backoff = NAMED["exponential"]
    timeout: float | None = None

    @property
    def queue_names(self) -> tuple[str, ...]:
        """The queues in the order in which they are asked."""
        return tuple(queue.name for queue in self.queues)

    @classmethod
    def from_settings(cls, alias: str | None = None, **overrides: Any) -> "WorkerConfig":
        """The configuration of a worker for a TASKS alias (default: `VTASKS_BACKEND`).

        Overrides are fields of this class by name; None means "not given". `queues` may be names: a configured queue
        keeps its options, an unknown one gets the defaults, and `*` stands for every configured queue and, where the
        alias takes any name, for every other one that has jobs. Raises ImproperlyConfigured listing all problems, and
        the framework's InvalidTaskBackend for an unknown alias.
        """
        given = {name: value for name, value in overrides.items() if value is not None}
        if "queues" in given:
            given["queues"] = tuple(given["queues"])
        problems = Problems()
        problems.keys("WorkerConfig", given, (item.name for item in fields(cls)))
        config = _Reading(alias or settings.VTASKS_BACKEND, given, problems).config()
        problems.raise_if_any()
        return config


def settings_problems() -> list[str]:
    """Everything that is wrong with the settings, as sentences; none for an alias that does not exist."""
    problems = Problems()
    alias = settings.VTASKS_BACKEND
    if alias not in task_backends.settings:
        return [f"VTASKS_BACKEND is {alias!r}, which TASKS does not have."]
    _Reading(alias, {}, problems).config()
    problems.number("VTASKS_MAX_RESCUES", settings.VTASKS_MAX_RESCUES, WHOLE)
    problems.number("VTASKS_MAX_JOB_BYTES", settings.VTASKS_MAX_JOB_BYTES, COUNT)
    return problems.found


def worker_name() -> str:
    """The default worker id: host name and process id."""
    return f"{socket.gethostname()}-{os.getpid()}"


def default_result_ttl(alias: str) -> float:
    """Seconds that results of an alias are kept where neither task nor queue says: `VTASKS_RESULT_TTL`, else what its
    backend class declares (600 on Valkey, 86,400 in a database)."""
    problems = Problems()
    ttl = _result_ttl(alias, problems)
    problems.raise_if_any()
    return ttl


def _result_ttl(alias: str, problems: Problems) -> float:
    ttl = problems.number("VTASKS_RESULT_TTL", settings.VTASKS_RESULT_TTL, SECONDS_OR_ZERO)
    return float(getattr(task_backends[alias], "default_result_ttl", 86_400.0)) if ttl is None else ttl


def retry_defaults(problems: Problems) -> tuple[int, Backoff]:
    """Attempts and backoff of tasks that say nothing: `VTASKS_MAX_ATTEMPTS` and `VTASKS_BACKOFF`."""
    attempts = problems.whole("VTASKS_MAX_ATTEMPTS", settings.VTASKS_MAX_ATTEMPTS, COUNT, default=1)
    value = settings.VTASKS_BACKOFF
    try:
        return attempts, named_backoff(_imported(value) if isinstance(value, str) and "." in value else value)
    except (ImportError, TypeError, ValueError) as error:
        problems.add(f"VTASKS_BACKOFF: {error}")
        return attempts, NAMED["exponential"]


def retention_of(alias: str, problems: Problems) -> Retention:
    """How many dead letters an alias keeps and for how long: `DLQ_CAP` beside or in OPTIONS, else the settings."""
    cap = dlq_cap(task_backends.settings.get(alias, {}))
    return Retention(
        dead_letter_cap=problems.whole("DLQ_CAP", cap, WHOLE, default=1000),
        dead_letter_age=problems.number("VTASKS_DLQ_MAX_AGE", settings.VTASKS_DLQ_MAX_AGE, SECONDS),
    )


def dlq_cap(params: Mapping[str, Any]) -> Any:
    """The cap in a TASKS entry: at its top level as in the 3.2 line, else in its OPTIONS, else `VTASKS_DLQ_CAP`."""
    for place in (params, params.get("OPTIONS")):
        if isinstance(place, Mapping) and place.get("DLQ_CAP") is not None:
            return place["DLQ_CAP"]
    return settings.VTASKS_DLQ_CAP


def _imported(path: str) -> Any:
    from django.utils.module_loading import import_string

    return import_string(path)


class _Reading:
    """One reading of the settings into a WorkerConfig; what is wrong goes into `problems`."""

    def __init__(self, alias: str, given: Mapping[str, Any], problems: Problems) -> None:
        self._alias = alias
        self._given = given
        self._problems = problems

    def config(self) -> WorkerConfig:
        heartbeat = self._seconds("heartbeat_interval", "VTASKS_HEARTBEAT_INTERVAL", SECONDS_OR_ZERO, 5.0) or 5.0
        lease = self._seconds("lease_seconds", "VTASKS_LEASE_SECONDS", SECONDS, max(1.0, 3 * heartbeat))
        if lease <= heartbeat:
            self._problems.add(f"VTASKS_LEASE_SECONDS ({lease:g}) must be longer than the heartbeat ({heartbeat:g}).")
        attempts, backoff = retry_defaults(self._problems)
        values = {
            "alias": self._alias,
            "queues": self._queues(),
            "every_queue": ALL_QUEUES in self._given.get("queues", ()) and not self._accepted(),
            "worker_id": self._text("worker_id", "VTASKS_WORKER_ID") or worker_name(),
            "lease_seconds": lease,
            "heartbeat_interval": heartbeat,
            "run_scheduler": bool(self._given.get("run_scheduler", False)),
            "task_context": self._value("task_context", "VTASKS_TASK_CONTEXT"),
            "queue_order": self._queue_order(),
            "result_ttl": self._result_ttl(),
            "retention": self._given.get("retention") or retention_of(self._alias, self._problems),
            "max_attempts": self._given.get("max_attempts", attempts),
            "backoff": self._given.get("backoff", backoff),
        }
        return WorkerConfig(**values, **self._numbers(), **self._texts())

    def _numbers(self) -> dict[str, Any]:
        return {
            "concurrency": self._whole("concurrency", "VTASKS_CONCURRENCY", COUNT, 20),
            "rescue_interval": self._seconds("rescue_interval", "VTASKS_RESCUE_INTERVAL", SECONDS_OR_ZERO, 30.0),
            "shutdown_timeout": self._seconds("shutdown_timeout", "VTASKS_SHUTDOWN_TIMEOUT", SECONDS_OR_ZERO, 30.0),
            "shutdown_cancel_grace": self._optional(
                "shutdown_cancel_grace", "VTASKS_SHUTDOWN_CANCEL_GRACE", SECONDS_OR_ZERO
            ),
            "loop_block_threshold": self._seconds(
                "loop_block_threshold", "VTASKS_LOOP_BLOCK_THRESHOLD", SECONDS_OR_ZERO, 1.0
            ),
            "max_abandoned_threads": self._whole("max_abandoned_threads", "VTASKS_MAX_ABANDONED_THREADS", WHOLE, 100),
            "health_port": self._port("health_port", "VTASKS_HEALTH_PORT"),
            "metrics_port": self._port("metrics_port", "VTASKS_METRICS_PORT"),
            "timeout": self._optional("timeout", "VTASKS_TASK_TIMEOUT", SECONDS),
        }

    def _texts(self) -> dict[str, Any]:
        return {
            "health_check_file": self._text("health_check_file", "VTASKS_HEALTH_CHECK_FILE"),
            "schedule_timezone": self._text("schedule_timezone", "VTASKS_SCHEDULE_TIMEZONE") or "UTC",
        }

    def _queues(self) -> tuple[QueueConfig, ...]:
        configured = parse_queues(settings.VTASKS_QUEUES, self._problems)
        names = self._given.get("queues")
        if names is None:
            return tuple(configured.values())
        return tuple(self._named(names, configured))

    def _named(self, names: Iterable[Any], configured: Mapping[str, QueueConfig]) -> list[QueueConfig]:
        queues: dict[str, QueueConfig] = {}
        for item in names:
            if isinstance(item, QueueConfig):
                queues.setdefault(item.name, item)
            elif item == ALL_QUEUES:
                every = dict.fromkeys([*configured, *sorted(self._accepted())])
                queues |= {n: configured.get(n) or QueueConfig(name=n) for n in every if n not in queues}
            else:
                queues.setdefault(item, configured.get(item) or QueueConfig(name=item))
        return list(queues.values())

    def _accepted(self) -> Iterable[str]:
        """The queue names that the alias takes; none if it takes any."""
        return getattr(task_backends[self._alias], "queues", ())

    def _queue_order(self) -> QueueOrder:
        value = self._value("queue_order", "VTASKS_QUEUE_ORDER")
        try:
            return QueueOrder(value)
        except ValueError:
            self._problems.add(f"VTASKS_QUEUE_ORDER must be one of {[*QueueOrder]}, not {value!r}.")
            return QueueOrder.FAIR

    def _result_ttl(self) -> float:
        given = self._problems.number("result_ttl", self._given.get("result_ttl"), SECONDS_OR_ZERO)
        return _result_ttl(self._alias, self._problems) if given is None else given

    def _value(self, name: str, setting: str) -> Any:
        return self._given.get(name, getattr(settings, setting))

    def _seconds(self, name: str, setting: str, bounds: Bounds, default: float) -> float:
        number = self._problems.number(setting, self._value(name, setting), bounds)
        return default if number is None else number

    def _optional(self, name: str, setting: str, bounds: Bounds) -> float | None:
        return self._problems.number(setting, self._value(name, setting), bounds)

    def _whole(self, name: str, setting: str, bounds: Bounds, default: int) -> int:
        return self._problems.whole(setting, self._value(name, setting), bounds, default=default)

    def _port(self, name: str, setting: str) -> int | None:
        number = self._problems.number(setting, self._value(name, setting), PORT)
        if number is not None and number > 65_535:
            self._problems.add(f"{setting} must be a port number up to 65535, not {number:g}.")
        return None if number is None else int(number)

    def _text(self, name: str, setting: str) -> str | None:
        return self._problems.text(setting, self._value(name, setting))

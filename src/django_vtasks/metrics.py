"""Prometheus metrics: a subscriber of `events`. Importable without prometheus-client; the metrics then do nothing.

The five names of the 3.2 line come first and keep their labels. `install()` subscribes once per process;
`QueueCollector` reads depth and age from the store at scrape time, with or without a worker.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import events as happened
from .jobs.model import DeadReason, OutcomeKind, ready_since
from .jobs.outcomes import (
    Cancelled,
    Discarded,
    Expired,
    Interrupted,
    LeaseExpired,
    Raised,
    RetryRequested,
    Snoozed,
    Succeeded,
    TimedOut,
    Unrunnable,
    Untouched,
)
from .jobs.transitions import Bury, Requeue

if TYPE_CHECKING:
    from .stores.base import AdminStore

try:
    import prometheus_client as _prometheus
except ImportError:
    _prometheus = None  # type: ignore[assignment,unused-ignore]

HAS_METRICS = _prometheus is not None
"""Whether prometheus-client is installed."""

DURATION_BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
SIZE_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


MOST_SERIES = 2000
"""Pairs of task and queue that have series of their own in one process; all further ones are the task `other`."""


class Silent:
    """Stands in for a metric when prometheus-client is not installed; every call does nothing."""

    def labels(self, *_values: str, **_labels: str) -> "Silent":
        """Itself."""
        return self

    def inc(self, _amount: float = 1) -> None:
        """Nothing."""

    def dec(self, _amount: float = 1) -> None:
        """Nothing."""

    def set(self, _value: float) -> None:
        """Nothing."""

    def observe(self, _amount: float) -> None:
        """Nothing."""


def _counter(name: str, text: str, labels: Iterable[str] = ()) -> Any:
    return _prometheus.Counter(name, text, tuple(labels)) if HAS_METRICS else Silent()


def _gauge(name: str, text: str, labels: Iterable[str] = (), mode: str = "livesum") -> Any:
    if not HAS_METRICS:
        return Silent()
    return _prometheus.Gauge(name, text, tuple(labels), multiprocess_mode=mode)  # type: ignore[arg-type,unused-ignore]


def _histogram(name: str, text: str, labels: Iterable[str], buckets: Iterable[float]) -> Any:
    return _prometheus.Histogram(name, text, tuple(labels), buckets=tuple(buckets)) if HAS_METRICS else Silent()


TASK = ("task_name", "queue")

tasks_submitted_total = _counter("vtasks_tasks_submitted_total", "Jobs accepted by enqueue", TASK)
tasks_processed_total = _counter("vtasks_tasks_processed_total", "Jobs that ended for good", (*TASK, "status"))
task_duration_seconds = _histogram("vtasks_task_duration_seconds", "Run time of an attempt", TASK, DURATION_BUCKETS)
active_tasks = _gauge("vtasks_active_tasks", "Attempts running in this process", ("queue",))
queue_depth = _gauge("vtasks_queue_depth", "Jobs ready to run", ("queue",), mode="mostrecent")

wait_seconds = _histogram("vtasks_wait_seconds", "From ready to started", TASK, DURATION_BUCKETS)
attempts_total = _counter("vtasks_attempts_total", "Attempts by how they ended", (*TASK, "outcome"))
retries_total = _counter("vtasks_retries_total", "Attempts that led to another attempt", TASK)
rescues_total = _counter("vtasks_rescues_total", "Jobs taken over from an expired lease", ("queue", "result"))
settle_refused_total = _counter("vtasks_settle_refused_total", "Settlements refused: lease lost", ("queue",))
leases_lost_total = _counter("vtasks_leases_lost_total", "Renewals that found the lease gone")
dead_letters_total = _counter("vtasks_dead_letters_total", "Jobs that became dead letters", ("queue", "reason"))
dead_letter_evictions_total = _counter("vtasks_dead_letter_evictions_total", "Dead letters removed by the cap")
scheduler_lag_seconds = _gauge("vtasks_scheduler_lag_seconds", "From slot to enqueue", ("entry",), mode="mostrecent")
scheduler_last_fired = _gauge(
    "vtasks_scheduler_last_fired_timestamp_seconds", "When the entry last fired", ("entry",), mode="mostrecent"
)
scheduler_missed_total = _counter("vtasks_scheduler_missed_slots_total", "Slots passed without a job", ("entry",))
loop_blocked_total = _counter("vtasks_loop_blocked_total", "Times the event loop was blocked")
loop_blocked_seconds = _counter("vtasks_loop_blocked_seconds_total", "Seconds the event loop was blocked")
slots = _gauge("vtasks_slots", "Slots of this worker by state", ("state",))
connections = _gauge("vtasks_connections", "Open connections of this worker", ("use",))
connections_opened_total = _counter("vtasks_connections_opened_total", "Connections this worker opened", ("use",))
store_errors_total = _counter("vtasks_store_errors_total", "Failed tries to reach the store", ("service",))
batch_size = _histogram("vtasks_batch_size", "Members of a batch", ("queue",), SIZE_BUCKETS)
abandoned_threads = _gauge("vtasks_abandoned_threads", "Threads given up that still run")
late_successes_total = _counter(
    "vtasks_late_successes_total", "Attempts that succeeded although told to stop (timeout, cancellation)", TASK
)
duplicates_total = _counter("vtasks_duplicates_total", "Enqueues refused by a unique key", TASK)


def start_http_server(port: int, addr: str = "0.0.0.0") -> Any:  # noqa: S104 - a scrape comes from another host
    """Serve /metrics on a port. Raises RuntimeError with what to install when prometheus-client is missing."""
    if not HAS_METRICS:
        raise RuntimeError("metrics need prometheus-client: pip install 'django-vtasks[metrics]'")
    return _prometheus.start_http_server(port, addr, registry=_serving_registry())


def exposition() -> tuple[bytes, str] | None:
    """The text of a scrape and its content type, of all processes when PROMETHEUS_MULTIPROC_DIR is set.

    None without prometheus-client.
    """
    if not HAS_METRICS:
        return None
    return _prometheus.generate_latest(_serving_registry()), _prometheus.CONTENT_TYPE_LATEST


def _serving_registry() -> Any:
    import os

    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return _prometheus.REGISTRY
    from prometheus_client import multiprocess

    registry = _prometheus.CollectorRegistry(support_collectors_without_names=True)
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


_OUTCOMES: Mapping[type, OutcomeKind] = {
    Succeeded: OutcomeKind.SUCCEEDED,
    Raised: OutcomeKind.RAISED,
    RetryRequested: OutcomeKind.RETRIED,
    Snoozed: OutcomeKind.SNOOZED,
    Discarded: OutcomeKind.DISCARDED,
    TimedOut: OutcomeKind.TIMED_OUT,
    Cancelled: OutcomeKind.CANCELLED,
    Interrupted: OutcomeKind.INTERRUPTED,
    Untouched: OutcomeKind.INTERRUPTED,
    LeaseExpired: OutcomeKind.LEASE_EXPIRED,
    Unrunnable: OutcomeKind.UNRUNNABLE,
    Expired: OutcomeKind.EXPIRED,
}
_FAILED_ON_THE_WAY = frozenset((OutcomeKind.RAISED, OutcomeKind.RETRIED, OutcomeKind.TIMED_OUT))


class _Bound:
    """The metrics of one task on one queue, looked up once: a label lookup costs more than counting."""

    def __init__(self, func: str, queue: str) -> None:
        self.labels = (func, queue)
        self.active = active_tasks.labels(queue)
        self.duration = task_duration_seconds.labels(func, queue)
        self.wait = wait_seconds.labels(func, queue)
        self.succeeded = tasks_processed_total.labels(func, queue, "success")
        self.outcomes: dict[OutcomeKind, Any] = {}

    def outcome(self, kind: OutcomeKind) -> Any:
        """The attempts counter of one outcome."""
        if kind not in self.outcomes:
            self.outcomes[kind] = attempts_total.labels(*self.labels, kind.value)
        return self.outcomes[kind]


class Recorder:
    """Turns events into metrics."""

    def __init__(self) -> None:
        self._bound: dict[tuple[str, str], _Bound] = {}

    def subscriptions(self) -> Mapping[type, Any]:
        """Which method handles which event."""
        return {
            happened.JobAdded: self.added,
            happened.AttemptStarted: self.started,
            happened.AttemptEnded: self.ended,
            happened.SettleRefused: lambda e: settle_refused_total.labels(e.claim.queue).inc(),
            happened.JobRescued: self.rescued,
            happened.LetterBuried: lambda e: dead_letters_total.labels(e.letter.queue, e.letter.reason.value).inc(),
            happened.LettersEvicted: lambda e: dead_letter_evictions_total.inc(e.count),
            happened.LeaseRenewed: lambda e: leases_lost_total.inc() if e.lost else None,
            happened.StoreOutage: lambda e: store_errors_total.labels(e.service).inc(),
            happened.LoopBlocked: self.blocked,
            happened.ThreadAbandoned: lambda e: abandoned_threads.set(e.total),
            happened.SlotFired: self.fired,
            happened.SlotsMissed: lambda e: scheduler_missed_total.labels(e.entry).inc(e.count),
            happened.BatchCollected: lambda e: batch_size.labels(e.queue).observe(e.size),
        }

    def _of(self, func: str, queue: str) -> _Bound:
        bound = self._bound.get((func, queue))
        if bound is None:
            if len(self._bound) >= MOST_SERIES:
                # Payloads may name any number of tasks that do not exist.
                return self._bound.setdefault(("other", queue), _Bound("other", queue))
            bound = self._bound[func, queue] = _Bound(func, queue)
        return bound

    def added(self, event: happened.JobAdded) -> None:
        """Count an accepted job, or a refused duplicate."""
        if event.duplicate:
            duplicates_total.labels(event.func, event.queue).inc()
        else:
            tasks_submitted_total.labels(event.func.rpartition(".")[2], event.queue).inc()

    def started(self, event: happened.AttemptStarted) -> None:
        """Count a running attempt and how long its job waited."""
        job = event.claim.job
        if job is None:
            return
        bound = self._of(job.func, event.claim.queue)
        bound.active.inc()
        bound.wait.observe(max(0.0, event.claim.started_at - ready_since(job)))

    def ended(self, event: happened.AttemptEnded) -> None:
        """Count how an attempt ended and how long it took."""
        func = event.claim.job.func if event.claim.job else "?"
        bound = self._of(func, event.claim.queue)
        if event.claim.job:
            bound.active.dec()
        bound.duration.observe(event.duration)
        kind = _OUTCOMES[type(event.outcome)]
        bound.outcome(kind).inc()
        if isinstance(event.outcome, Succeeded):
            bound.succeeded.inc()
            if event.outcome.despite is not None:
                late_successes_total.labels(*bound.labels).inc()
        elif isinstance(event.decision, Requeue):
            if kind in _FAILED_ON_THE_WAY:
                retries_total.labels(*bound.labels).inc()
        else:
            tasks_processed_total.labels(*bound.labels, "failure").inc()

    def rescued(self, event: happened.JobRescued) -> None:
        """Count a job taken over from a dead worker, whose attempt nobody else tells of."""
        buried = isinstance(event.decision, Bury)
        rescues_total.labels(event.claim.queue, "buried" if buried else "requeued").inc()
        bound = self._of(event.claim.job.func if event.claim.job else "?", event.claim.queue)
        bound.outcome(OutcomeKind.LEASE_EXPIRED).inc()
        if buried:
            tasks_processed_total.labels(*bound.labels, "failure").inc()

    def blocked(self, event: happened.LoopBlocked) -> None:
        """Count a blocked event loop."""
        loop_blocked_total.inc()
        loop_blocked_seconds.inc(event.seconds)

    def fired(self, event: happened.SlotFired) -> None:
        """Record a scheduler's lag."""
        scheduler_lag_seconds.labels(event.entry).set(event.lag)
        scheduler_last_fired.labels(event.entry).set(event.slot + event.lag)


_recorder: Recorder | None = None


def install() -> None:
    """Subscribe the metrics to the events of this process; a second call does nothing."""
    global _recorder  # noqa: PLW0603 - one recorder a process, as there is one registry
    if _recorder is None and HAS_METRICS:
        _recorder = Recorder()
        for kind, handler in _recorder.subscriptions().items():
            happened.events.subscribe(kind, handler)


def begin(queues: Iterable[str]) -> None:
    """Let the counters of faults begin at 0 for these queues: of a series that appears with its first count, nobody
    who looks at increases sees that one."""
    for queue in queues:
        settle_refused_total.labels(queue)
        for result in ("requeued", "buried"):
            rescues_total.labels(queue, result)
        for reason in DeadReason:
            dead_letters_total.labels(queue, reason.value)


class QueueCollector:
    """A collector for a project's own registry: depth and oldest age per queue, read at scrape time.

    `stores` maps a TASKS alias to its admin store; a store that cannot be reached is left out of that scrape and
    shows as `vtasks_store_up 0`.
    """

    def __init__(self, stores: Mapping[str, "AdminStore"]) -> None:
        self._stores = stores

    def describe(self) -> list[Any]:
        """Nothing, so that registering it opens no connection."""
        return []

    def collect(self) -> Iterator[Any]:
        """The metric families of one scrape."""
        import time

        from prometheus_client.core import GaugeMetricFamily

        labels = ["alias", "queue"]
        jobs = GaugeMetricFamily("vtasks_jobs", "Jobs by state", labels=[*labels, "state"])
        age = GaugeMetricFamily("vtasks_oldest_ready_seconds", "Age of the oldest ready job", labels=labels)
        paused = GaugeMetricFamily("vtasks_queue_paused", "1 while the queue is paused", labels=labels)
        up = GaugeMetricFamily("vtasks_store_up", "1 when the store answered this scrape", labels=["alias"])
        for alias, store in self._stores.items():
            try:
                counts = store.counts()
            except Exception:
                up.add_metric([alias], 0)
                continue
            up.add_metric([alias], 1)
            for count in counts:
                for state in ("ready", "scheduled", "leased", "dead"):
                    jobs.add_metric([alias, count.queue, state], getattr(count, state))
                oldest = count.oldest_ready_at
                age.add_metric([alias, count.queue], max(0.0, time.time() - oldest) if oldest else 0.0)
                paused.add_metric([alias, count.queue], int(count.paused))
        yield from (jobs, age, paused, up)


__all__ = [
    "HAS_METRICS",
    "QueueCollector",
    "active_tasks",
    "exposition",
    "install",
    "queue_depth",
    "start_http_server",
    "task_duration_seconds",
    "tasks_processed_total",
    "tasks_submitted_total",
]

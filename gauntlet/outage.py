"""An outage on a stopwatch: what each queue did before, when it did it again, and what probes and logs said meanwhile.

Times are of the monotonic clock, as in the ledger.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gauntlet.fleet import Worker
from gauntlet.ledger import Run
from gauntlet.waiting import PATIENCE, until

if TYPE_CHECKING:
    from gauntlet.stage import Stage

#: Over how many seconds a rate is measured, before and after.
WINDOW = 3.0
#: How much of its former rate a queue must reach, and within how many seconds of the end of the outage.
SHARE, WITHIN = 0.9, 30.0
#: Seconds after which a worker must have noticed that the server does not answer: lease calls give up much earlier.
NOTICE = 3.0
#: The least share of the former rate at which the feed must go on, or a window says nothing.
FED = 0.3
#: Seconds of an outage in which no worker may ask to be restarted (`/livez`).
LIFE = 30.0
QUEUES = ("default", "bulk")
SCHEDULE, BEAT = "schedule", "beat"


class Kind(Enum):
    """What an outage does to workers."""

    #: Nothing can be processed: probes are red and leases run out.
    TOTAL = "total"
    #: It has to be got over again and again, while they work.
    FLICKER = "flicker"
    #: Nothing that a log or a probe should tell of.
    UNNOTICED = "unnoticed"


class Outage:
    """The time in which the scenario disturbs: `with Outage(stage, workers) as outage: ...; outage.judge()`.

    `scheduler` is one that fires `BEAT` every second and does nothing else.
    """

    def __init__(
        self, stage: Stage, workers: list[Worker], *, kind: Kind = Kind.TOTAL, scheduler: Worker | None = None
    ) -> None:
        self.began = self.ended = 0.0
        self._stage = stage
        self._consumers = workers
        self._scheduler = scheduler
        self._workers = workers if scheduler is None else [*workers, scheduler]
        self._kind = kind
        self._total = kind is Kind.TOTAL
        self._notice = NOTICE * PATIENCE
        self._rates: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began

    def __enter__(self) -> Self:
        self._stage.until_green(self._workers, time.monotonic() + 30 * PATIENCE)
        self.began = until_steady(self._stage, self._consumers)
        runs = self._stage.ledger.runs()
        self._rates = {queue: rate(runs, queue, self.began) for queue in QUEUES}
        if self._scheduler is not None:
            self._stage.exercised(of(runs, SCHEDULE), "nothing was fired before the outage")
            self._rates[SCHEDULE] = 1.0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.ended = time.monotonic()
        self._stage.hang_up()
        if self._kind is Kind.UNNOTICED:
            return
        for worker in self._workers:
            worker.lapsed |= self._total
            worker.tracebacks += 1
            worker.outage_lines += 8 + round(3 * self.seconds * PATIENCE)
            worker.lines += worker.outage_lines + 60

    def judge(self) -> None:
        """Wait until all is as before, at most `WITHIN` seconds, and say what is not."""
        stage = self._stage
        runs = stage.ledger.runs()
        if self._total:
            # A batch that was collected before may begin when a call that hung has been given up.
            during = [r for r in of(runs, "default") if self.began + self._notice < r.began < self.ended - 0.1]
            stage.exercised(not during, f"{len(during)} jobs began although nothing could be processed")
        for queue in self._rates:
            self._judge_queue(queue)
        stage.problems += self._health_problems()
        stage.facts["outage"] = round(self.seconds, 1)

    def _judge_queue(self, queue: str) -> None:
        stage, former = self._stage, self._rates[queue]
        deadline = self.ended + WITHIN * PATIENCE
        first = back = None
        while back is None and time.monotonic() < deadline + WINDOW and self._anybody_left():
            time.sleep(0.1)
            runs = stage.ledger.runs()
            first = min((run.began for run in of(runs, queue) if run.began > self.ended), default=None)
            back = back_at(of(runs, queue), self._accepted(queue), self.ended, former)
        if first is not None:
            stage.facts[f"{queue}_first_job_after"] = round(first - self.ended, 1)
        if back is None:
            now = rate(stage.ledger.runs(), queue, time.monotonic())
            stage.problems.append(
                f"{queue}: {now:.1f} jobs/s {deadline - self.ended:.0f} s after the outage, before it {former:.1f}"
            )
        else:
            stage.facts[f"{queue}_rate_back_after"] = round(back - self.ended, 1)

    def _anybody_left(self) -> bool:
        return any(worker.exit_code is None for worker in self._workers)

    def _accepted(self, queue: str) -> list[float]:
        moments = [moment for feed in self._stage.feeds for moment in feed.moments.copy()]
        return [at for at, kind in moments if queue_of(kind) == queue]

    def _health_problems(self) -> Iterator[str]:
        running = [worker for worker in self._workers if worker.exit_code is None]
        for worker in self._stage.until_green(running, self.ended + WITHIN * PATIENCE):
            yield f"{worker.name}: not ready {time.monotonic() - self.ended:.0f} s after the outage"
        probes = self._stage.probes
        for worker in self._workers:
            if worker.exit_code is not None:
                yield f"{worker.name}: ended by itself"
                continue
            if self._total:
                during = probes.of(worker, self.began + self._notice, self.ended - 0.1)
                self._stage.exercised(during, "no probe was asked during the outage")
                if green := [sample for sample in during if sample.ready]:
                    after = green[-1].at - self.began
                    yield f"{worker.name}: ready {after:.1f} s after the beginning of {self.seconds:.1f} s of outage"
            if self._kind is Kind.UNNOTICED and any(s.ready is False for s in probes.of(worker, self.began)):
                yield f"{worker.name}: not ready although nothing was amiss"
            if ill := [s for s in probes.of(worker, until=self.began + LIFE) if s.healthy is False]:
                yield f"{worker.name}: not alive {ill[0].at - self.began:.1f} s after an outage began"


def duration(stage: Stage, least: float, most: float) -> float:
    """Seconds that an outage lasts: longer by as much as a slow machine may take longer to notice it."""
    return stage.rng.uniform(least, most) + NOTICE * max(0.0, PATIENCE - 1.0)


def until_steady(stage: Stage, workers: list[Worker]) -> float:
    """Wait until every worker and every queue has been at work for as long as a rate is measured over."""
    for queue in QUEUES:
        until(lambda queue=queue: of(stage.ledger.runs(), queue), f"a job of {queue}")
    for worker in workers:
        stage.until_busy(worker)
    time.sleep(WINDOW + stage.rng.random())
    return time.monotonic()


def rate(runs: list[Run], queue: str, end: float) -> float:
    """How many jobs of a queue per second ended in the window before `end`."""
    return sum(end - WINDOW < run.ended <= end for run in of(runs, queue) if run.ended) / WINDOW


def back_at(runs: list[Run], accepted: list[float], since: float, former: float) -> float | None:
    """When the first window after `since` began in which enough jobs ended: at the rate of before, or of what was
    accepted in the window where that is less, since no queue is faster than its feed."""
    ends = sorted(run.ended for run in runs if run.ended and run.ended > since)
    for number, begin in enumerate(ends):
        done = bisect_right(ends, begin + WINDOW) - number
        fed = sum(begin <= at <= begin + WINDOW for at in accepted)
        over = ends[-1] > begin + WINDOW and fed >= FED * former * WINDOW
        if done >= SHARE * WINDOW * former or (over and done >= SHARE * fed):
            return begin
    return None


def of(runs: list[Run], queue: str) -> list[Run]:
    """The runs of a queue."""
    return [run for run in runs if queue_of(run.label.partition("-")[0]) == queue]


def queue_of(kind: str) -> str:
    """The queue of a kind of job; what a scheduler fires counts as one of its own."""
    return {"bulk": "bulk", BEAT: SCHEDULE}.get(kind, "default")

"""Clocks that somebody sets: one worker's, by hours, while the server and all others keep the right time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gauntlet.feed import Call
from gauntlet.fleet import Worker
from gauntlet.ledger import Run
from gauntlet.scenarios.registry import SERVED, scenario
from gauntlet.scenarios.schedules import TICK, Judge, entries_of, recorded
from gauntlet.stage import LEASE, Stage
from gauntlet.waiting import PATIENCE, until
from tests.support.servers import ServerUnavailable

HOUR = 3600
SCHEDULE = {"second": {"task": TICK, "args": ["second"], "schedule": 1.0}}
FLAGS = ("--concurrency", "8", "--scheduler")
#: Seconds that a delayed job may be late, in a fleet that has work to do.
LATE = 4.0
#: Seconds by which two clocks may be apart that are right.
SLACK = 0.05


#: What version 0.9.10 of the library does to `clock_nanosleep` fails when the monotonic clock is left alone.
SITE = """
import select
import time

time.sleep = lambda seconds: select.select([], [], [], max(0.0, seconds)) and None
"""


class Clock:
    """The clock on the wall of one process; what measures durations there stays right, as on a real host."""

    def __init__(self, folder: Path) -> None:
        libraries = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
        if not libraries:
            raise ServerUnavailable("libfaketime is missing: apt-get install faketime")
        self._file = folder / "faketime"
        self.ahead = 0.0
        self.step(0)
        site = folder / "site"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE)
        self.environment = {
            "LD_PRELOAD": str(libraries[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "PYTHONPATH": str(site),
        }

    def step(self, hours: float) -> None:
        """Set it so many hours ahead of the right time (negative: behind)."""
        self.ahead = hours * HOUR
        beside = self._file.with_suffix(".new")
        beside.write_text(f"{self.ahead:+.0f}\n")
        beside.replace(self._file)


@scenario("clocks", stores=SERVED, settings={"VTASKS_SCHEDULE": SCHEDULE})
def a_clock_that_is_set(stage: Stage) -> None:
    """One worker's clock is set by hours in both directions, and it is started with a wrong one; it also schedules.

    No lease runs out, nothing is taken from the living, no delayed job or retry is early or hours late, no result
    expires, and each slot fires once.

    Caught: host-clock.
    """
    clock = Clock(stage.folder)
    stage.judged_apart.add("second")
    env = stage.environment()
    skewed = _start(stage, clock, env)
    stage.start_workers("ada", "bob", flags=("--scheduler",))
    first = until(lambda: recorded(stage, SCHEDULE), "the entry to be recorded")
    stage.feed(400, rate=60.0, long_share=0.2)
    delays = Delays(stage)
    for hours in stage.rng.sample((5, -5, 30, -2), 2 if stage.short else 4):
        clock.step(hours)
        _live_with_it(stage, clock, skewed, delays)
    skewed.end()
    skewed = _start(stage, clock, env)
    _live_with_it(stage, clock, skewed, delays)
    clock.step(0)
    _live_with_it(stage, clock, skewed, delays)
    _stop_scheduling(stage)
    last = recorded(stage, SCHEDULE) or first
    stage.start_workers("cyd")
    stage.finish()
    stage.expect(not stage.facts["rescued"], f"{stage.facts['rescued']} jobs were rescued although nobody died")
    for worker in stage.workers:
        stage.expect(
            not worker.log_count("had run out before it was renewed"), f"{worker.name} took its lease for lost"
        )
    stage.problems += delays.problems()
    stage.problems += _retries(stage)
    judge = Judge(stage, entries_of(SCHEDULE, SCHEDULE)["second"], first["second"], last["second"])
    stage.problems += [f"second: {problem}" for problem in judge.problems([])]
    stage.facts |= judge.facts()


def _start(stage: Stage, clock: Clock, env: dict[str, str]) -> Worker:
    worker = Worker("skewed", *FLAGS, env=env | clock.environment)
    stage.workers.append(worker)
    worker.start()
    stage.until_announced([worker])
    return worker


def _stop_scheduling(stage: Stage) -> None:
    """End those that fire, so that the last slot stands still."""
    for feed in stage.feeds:
        feed.enough()
    for worker in stage.workers:
        if worker.exit_code is None:
            stage.expect(worker.end() == 0, f"{worker.name} did not end with 0")


def _live_with_it(stage: Stage, clock: Clock, worker: Worker, delays: Delays) -> None:
    """Go on for more than a lease, with delayed jobs, until the worker has shown the new time and done its share."""
    began = time.monotonic()
    for _ in range(8):
        delays.enqueue(stage.rng.uniform(0.5, 3.0))

    def shown() -> list[Run]:
        off = [run for run in stage.ledger.runs() if run.pid == worker.pid and run.began > began]
        return [run for run in off if abs(run.wall - time.time() + time.monotonic() - run.began - clock.ahead) < 2]

    until(lambda: len(shown()) >= 10, f"{worker.name} to run jobs while its clock is {clock.ahead:+.0f} s off")
    until(lambda: time.monotonic() > began + 1.5 * LEASE, "a lease to be over that was not renewed")
    until(lambda: len(shown()) >= 20, f"{worker.name} to go on")


class Delays:
    """Jobs with a delay, and when each is due."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._due: dict[str, float] = {}

    def enqueue(self, seconds: float) -> None:
        """Enqueue one that is due in so many seconds."""
        from gauntlet import tasks

        label = f"async-delayed-{len(self._due)}"
        due = datetime.now(UTC) + timedelta(seconds=seconds)
        job_id = str(tasks.work.using(run_after=due).enqueue(label, 0.02).id)
        self._stage.enqueued[job_id] = Call(label=label, kind="async", seconds=0.02)
        self._due[job_id] = due.timestamp()

    def problems(self) -> Iterator[str]:
        """Those that ran early, or much too late."""
        runs, skew = self._stage.ledger.by_job(), time.time() - time.monotonic()
        for job_id, due in self._due.items():
            late = runs[job_id][0].began + skew - due if job_id in runs else 0.0
            if not -SLACK <= late <= LATE * PATIENCE:
                yield f"the delayed job {job_id} ran {late:.2f} s after it was due"


def _retries(stage: Stage) -> Iterator[str]:
    """A job that failed is tried again after its delay, whatever the time was where it failed."""
    for job_id in stage.jobs_of("retried"):
        runs = stage.ledger.by_job().get(job_id, [])
        if len(runs) == 2 and runs[0].over is not None:
            waited = runs[1].began - runs[0].over
            if not 0.15 <= waited <= LATE * PATIENCE:
                yield f"{runs[0].label} was tried again after {waited:.2f} s"

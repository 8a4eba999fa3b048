"""Workers that are asked to end while they work."""

from __future__ import annotations

import signal
import time

from gauntlet.fleet import Worker
from gauntlet.scenarios.registry import scenario
from gauntlet.stage import Stage
from gauntlet.waiting import PATIENCE

#: Seconds that a worker may go on taking jobs after the signal: its claim may be under way.
REACTION = 1.0
#: Seconds in which a worker is gone that was told twice: two, and what a process needs to end.
HURRY = 4.0


@scenario("term")
def workers_that_are_asked_to_end(stage: Stage) -> None:
    """SIGTERM of workers under load, in turn: they finish, or hand back at once when told twice, and end with 0.

    Caught: leaves-at-once, claims-to-the-end, ignores-the-second-signal.
    """
    workers = stage.start_workers("ada", "bob", "cyd")
    feed = stage.feed(600, long_share=0.3)
    feed.until_accepted(20)
    handed_back = 0
    for turn in range(3):
        worker = workers.pop(stage.rng.randrange(len(workers)))
        stage.until_busy(worker, 3)
        if (stage.seed + turn) % 2:
            handed_back += _twice(stage, worker)
        else:
            _once(stage, worker)
        workers += stage.start_workers(f"heir-{turn}")
    stage.facts["handed_back"] = handed_back


def _once(stage: Stage, worker: Worker) -> None:
    """It finishes what it runs, and begins nothing."""
    worker.send(signal.SIGTERM)
    at = time.monotonic()
    held = stage.ledger.open_in(worker.pid)
    stage.exercised(held, f"{worker.name} ran nothing when it was told to end")
    code = worker.wait(within=22 * PATIENCE)
    stage.expect(code == 0, f"{worker.name} ended with {code}")
    late = [run for run in stage.ledger.runs() if run.pid == worker.pid and run.began > at + REACTION * PATIENCE]
    stage.expect(not late, f"{worker.name} began {len(late)} jobs after it was told to end")
    left = stage.ledger.open_in(worker.pid)
    stage.expect(not left, f"{worker.name} ended with {len(left)} jobs running although it had time")


def _twice(stage: Stage, worker: Worker) -> int:
    """It hands back what it runs; returns how much that was."""
    worker.stopped = True
    for seconds in (2.0, 2.0, 2.0):
        stage.enqueue("async", seconds)
    stage.until_busy(worker, 4)
    worker.send(signal.SIGTERM)
    time.sleep(stage.rng.uniform(0.05, 0.4))
    at = time.monotonic()
    worker.send(signal.SIGTERM)
    code = worker.wait(within=22 * PATIENCE)
    took = time.monotonic() - at
    stage.expect(code == 0, f"{worker.name} ended with {code}")
    stage.expect(took < HURRY * PATIENCE, f"{worker.name} took {took:.1f} s to end after the second signal")
    return sum(run.pid == worker.pid and run.raised is not None for run in stage.ledger.runs())

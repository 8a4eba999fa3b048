"""Workers that stand still and wake up too late."""

from __future__ import annotations

import time

from gauntlet.fleet import Worker
from gauntlet.scenarios.registry import scenario
from gauntlet.stage import LEASE, Stage, Vacuous
from gauntlet.waiting import until


@scenario("freeze")
def freeze_past_the_lease(stage: Stage) -> None:
    """SIGSTOP of a worker past its lease, others take its jobs, SIGCONT while they run them: it settles nothing.

    It wakes with attempts that are over by its own clock, when others have done some of these jobs and still run the
    others: a late outcome that is written would be in the store, and the runs of the others in the ledger only.

    Caught: no-fence.
    """
    workers = stage.start_workers("ada", "bob", "cyd")
    feed = stage.feed(500, long_share=0.3)
    feed.until_accepted(stage.rng.randint(20, 60))
    long = _enqueue_long(stage)
    until(lambda: long <= stage.ledger.by_job().keys(), "the long jobs to begin")
    frozen = stage.rng.choice([worker for worker in workers if _open(stage, long, worker)])
    frozen.lapsed = True
    done, running = _freeze(stage, frozen, long)
    held = stage.ledger.open_in(frozen.pid)
    until(lambda: done <= _others(stage, frozen, ended=True), "others to do the short jobs")
    until(lambda: running & _others(stage, frozen, ended=False), "others to run the long jobs")
    frozen.resume()
    stage.expect_log(frozen, "The outcome of .* was refused", "the worker that woke up was refused nothing")
    frozen.lines += 3 * len(held) + 20
    if stage.home.ended_who_stood_still():
        # Its own: it stood still in the midst of a transaction, and finds the connection closed.
        frozen.tracebacks += 1
        frozen.outage_lines += 1
    stage.finish()
    stage.facts |= {"held": len(held), "refused": frozen.log_count("The outcome of .* was refused")}
    stage.expect(
        frozen.log_count("had run out before it was renewed"), "the worker did not say that its lease ran out"
    )


def _freeze(stage: Stage, worker: Worker, long: set[str]) -> tuple[set[str], set[str]]:
    """Freeze it while it runs short and long jobs; returns these.

    Not while it writes to an SQLite file: who stands still with the lock of that keeps everybody out.
    """
    for _ in range(30):
        until(lambda: _runs_both(stage, worker, long), "it to run short and long jobs")
        worker.pause()
        short, running = _short(stage, long, worker), _open(stage, long, worker)
        if short and running and stage.home.takes_writes():
            return short, running
        worker.resume()
        time.sleep(stage.rng.random() / 10)
    raise Vacuous("the worker was never frozen in the midst of short and long jobs")


def _runs_both(stage: Stage, worker: Worker, long: set[str]) -> bool:
    """Whether it runs short and long jobs; sees to further long ones when those there were are over."""
    runs = stage.ledger.by_job()
    if long <= runs.keys() and not any(run.open for job_id in long for run in runs[job_id]):
        long |= _enqueue_long(stage)
    return bool(_short(stage, long, worker) and _open(stage, long, worker))


def _enqueue_long(stage: Stage) -> set[str]:
    return {stage.enqueue("async", 1.5 * LEASE) for _ in range(9)}


def _short(stage: Stage, long: set[str], worker: Worker) -> set[str]:
    return _open(stage, stage.jobs_of("async", "alone") - long, worker)


def _open(stage: Stage, jobs: set[str], worker: Worker) -> set[str]:
    return jobs & {run.job_id for run in stage.ledger.open_in(worker.pid)}


def _others(stage: Stage, worker: Worker, *, ended: bool) -> set[str]:
    """The jobs that other workers have done, or run at this moment."""
    return {r.job_id for r in stage.ledger.runs() if r.pid != worker.pid and (r.ended if ended else r.open)}

"""Workers that stand still and wake up too late."""

from __future__ import annotations

from gauntlet.fleet import Worker
from gauntlet.scenarios.registry import scenario
from gauntlet.stage import LEASE, Stage
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
    long = {stage.enqueue("async", 1.5 * LEASE) for _ in range(9)}
    until(lambda: long <= stage.ledger.by_job().keys(), "the long jobs to begin")
    frozen = stage.rng.choice([worker for worker in workers if _open(stage, long, worker)])
    short = until(lambda: _open(stage, stage.jobs_of("async", "alone") - long, frozen), "it to run a short job too")
    frozen.lapsed = True
    frozen.pause()
    held = {run.job_id for run in stage.ledger.open_in(frozen.pid)}
    done, running = held & short, held & long
    stage.exercised(done and running, "the frozen worker ran no long and short job")
    until(lambda: done <= _others(stage, frozen, ended=True), "others to do the short jobs")
    until(lambda: running & _others(stage, frozen, ended=False), "others to run the long jobs")
    frozen.resume()
    stage.expect_log(frozen, "The outcome of .* was refused", "the worker that woke up was refused nothing")
    frozen.lines += 3 * len(held) + 20
    stage.finish()
    stage.facts |= {"held": len(held), "refused": frozen.log_count("The outcome of .* was refused")}
    stage.expect(
        frozen.log_count("had run out before it was renewed"), "the worker did not say that its lease ran out"
    )


def _open(stage: Stage, jobs: set[str], worker: Worker) -> set[str]:
    return jobs & {run.job_id for run in stage.ledger.open_in(worker.pid)}


def _others(stage: Stage, worker: Worker, *, ended: bool) -> set[str]:
    """The jobs that other workers have done, or run at this moment."""
    return {r.job_id for r in stage.ledger.runs() if r.pid != worker.pid and (r.ended if ended else r.open)}

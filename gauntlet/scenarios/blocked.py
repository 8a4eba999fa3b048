"""Code that keeps the event loop from turning."""

from __future__ import annotations

from gauntlet.scenarios.registry import scenario
from gauntlet.stage import LEASE, Stage
from gauntlet.waiting import until


@scenario("block")
def block_the_loop_for_twice_the_lease(stage: Stage) -> None:
    """A coroutine blocks the event loop for twice the lease: it runs once, and the log has its stack.

    Caught: lease-in-the-loop, silent-loop.
    """
    stage.start_workers("ada", "bob", "cyd")
    feed = stage.feed(300)
    feed.until_accepted(stage.rng.randint(10, 40))
    job_id = stage.enqueue("block", 2 * LEASE + stage.rng.random())
    until(lambda: job_id in stage.ledger.by_job(), "the blocking job to begin")
    run = until(lambda: next((run for run in stage.ledger.by_job()[job_id] if run.ended), None), "it to end")
    blocked = next(worker for worker in stage.workers if worker.pid == run.pid)
    stage.exercised(run.ended - run.began >= 2 * LEASE, "the loop was not blocked for twice the lease")
    during = [r for r in stage.ledger.runs() if run.began + LEASE < r.began < run.ended]
    stage.exercised([r for r in during if r.pid != run.pid], "no other worker did anything meanwhile")
    stage.expect(not [r for r in during if r.pid == run.pid], "the blocked worker began jobs meanwhile")
    stage.finish()
    stage.expect(len(stage.ledger.by_job()[job_id]) == 1, "the blocking job ran more than once")
    text = blocked.log_text()
    stage.expect("The event loop was blocked for" in text, "the block is not in the log")
    stage.expect("in block_the_loop" in text, "the stack of the blocking code is not in the log")

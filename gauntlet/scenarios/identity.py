"""Who a worker is: two of one name are two."""

from __future__ import annotations

from gauntlet.scenarios.registry import scenario
from gauntlet.stage import Stage


@scenario("twins")
def two_workers_with_one_id(stage: Stage) -> None:
    """Two workers with one --id: neither disturbs the other, be it started, ended or killed.

    Caught: one-name-one-worker.
    """
    (first,) = stage.start_workers("twin")
    stage.feed(800, long_share=0.2)
    stage.until_busy(first, 2)
    (second,) = stage.start_workers("twin")
    stage.until_busy(second, 2)
    stage.until_busy(first, 2)
    held = stage.ledger.open_in(first.pid)
    stage.exercised(held, "the first twin ran no job when the second was there")
    second.end()
    (third,) = stage.start_workers("twin")
    stage.until_busy(third, 2)
    stage.until_busy(first)
    killed = stage.rng.choice([first, third])
    lost = stage.kill_at_work(killed)
    stage.exercised(lost, "the killed twin ran no job")
    stage.facts |= {"held": len(held), "lost": len(lost)}
    stage.finish()
    stage.expect(stage.facts["rescued"] or stage.facts["dead"], "nothing was rescued although jobs were running")

"""Workers that die and do not come back."""

from __future__ import annotations

from gauntlet.scenarios.registry import scenario
from gauntlet.stage import Stage


@scenario("kill")
def kill_one_of_three(stage: Stage) -> None:
    """SIGKILL of one of three workers under load.

    Caught: takes-from-the-living, no-rescue, keeps-the-key.
    """
    workers = stage.start_workers("ada", "bob", "cyd")
    victim = stage.rng.choice(workers)
    feed = stage.feed(1000)
    feed.until_accepted(stage.rng.randint(20, 60))
    held = stage.kill_at_work(victim, 2)
    stage.exercised(held, "the killed worker ran no job")
    stage.facts["held"] = len(held)
    stage.finish()
    stage.expect(stage.facts["rescued"] or stage.facts["dead"], "nothing was rescued although jobs were running")


@scenario("gone")
def workers_that_never_come_back(stage: Stage) -> None:
    """Every worker is killed, and others with other ids take over what they held.

    Caught: no-rescue, rescue-loses, rescue-own-kind.
    """
    first = stage.start_workers(*(f"pod-{stage.seed:x}a{number}" for number in range(2)))
    feed = stage.feed(600)
    feed.until_accepted(stage.rng.randint(20, 60))
    held = [run for worker in first for run in stage.kill_at_work(worker)]
    stage.exercised(held, "the killed workers ran no job")
    stage.facts["held"] = len(held)
    stage.start_workers(*(f"pod-{stage.seed:x}b{number}" for number in range(2)))
    stage.finish()
    stage.expect(stage.facts["rescued"] or stage.facts["dead"], "nothing was rescued although jobs were running")

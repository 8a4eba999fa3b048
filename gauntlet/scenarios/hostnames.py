"""Workers whose host is called differently each time they start."""

from __future__ import annotations

import os
import subprocess
import sys

from gauntlet.fleet import Worker
from gauntlet.scenarios.registry import SERVED, scenario
from gauntlet.stage import Stage
from tests.support.processes import MANAGE, ROOT

RENAMED = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"')


class Pod(Worker):
    """A worker without an id of its own on a host of this name; with the name as its id where hosts have but one."""

    def __init__(self, host: str, *arguments: str, env: dict[str, str]) -> None:
        super().__init__(host, *arguments, env=env)
        self.may_rename = os.getuid() == 0 and subprocess.run([*RENAMED, host, "true"], check=False).returncode == 0
        if self.may_rename:
            self.arguments = ("runworker", *arguments)

    def start(self) -> Pod:
        """Start it under its host's name."""
        if not self.may_rename:
            super().start()
            return self
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*RENAMED, self.name, sys.executable, str(MANAGE), *self.arguments],
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self


@scenario("names", stores=SERVED)
def hosts_of_changing_names(stage: Stage) -> None:
    """Three generations of workers, each on hosts of other names, the first two killed; also what a 3.2 worker left.

    All that dead ones had is picked up, although nobody of their name ever comes back.

    Caught: rescue-own-host.
    """
    held = 0
    left = _leave_behind(stage)
    feed = stage.feed(500, rate=100.0, long_share=0.2)
    for generation in range(3):
        pods = [_start(stage, f"pod-{stage.rng.getrandbits(32):08x}-{number}") for number in range(2)]
        stage.until_announced(pods)
        _check_names(stage, pods)
        feed.until_accepted(60 * (generation + 1))
        if generation < 2:
            for pod in pods:
                stage.until_busy(pod, 2)
            held += sum(len(stage.kill(pod)) for pod in pods)
    stage.exercised(held >= 2, "the killed workers ran no job")
    stage.facts |= {"held": held, "renamed_hosts": "yes" if pods[0].may_rename else "no"}
    stage.finish()
    stage.expect(stage.facts["rescued"] or stage.facts["dead"], "nothing was rescued although jobs were running")
    done = sorted(run.label for run in stage.ledger.runs() if run.label in left and run.ended is not None)
    stage.expect(done == sorted(left), f"an old worker left {sorted(left)}, done was {done}")


def _start(stage: Stage, host: str) -> Pod:
    pod = Pod(host, "--concurrency", "8", env=stage.environment())
    stage.workers.append(pod)
    pod.start()
    return pod


def _check_names(stage: Stage, pods: list[Pod]) -> None:
    known = {info.pid: info for info in stage.backend.admin_store.workers()}
    for pod in pods:
        info = known[pod.pid]
        named = info.host if pod.may_rename else info.worker_id
        stage.exercised(named == pod.name, f"the worker of {pod.name} is known as {named}")


def _leave_behind(stage: Stage) -> set[str]:
    """Jobs that a worker of the 3.2 line had in flight when its host went away; returns their labels."""
    from gauntlet import tasks

    labels = {f"left-{number}" for number in range(3)}
    stage.judged_apart |= labels
    for label in labels:
        tasks.work.enqueue(label, 0.02)
    stage.home.abandon("default", "old-host-7f3a")
    stage.exercised(not any(count.ready for count in stage.counts()), "nothing was left behind by an old worker")
    return labels

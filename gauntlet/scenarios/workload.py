"""Loads that are hard to bear: jobs that kill their worker, bytes that are no job, and every kind of queue at once."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from gauntlet.fleet import Worker
from gauntlet.scenarios.registry import SERVED, scenario
from gauntlet.stage import QUEUES, Stage
from gauntlet.trouble import Trouble
from gauntlet.waiting import PATIENCE, until

if TYPE_CHECKING:
    from django_vtasks.jobs.model import DeadLetter

POISON = ("poison", "segfault", "glutton")
#: Resident bytes at which a worker is killed, as the kernel does it to a process that takes too much.
TOO_MUCH = 280 * 2**20
GOOD = ("async", "thread", "alone", "retried", "bulk")


@scenario("poison")
def poison_between_good_jobs(stage: Stage) -> None:
    """Jobs that kill every worker that runs them, and bytes that are no job, between good ones.

    Three jobs end the process with `os._exit`, a segmentation fault, and by taking memory until it is killed. A dead
    worker is replaced at once. Each poison and all garbage ends as a dead letter; the good jobs are all done.

    Caught: unnamed-killed, loses-the-bytes.
    """
    stage.start_workers("ada", "bob", "cyd")
    feed = stage.feed(600, kinds=GOOD, rate=60.0)
    feed.until_accepted(stage.rng.randint(20, 40))
    garbage = _garbage(stage)
    for kind, raw in zip_longest(POISON, [*garbage, *map(_job_of, STRANGE)]):
        stage.home.push("default", raw)
        if kind is not None:
            stage.enqueue(kind, 0.5)
    poison = stage.jobs_of(*POISON)
    deaths = Deaths(stage)
    until(lambda: deaths.attend() or _all_dead(stage, poison), "the poison to be dead letters", within=120)
    deaths.attend()
    stage.exercised(deaths.count >= len(POISON), f"only {deaths.count} workers were killed")
    stage.facts |= {"workers_killed": deaths.count, "garbage": len(garbage) + len(STRANGE)}
    idle = [number for number, (before, after) in enumerate(deaths.progress()) if before == after]
    stage.expect(len(idle) <= deaths.count // 3, f"no good job was done between {len(idle)} deaths")
    for worker in stage.workers:
        worker.tracebacks += len(STRANGE)  # Why a path names no task.
    stage.finish()
    stage.expect(not deaths.unexpected, f"workers ended by themselves: {deaths.unexpected}")
    stage.problems += _judge_garbage(stage, garbage)


class Deaths:
    """Looks after workers: kills those that take too much memory, and replaces the dead."""

    def __init__(self, stage: Stage) -> None:
        self.count = 0
        self.unexpected: list[str] = []
        self._stage = stage
        self._finished: list[int] = []

    def attend(self) -> None:
        """Look once."""
        for worker in [worker for worker in self._stage.workers if not worker.lapsed]:
            if worker.exit_code is None and _resident(worker) > TOO_MUCH:
                worker.kill()
            if worker.exit_code is not None:
                self._bury(worker)

    def progress(self) -> Iterator[tuple[int, int]]:
        """How many jobs were done at a death, and at the next."""
        return zip(self._finished, self._finished[1:], strict=False)

    def _bury(self, worker: Worker) -> None:
        self.count += 1
        self._finished.append(self._stage.finished())
        poison = self._stage.jobs_of(*POISON)
        if not any(run.job_id in poison for run in self._stage.ledger.open_in(worker.pid)):
            self.unexpected.append(f"{worker.name} with exit code {worker.exit_code}")
        worker.lapsed, worker.expected_exit = True, None
        self._stage.start_workers(worker.name)


def _resident(worker: Worker) -> int:
    try:
        return int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1]) * 4096
    except (OSError, IndexError):
        return 0


def _all_dead(stage: Stage, jobs: set[str]) -> bool:
    from django_vtasks.jobs.model import JobState

    store = stage.backend.client_store
    return all((record := store.get(job)) and record.state is JobState.DEAD for job in jobs)


def _garbage(stage: Stage) -> list[bytes]:
    """Bytes that are no job."""
    noise = stage.rng.randbytes(200)
    half = _job_of("gauntlet.tasks.work")[:-20]
    return [noise, half, b"[1, 2, 3]", b'{"args": [], "kwargs": {}}', b"zstd:" + noise]


#: Paths that name no task, be there something or not.
STRANGE = ("gauntlet.nowhere.work", "gauntlet.tasks.nothing", "os.getcwd")


def _job_of(func: str) -> bytes:
    from django_vtasks.jobs.codec import encode
    from django_vtasks.jobs.model import Job

    return encode(Job(id=uuid.uuid4().hex, func=func, args=("x",), enqueued_at=time.time()))


def _letters(stage: Stage) -> Iterator[DeadLetter]:
    from django_vtasks.jobs.model import JobState
    from django_vtasks.stores.base import JobFilter

    after = None
    while True:
        page = stage.backend.admin_store.page(JobFilter(state=JobState.DEAD), after=after)
        yield from (record.letter for record in page.records if record.letter)
        after = page.next_cursor
        if after is None:
            return


def _judge_garbage(stage: Stage, garbage: list[bytes]) -> Iterator[str]:
    """Each is one dead letter: with its bytes where nothing else is known of it, else with its path."""
    from django_vtasks.jobs.model import DeadReason

    letters = list(_letters(stage))
    for raw in garbage:
        reasons = [letter.reason for letter in letters if letter.raw == raw]
        if reasons != [DeadReason.UNDECODABLE]:
            yield f"{raw[:40]!r} is not one dead letter with its bytes: {reasons}"
    for func in STRANGE:
        reasons = [letter.reason for letter in letters if letter.job and letter.job.func == func]
        if reasons != [DeadReason.UNKNOWN_TASK]:
            yield f"the job of {func} is not one dead letter: {reasons}"


HEAPS = {"heap": {"batch": {"count": 40, "timeout": 1.0}, "result_ttl": 7200}, "side": {}}
QUEUE_OF = {"async": "default", "thread": "default", "bulk": "bulk", "heap": "heap", "side": "side"}
#: Seconds within which each queue must get on with its work after workers were killed.
RECOVERY = 10.0


@scenario("queues", stores=SERVED, settings={"VTASKS_QUEUES": QUEUES | HEAPS})
def queues_of_every_kind(stage: Stage) -> None:
    """Two normal and two batch queues under load, and workers killed and ended in the midst of batches.

    Judged for each queue: members of a batch are lost or done twice no more than other jobs, each queue is worked on
    again soon after every death, and none waits for another.

    Caught: batch-settled-early, batch-forgotten.
    """
    trouble = Trouble(stage, ("ada", "bob", "cyd"), concurrency=6)
    feed = stage.feed(1200, kinds=("async", "thread", "bulk", "heap", "side"), rate=120.0, long_share=0.2)
    feed.until_accepted(stage.rng.randint(60, 120))
    broken: Counter[str] = Counter()
    for action in ("kill", "end", "kill") * (1 if stage.short else 2):
        victim = trouble.pick()
        assert victim is not None
        until(lambda victim=victim: _members(stage, victim) >= 2, f"{victim.name} to run a batch")
        if action == "kill":
            broken["members"] += sum(_queue_of(run.label) in ("bulk", "heap") for run in trouble.kill(victim))
        else:
            trouble.end(victim)
        _recover(stage)
    stage.exercised(broken["members"], "no batch was under way in a killed worker")
    stage.facts |= {**trouble.done, "members_killed": broken["members"]}
    stage.finish()
    stage.expect(stage.facts["rescued"], "nothing was rescued although batches were running")
    _judge_queues(stage)


def _members(stage: Stage, worker: Worker) -> int:
    return sum(_queue_of(run.label) in ("bulk", "heap") for run in stage.ledger.open_in(worker.pid))


def _queue_of(label: str) -> str:
    return QUEUE_OF[label.partition("-")[0]]


def _done(stage: Stage) -> Counter[str]:
    return Counter(_queue_of(run.label) for run in stage.ledger.runs() if run.ended is not None)


def _recover(stage: Stage) -> None:
    before = _done(stage)

    def all_of_them() -> bool:
        now = _done(stage)
        return all(now[queue] > before[queue] + 3 for queue in QUEUE_OF.values())

    try:
        until(all_of_them, "every queue to be worked on", within=RECOVERY)
    except AssertionError:
        now = _done(stage)
        stuck = [queue for queue in QUEUE_OF.values() if now[queue] <= before[queue] + 3]
        stage.problems.append(f"not worked on within {RECOVERY * PATIENCE:.0f} s of a death: {', '.join(stuck)}")


def _judge_queues(stage: Stage) -> None:
    """The invariants are those of every job; this says how many of each queue there were, so that none is left out."""
    accepted = Counter(_queue_of(call.label) for feed in stage.feeds for call in feed.accepted.values())
    done = _done(stage)
    for queue, count in accepted.items():
        stage.facts[f"in_{queue}"] = count
        stage.expect(done[queue] >= count, f"{count} jobs were accepted in {queue}, {done[queue]} were done")

"""Limits over the whole fleet: never above them, never stuck below them, and nobody else pays for them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import pairwise

from gauntlet.demand import Demand, Line, line_of
from gauntlet.ledger import Run
from gauntlet.scenarios.registry import SERVED, scenario
from gauntlet.stage import QUEUES, Stage
from gauntlet.trouble import PAST_THE_LEASE, Trouble
from gauntlet.waiting import until

AT_ONCE, NARROW = 3, 4
#: Seconds between two starts, and how many may start at once.
PACE, BURST = 0.2, 2
LIMITED = {
    "narrow": {"limit": {"count": NARROW}},
    "slow": {"rate": {"count": 5, "per": 1.0, "burst": BURST}},
}
OTHERS = ("red", "green", "blue")
#: What the other keys keep of their throughput while one is saturated; few jobs are counted in the short form.
KEPT, KEPT_SHORT = 0.9, 0.7
#: How long quiet times and faults take turns.
CYCLE = 60.0
#: How many jobs of the saturated key wait.
HOT = 60


@scenario("limits", stores=SERVED, settings={"VTASKS_QUEUES": QUEUES | LIMITED})
def limits_among_the_dying(stage: Stage) -> None:
    """Concurrency, rates and queue limits while workers are killed and frozen: never above, and drained at the end.

    A run counts until its end, the death of its worker, or, when that was frozen, the end of its lease. The one that
    was about to begin when its worker was stopped may begin late, and its outcome is refused. Rates are
    judged by the moments of the claims, which the store's clock gives. Others' throughput is compared at quiet times,
    with one key that runs all it may but has nothing waiting, and with the same key that has.
    A queue of its own tells what the machine lost meanwhile.

    Caught: one-too-many, burst-too-many, permit-leaks.
    """
    trouble = Trouble(stage, ("ada", "bob", "cyd"), concurrency=14)
    demand = Demand(stage, _lines())
    demand.start()
    quiet = Quiet(stage, demand)
    cycles = max(1, round(stage.length / CYCLE))
    for _ in range(cycles):
        cycle = stage.length / cycles
        demand.want("hot", AT_ONCE)
        quiet.free(cycle / 5)
        demand.want("hot", HOT // 2 if stage.short else HOT)
        quiet.saturated(cycle / 5)
        _bother(stage, trouble, cycle / 3)
    demand.stop()
    kinds = trouble.done
    stage.exercised(kinds["killed"] and kinds["frozen"], f"nothing was killed or frozen: {dict(kinds)}")
    stage.facts |= dict(kinds)
    stage.finish()
    judge = Judge(stage, trouble)
    stage.problems += [*judge.concurrency(), *judge.rates()]
    stage.facts |= judge.peaks
    stage.expect(judge.saturated, f"a limit was never reached: {judge.peaks}")
    quiet.judge()


def _lines() -> dict[str, Line]:
    from gauntlet import tasks

    def keyed(key: str, seconds: float, depth: int) -> Line:
        def enqueue(label: str, seconds: float):
            return tasks.work_keyed.enqueue(label, seconds, key)

        return Line(kind="keyed", enqueue=enqueue, seconds=seconds, depth=depth)

    narrow = tasks.work_in_queue.using(queue_name="narrow").enqueue
    slow = tasks.work_in_queue.using(queue_name="slow").enqueue
    return {
        **{key: keyed(key, 0.2, 30) for key in OTHERS},
        "hot": keyed("hot", 0.3, 0),
        "narrow": Line(kind="narrow", enqueue=narrow, seconds=0.2, depth=20),
        "paced": Line(kind="paced", enqueue=tasks.work_paced.enqueue, seconds=0.05, depth=15),
        "slow": Line(kind="slow", enqueue=slow, seconds=0.05, depth=15),
    }


def _bother(stage: Stage, trouble: Trouble, seconds: float) -> None:
    """Kill and freeze for a while."""
    ends = time.monotonic() + seconds
    actions = ["kill", "freeze"]
    while actions or time.monotonic() < ends:
        trouble.thaw()
        victim = trouble.pick()
        action = actions.pop() if actions else stage.rng.choice(["kill", "freeze", "pause", "end"])
        if victim is None:
            trouble.thaw(all_of_them=True)
            continue
        stage.until_busy(victim)
        if action == "kill":
            trouble.kill(victim)
        elif action == "end":
            trouble.end(victim)
        else:
            trouble.freeze(victim, PAST_THE_LEASE if action == "freeze" else stage.rng.uniform(0.3, 1.5))
        time.sleep(stage.rng.uniform(0.3, 1.5))
    until(lambda: trouble.thaw() or not trouble.frozen, "the frozen to be let go")


class Quiet:
    """What the other keys get done in times without faults, with and without jobs that wait for one key's limit."""

    def __init__(self, stage: Stage, demand: Demand) -> None:
        self._stage = stage
        self._demand = demand
        self._windows: dict[str, list[tuple[float, float]]] = {"free": [], "saturated": []}

    def free(self, seconds: float) -> None:
        """Let them work beside a key that has no more than it may run, so that it needs as much of the machine."""
        with self._window("free"):
            time.sleep(seconds)

    def saturated(self, seconds: float) -> None:
        """Let them work beside the key that has all that it may have and more."""
        with self._window("saturated"):
            time.sleep(seconds)

    @contextmanager
    def _window(self, name: str) -> Iterator[None]:
        # Everybody is there, and what was left behind by a fault is done.
        for other in OTHERS:
            done = len(self._demand.lines[other].done)
            until(lambda other=other, done=done: len(self._demand.lines[other].done) > done + 10, f"{other} to go on")
        since = time.monotonic()
        yield
        self._windows[name].append((since, time.monotonic()))

    def judge(self) -> None:
        """Compare; what a queue of its own loses at the same time, the machine lost."""
        free, saturated = self._rates(OTHERS)
        before, after = self._rates(("narrow",))
        share = min(1.0, after / before) if before else 1.0
        self._stage.facts |= {
            "others_per_second": round(free, 1),
            "beside_the_saturated": round(saturated, 1),
            "kept_by_the_machine": round(share, 2),
        }
        kept = share * (KEPT_SHORT if self._stage.length < CYCLE else KEPT)
        self._stage.expect(
            saturated >= kept * free, f"other keys fell from {free:.1f} to {saturated:.1f} jobs per second"
        )

    def _rates(self, lines: Collection[str]) -> list[float]:
        """Jobs per second, without and beside the saturated key."""
        ends = [run.ended for run in self._stage.ledger.runs() if run.ended and line_of(run) in lines]
        return [
            sum(since <= end <= until for end in ends for since, until in windows)
            / sum(until - since for since, until in windows)
            for windows in self._windows.values()
        ]


class Judge:
    """Judges limits by the ledger and the history of each job."""

    def __init__(self, stage: Stage, trouble: Trouble) -> None:
        assert stage.judged is not None
        self.peaks: dict[str, int] = {}
        self._trouble = trouble
        self._skew = time.time() - time.monotonic()
        self._attempts = {
            (job_id, attempt.number): attempt
            for job_id, record in stage.judged.records.items()
            if record is not None
            for attempt in record.job.attempts
        }
        self._runs: dict[str, list[Run]] = {}
        for run in stage.ledger.runs():
            self._runs.setdefault(line_of(run), []).append(run)

    @property
    def saturated(self) -> bool:
        """Whether every limit of how many at once was reached."""
        return all(peak == (NARROW if name.endswith("narrow") else AT_ONCE) for name, peak in self.peaks.items())

    def concurrency(self) -> Iterator[str]:
        """No moment had more of a key."""
        for name in (*OTHERS, "hot", "narrow"):
            moments = [moment for run in self._runs[name] for moment in ((run.began, 1), (self._over(run), -1))]
            running = self.peaks[f"peak_{name}"] = 0
            for at, change in sorted(moments):
                running += change
                self.peaks[f"peak_{name}"] = max(running, self.peaks[f"peak_{name}"])
                limit = NARROW if name == "narrow" else AT_ONCE
                if change > 0 and running > limit:
                    yield f"{running} of {name} ran at {at:.3f}, {limit} are the limit"
        for (pid, at), runs in self._trouble.late.items():
            if len(runs) > 1:
                yield f"{len(runs)} runs began late in {pid} when it was let go at {at:.3f}, one alone can be about to"

    def rates(self) -> Iterator[str]:
        """No window had more starts than its length and the burst allow, and nothing ran before it was claimed."""
        for name in ("paced", "slow"):
            claims = sorted(self._claimed(run) for run in self._runs[name])
            yield from _too_many(name, claims)
            early = [run for run in self._runs[name] if run.began + self._skew < self._claimed(run) - 0.05]
            if early:
                yield f"{len(early)} of {name} ran before they were claimed"

    def _claimed(self, run: Run) -> float:
        return self._attempts[run.job_id, run.attempt].started_at

    def _over(self, run: Run) -> float:
        from django_vtasks.jobs.model import OutcomeKind

        attempt = self._attempts.get((run.job_id, run.attempt))
        lost = attempt is not None and attempt.outcome is OutcomeKind.LEASE_EXPIRED
        claimed = attempt.started_at - self._skew if attempt is not None else 0.0
        return self._trouble.over(run, lost=lost, claimed=claimed)


def _too_many(name: str, starts: list[float]) -> Iterator[str]:
    """Windows with too many starts: the rate is kept when each start is not before its place in line allows."""
    arrival = float("-inf")
    for before, start in pairwise([float("-inf"), *starts]):
        due = max(start, arrival)
        if due - start > (BURST - 1) * PACE + 0.001:
            yield f"{name}: the start at {start:.3f} is too early, the one before was at {before:.3f}"
        arrival = due + PACE

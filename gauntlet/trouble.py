"""A fleet in trouble: workers that are frozen, killed, ended and started again all along, and a record of when."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterable

from gauntlet.fleet import Worker
from gauntlet.ledger import Run
from gauntlet.stage import HEARTBEAT, LEASE, Stage
from gauntlet.waiting import PATIENCE

PAST_THE_LEASE = LEASE + 1.0
AT_ONCE = 0.1
"""Seconds after a freeze within which a function begins that was about to when the process was stopped."""


class Trouble:
    """Keeps workers of these names running, whatever it does to them. Times are of the monotonic clock.

    `freezes` has from when to when each process stood still, `deaths` when it was killed, `done` how often what was
    done. `late` are the runs of lost jobs that began as their process was let go, by process and moment.
    """

    def __init__(self, stage: Stage, names: Iterable[str], **options: object) -> None:
        self.stage = stage
        self.freezes: dict[int, list[tuple[float, float]]] = {}
        self.deaths: dict[int, float] = {}
        self.done: Counter[str] = Counter()
        self.late: dict[tuple[int, float], set[str]] = {}
        self._options = options
        self._frozen: dict[Worker, tuple[float, float]] = {}
        self.workers = {worker.name: worker for worker in stage.start_workers(*names, **options)}

    def freeze(self, worker: Worker, seconds: float) -> None:
        """Stop a worker; `thaw` lets it go on once so much time has passed."""
        worker.lapsed = True
        worker.pause()
        now = time.monotonic()
        self._frozen[worker] = now, now + seconds
        self.done["frozen" if seconds >= PAST_THE_LEASE else "paused"] += 1

    def thaw(self, *, all_of_them: bool = False) -> None:
        """Let those go on whose time is over."""
        for worker, (since, until) in list(self._frozen.items()):
            if all_of_them or time.monotonic() >= until:
                # It is told of each job that it lost, and of what timed out meanwhile.
                worker.lines += 3 * len(self.stage.ledger.open_in(worker.pid)) + 20
                worker.tracebacks += 1
                # PostgreSQL ends the session of who stands still in a transaction: nobody is to wait for its locks.
                worker.outage_lines += self.stage.home.name == "postgres"
                del self._frozen[worker]
                worker.resume()
                self.freezes.setdefault(worker.pid, []).append((since, time.monotonic()))

    def kill(self, worker: Worker) -> list[Run]:
        """SIGKILL, and a new one of that name; returns what it was running."""
        held = self.stage.kill(worker)
        self.deaths[worker.pid] = time.monotonic()
        self.done["killed"] += 1
        self._replace(worker)
        return held

    def end(self, worker: Worker) -> None:
        """SIGTERM, and a new one of that name."""
        code = worker.end()
        self.stage.expect(code == 0, f"{worker.name} ended with exit code {code}")
        self.done["ended"] += 1
        self._replace(worker)

    def pick(self) -> Worker | None:
        """One that runs; None when all are frozen."""
        running = [worker for worker in self.workers.values() if worker not in self._frozen]
        return self.stage.rng.choice(running) if running else None

    @property
    def frozen(self) -> int:
        """How many are frozen."""
        return len(self._frozen)

    def stop(self) -> None:
        """End all of them."""
        self.thaw(all_of_them=True)
        for worker in self.workers.values():
            worker.stopped = True
            worker.send(signal.SIGTERM)
        for worker in self.workers.values():
            code = worker.wait(within=40 * PATIENCE)
            self.stage.expect(code == 0, f"{worker.name} ended with exit code {code}")

    def over(self, run: Run, *, lost: bool, claimed: float = 0.0) -> float:
        """When a run counts as over; `lost`: its worker lost its lease, which ran out a term after its renewal.

        A process can be stopped between its last look at the lease and the first line of the function, which it then
        begins when it is let go. Such a run, of a job `claimed` before, counts as none, and is in `late`.
        """
        ends = [run.over] if run.over is not None else []
        if run.pid in self.deaths:
            ends.append(self.deaths[run.pid])
        if lost:
            term = LEASE - 1.5 * HEARTBEAT
            freezes = self.freezes.get(run.pid, ())
            ends += [since + term for since, until in freezes if until > run.began and until - since > term]
            for since, until in freezes:
                if claimed < since + 0.05 and until <= run.began < until + AT_ONCE and until - since > term:
                    self.late.setdefault((run.pid, until), set()).add(run.nonce)
                    ends.append(run.began)
        return max(run.began, min(ends, default=float("inf")))

    def _replace(self, worker: Worker) -> None:
        (self.workers[worker.name],) = self.stage.start_workers(worker.name, **self._options)

"""What is measured. Each scenario gives a dict of figures; the first named in `SCENARIOS` is the one of the tables."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from .peers import Peer
from .running import Run, RunFailed, cpu_seconds, peak_mebibytes
from .stores import Stores

LATENCY_JOBS = 100
IDLE_SECONDS = 14.0
"""With the second that servers take to publish: as long as the longest interval at which a peer does something."""
SETTLING_SECONDS = 10.0
"""After a worker's first job; what it does once at its start is over by then."""

type Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing to measure. `better` is `more` or `less`; a scenario with `repeated` off is run once."""

    name: str
    figure: str
    unit: str
    better: str
    title: str
    measure: Callable[[Peer, str, Stores, float], Figures]
    repeated: bool = True

    def suits(self, peer: Peer) -> bool:
        """Whether the peer can do it."""
        return self.name != "async" or peer.coroutines


def measure(scenario: Scenario, peer: Peer, store: str, stores: Stores, scale: float) -> Figures:
    """The figures of one run, with `other_cores`: what the rest of the machine used meanwhile. Raises RunFailed."""
    load = _Load()
    figures = scenario.measure(peer, store, stores, scale)
    return {**{name: round(value, 4) for name, value in figures.items()}, "other_cores": round(load.other(), 2)}


def _enqueue(peer: Peer, store: str, stores: Stores, scale: float) -> Figures:
    count = peer.count(store, min(scale, 0.3))
    kind = peer.kind("enqueue")
    run = Run(peer, store, stores, kind=kind, jobs=count)
    try:
        return {"rate": count / run.produce("enqueue", f"noop_{kind}", count)}
    finally:
        run.close()


def _process(peer: Peer, store: str, stores: Stores, count: int, kind: str, task: str) -> Figures:
    run = Run(peer, store, stores, kind=kind, jobs=count)
    try:
        run.produce("load", f"{task}_{kind}", count)
        before = run.commands()
        with run.worker() as worker:
            # The start of the worker is not the jobs' cost.
            run.wait(1, worker)
            begun, ran = cpu_seconds(worker), run.ran()
            run.wait(count, worker)
            busy, peak = cpu_seconds(worker) - begun, peak_mebibytes(worker)
        if run.repeated():
            raise RunFailed(f"{run.repeated()} jobs ran twice")
        after = run.commands()
        asked = {} if before is None or after is None else {"commands_per_job": (after - before) / count}
        return {
            "rate": (count - 1) / run.span(),
            "cpu_us": busy / max(1, count - ran) * 1e6,
            "peak_mib": peak,
            **asked,
        }
    finally:
        run.close()


def _async(peer: Peer, store: str, stores: Stores, scale: float) -> Figures:
    return _process(peer, store, stores, peer.count(store, scale), "async", "noop")


def _sync(peer: Peer, store: str, stores: Stores, scale: float) -> Figures:
    return _process(peer, store, stores, peer.count(store, scale), "sync", "noop")


def _waiting(peer: Peer, store: str, stores: Stores, scale: float) -> Figures:
    count = peer.count(store, scale * 0.4)
    if peer.jobs:
        count = min(count, 200)
    return _process(peer, store, stores, count, peer.kind("waiting"), "sleep")


def _latency(peer: Peer, store: str, stores: Stores, scale: float) -> Figures:
    count = max(20, int(LATENCY_JOBS * min(scale, 1.0)))
    kind = peer.kind("latency")
    run = Run(peer, store, stores, kind=kind, jobs=count)
    try:
        with run.worker() as worker:
            _until_it_works(run, worker, kind)
            run.produce("pace", f"lat_{kind}", count)
            run.wait(count, worker)
        delays = [delay * 1000 for delay in run.delays()]
        return {"p50_ms": statistics.median(delays), "p95_ms": delays[int(len(delays) * 0.95)], "max_ms": delays[-1]}
    finally:
        run.close()


def _idle(peer: Peer, store: str, stores: Stores, scale: float) -> Figures:
    kind = peer.kind("idle")
    run = Run(peer, store, stores, kind=kind, jobs=1)
    try:
        with run.worker() as worker:
            _until_it_works(run, worker, kind)
            time.sleep(SETTLING_SECONDS)
            busy, asked, began = cpu_seconds(worker), run.commands(), time.monotonic()
            time.sleep(IDLE_SECONDS * min(scale, 1.0) + 1)
            seconds = time.monotonic() - began
            figures = {"cpu_ms_per_s": (cpu_seconds(worker) - busy) / seconds * 1000}
            now = run.commands()
            if asked is not None and now is not None:
                figures["commands_per_s"] = (now - asked) / seconds
            return figures
    finally:
        run.close()


def _until_it_works(run: Run, worker: psutil.Popen, kind: str) -> None:
    """The first job of a worker waits for its start, which is not measured here."""
    run.produce("load", f"noop_{kind}", 1)
    run.wait(1, worker)


class _Load:
    """Cores used by processes that are not of this run."""

    def __init__(self) -> None:
        self._began, self._all, self._ours = time.monotonic(), _busy(), cpu_seconds(psutil.Process())

    def other(self) -> float:
        """Their mean since the object was made."""
        spent = _busy() - self._all - (cpu_seconds(psutil.Process()) - self._ours)
        return max(0.0, spent / (time.monotonic() - self._began))


def _busy() -> float:
    times = psutil.cpu_times()
    return sum(times[:8]) - times.idle - getattr(times, "iowait", 0.0)


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="enqueue", figure="rate", unit="jobs/s", better="more", measure=_enqueue,
            title="enqueue one by one, outside a transaction",
        ),
        Scenario(
            name="async", figure="rate", unit="jobs/s", better="more", measure=_async,
            title="run coroutines that do nothing",
        ),
        Scenario(
            name="sync", figure="rate", unit="jobs/s", better="more", measure=_sync,
            title="run plain functions that do nothing",
        ),
        Scenario(
            name="waiting", figure="rate", unit="jobs/s", better="more", measure=_waiting,
            title="run jobs that wait for 10 ms (coroutines where the peer has them)",
        ),
        Scenario(
            name="latency", figure="p50_ms", unit="ms", better="less", measure=_latency, repeated=False,
            title="from enqueue to start on a worker that has nothing to do, median",
        ),
        Scenario(
            name="idle", figure="cpu_ms_per_s", unit="ms CPU/s", better="less", measure=_idle, repeated=False,
            title="computing time of a worker that has nothing to do",
        ),
    )
}  # fmt: skip

"""Networks between workers and server that refuse, swallow, cut, garble and delay. The feed has a line of its own."""

from __future__ import annotations

import time

from gauntlet.fleet import Worker
from gauntlet.outage import Kind, Outage, duration
from gauntlet.proxy import Proxy
from gauntlet.scenarios.registry import SERVED, scenario
from gauntlet.scenarios.servers import GIVEN_UP
from gauntlet.stage import LEASE, Stage


@scenario("refuse", stores=SERVED)
def network_that_refuses(stage: Stage) -> None:
    """Every connection is cut and no new one is accepted, for some seconds.

    Caught: crashes-in-an-outage, traceback-per-try, never-pauses.
    """
    proxy, workers = _behind_a_proxy(stage)
    with Outage(stage, workers) as outage:
        proxy.refuse()
        time.sleep(duration(stage, 5, 8))
        proxy.pass_on()
    stage.exercised(proxy.cuts >= len(workers), f"only {proxy.cuts} connections were cut")
    outage.judge()


@scenario("blackhole", stores=SERVED)
def network_that_swallows(stage: Stage) -> None:
    """No packet arrives any more and nobody is told; connections of that time never come back to life.

    Caught: waits-for-ever, waits-for-the-database.
    """
    proxy, workers = _behind_a_proxy(stage)
    with Outage(stage, workers) as outage:
        proxy.swallow()
        time.sleep(GIVEN_UP[stage.home.name] + duration(stage, 1, 4))
        proxy.pass_on()
    stage.exercised(proxy.swallowed, "nothing was swallowed")
    stage.facts["swallowed_bytes"] = proxy.swallowed
    outage.judge()


@scenario("cut", stores=SERVED)
def network_that_cuts(stage: Stage) -> None:
    """All connections are cut again and again, at any moment.

    Caught: crashes-in-an-outage, forgets-what-failed.
    """
    proxy, workers = _behind_a_proxy(stage)
    with Outage(stage, workers, kind=Kind.FLICKER) as outage:
        end = time.monotonic() + 4 * LEASE
        while time.monotonic() < end:
            proxy.cut()
            time.sleep(stage.rng.uniform(0.1, 1.0))
    stage.exercised(proxy.cuts > 5 * len(workers), f"only {proxy.cuts} connections were cut")
    stage.facts["cuts"] = proxy.cuts
    outage.judge()


@scenario("replies", stores=SERVED)
def network_that_loses_replies(stage: Stage) -> None:
    """The server does what it is told, and the reply is lost, or cut off in the middle: nothing is lost or doubled.

    Caught: forgets-what-failed, sends-twice, never-compares.
    """
    proxy, workers = _behind_a_proxy(stage)
    with Outage(stage, workers, kind=Kind.FLICKER) as outage:
        proxy.replies_lost = stage.rng.uniform(0.03, 0.06)
        time.sleep(4 * LEASE)
        proxy.pass_on()
    stage.exercised(proxy.lost > 5 * len(workers), f"only {proxy.lost} replies were lost")
    stage.facts["lost_replies"] = proxy.lost
    outage.judge()


@scenario("slow", stores=SERVED)
def network_that_is_slow(stage: Stage) -> None:
    """Every packet takes a tenth of a second, in either direction: slower, but no outage, and no lease runs out.

    Caught: impatient.
    """
    proxy, workers = _behind_a_proxy(stage)
    with Outage(stage, workers, kind=Kind.UNNOTICED) as outage:
        proxy.latency = stage.rng.uniform(0.08, 0.12)
        time.sleep(4 * LEASE)
        slow_since = outage.began
        done = [run for run in stage.ledger.runs() if run.began > slow_since + LEASE]
        proxy.pass_on()
    stage.exercised(proxy.delayed > 20, "nothing was delayed")
    for worker in workers:
        stage.expect([run for run in done if run.pid == worker.pid], f"{worker.name} did nothing while it was slow")
    outage.judge()


def _behind_a_proxy(stage: Stage) -> tuple[Proxy, list[Worker]]:
    proxy = stage.start_proxy()
    workers = stage.start_workers("ada", "bob", "cyd", probed=True, port=proxy.port)
    stage.feed(300, rate=80.0)
    return proxy, workers

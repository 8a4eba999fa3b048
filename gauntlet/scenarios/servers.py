"""Servers that are restarted, stand still, are full, or end the connections of everybody."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

from gauntlet.fleet import Worker
from gauntlet.outage import BEAT, Kind, Outage, duration
from gauntlet.scenarios.registry import SERVED, scenario
from gauntlet.stage import HEARTBEAT, LEASE, Stage

#: Seconds beyond which an unanswered call is given up, by store: what a worker waits for at most.
GIVEN_UP = {"valkey": 5.0, "postgres": 15.0}
BEATING = {"VTASKS_SCHEDULE": {BEAT: {"task": "gauntlet.tasks.tick", "args": [BEAT], "schedule": 1.0}}}


@scenario("restart", stores=SERVED, settings=BEATING)
def restart_with_data(stage: Stage) -> None:
    """The server goes down, in order or by SIGKILL, and comes back with its data.

    Caught: crashes-in-an-outage, batches-stay-away, always-ready, traceback-per-try.
    """
    workers, scheduler = under_load(stage), _scheduler(stage)
    server = stage.home.server
    with Outage(stage, workers, scheduler=scheduler) as outage:
        server.kill() if stage.rng.random() < 0.5 else server.stop()
        time.sleep(duration(stage, 5, 8))
        server.start()
    outage.judge()
    scheduler.end()


@scenario("reset", stores=("valkey",))
def restart_without_data(stage: Stage) -> None:
    """The server comes back empty: jobs of before are gone with it, everything after works, and nothing ran twice.

    Caught: trusts-the-script-cache.
    """
    workers = under_load(stage)
    with Outage(stage, workers) as outage:
        stage.home.server.kill()
        time.sleep(duration(stage, 4, 6))
        stage.home.forget()
        stage.home.server.start()
        stage.forgotten |= stage.accepted().keys()
    outage.judge()
    stage.until_announced(workers)
    kept = [job_id for job_id in stage.forgotten if stage.backend.client_store.get(job_id) is not None]
    stage.exercised(len(kept) < len(stage.forgotten) / 2, "the server came back with its data")


@scenario("hang", stores=SERVED, settings=BEATING)
def server_that_hangs(stage: Stage) -> None:
    """SIGSTOP of the server for longer than anybody waits for an answer, SIGCONT.

    Caught: waits-for-ever, always-ready.
    """
    workers, scheduler = under_load(stage), _scheduler(stage)
    with Outage(stage, workers, scheduler=scheduler) as outage:
        stage.home.server.pause()
        time.sleep(GIVEN_UP[stage.home.name] + duration(stage, 1, 4))
        stage.home.server.resume()
    outage.judge()
    scheduler.end()


@scenario("full", stores=("valkey",))
def server_that_is_full(stage: Stage) -> None:
    """`maxmemory` is reached and nothing may be evicted: producers are refused, workers work off what is there.

    Caught: needs-memory-to-work.
    """
    workers = under_load(stage)
    (feed,) = stage.feeds
    with Outage(stage, workers, kind=Kind.UNNOTICED) as outage, stage.home.client() as client:
        for _ in range(80):
            stage.enqueue("async", 2.0)
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        full_at, refused = time.monotonic(), len(feed.unsure)
        time.sleep(stage.rng.uniform(5, 8))
        begun = [run for run in stage.ledger.runs() if run.began > full_at + 2 * HEARTBEAT]
        client.config_set("maxmemory", "0")
    stage.exercised(len(feed.unsure) - refused > 10, "producers were not refused")
    stage.expect(begun, "nothing was worked off while the server was full")
    outage.judge()


@scenario("scripts", stores=("valkey",))
def scripts_that_vanish(stage: Stage) -> None:
    """SCRIPT FLUSH again and again under load: nobody notices.

    Caught: trusts-the-script-cache.
    """
    workers = under_load(stage)
    outage = Outage(stage, workers, kind=Kind.UNNOTICED)
    with stage.home.client() as client:
        _disturb(stage, outage, client.script_flush, every=0.05)
        calls = client.info("commandstats")["cmdstat_eval"]["calls"]
    stage.exercised(calls > 20, f"scripts were sent along {calls} times only")
    stage.facts["sent_along"] = calls
    outage.judge()


@scenario("client-kill", stores=("valkey",))
def connections_that_the_server_kills(stage: Stage) -> None:
    """CLIENT KILL TYPE normal again and again under load.

    Caught: crashes-in-an-outage, forgets-what-failed.
    """
    workers = under_load(stage)
    killed: list[int] = []
    outage = Outage(stage, workers, kind=Kind.FLICKER)
    with stage.home.client() as client:

        def kill() -> None:
            killed.append(client.client_kill_filter(_type="normal", skipme=True))

        _disturb(stage, outage, kill, every=0.6)
    stage.exercised(sum(killed) > 5 * len(workers), f"{sum(killed)} connections were killed only")
    stage.facts["killed"] = sum(killed)
    outage.judge()


@scenario("terminate", stores=("postgres",))
def sessions_that_the_server_terminates(stage: Stage) -> None:
    """pg_terminate_backend of every session again and again under load.

    Caught: crashes-in-an-outage, keeps-the-dead-connection.
    """
    workers = under_load(stage)
    killed: list[int] = []
    outage = Outage(stage, workers, kind=Kind.FLICKER)
    with stage.home.client() as client:

        def kill() -> None:
            rows = client.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
            killed.append(len(rows))

        _disturb(stage, outage, kill, every=0.6)
    stage.exercised(sum(killed) > 5 * len(workers), f"{sum(killed)} sessions were terminated only")
    stage.facts["killed"] = sum(killed)
    outage.judge()


def under_load(stage: Stage) -> list[Worker]:
    """Three workers, watched by probes, and a feed."""
    workers = stage.start_workers("ada", "bob", "cyd", probed=True)
    stage.feed(300, rate=80.0)
    return workers


def _scheduler(stage: Stage) -> Worker:
    stage.judged_apart.add(BEAT)
    (scheduler,) = stage.start_workers("sun", probed=True, flags=("--scheduler", "--queue", "nothing"))
    return scheduler


def _disturb(stage: Stage, outage: Outage, once: Callable[[], object], *, every: float) -> None:
    """Do something again and again, at about the interval given, for about four leases."""
    with outage:
        end = time.monotonic() + 4 * LEASE
        for _ in count():
            once()
            if time.monotonic() > end:
                break
            time.sleep(every * stage.rng.uniform(0.5, 1.5))

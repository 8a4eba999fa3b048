"""The stage of one run: store, ledger, feed and workers, and the judgement at the end."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from gauntlet import invariants
from gauntlet.feed import KINDS, Call, Feed
from gauntlet.fleet import Worker
from gauntlet.homes import URLS, Home
from gauntlet.ledger import VARIABLE, Ledger, Run
from gauntlet.probes import Probes
from gauntlet.proxy import Proxy
from gauntlet.waiting import LENGTH, PATIENCE, SHORT_LENGTH, until

LEASE = 2.0 * max(1.0, PATIENCE)
HEARTBEAT = 0.5
FAST = {
    "VTASKS_HEARTBEAT_INTERVAL": str(HEARTBEAT),
    "VTASKS_LEASE_SECONDS": str(LEASE),
    "VTASKS_RESCUE_INTERVAL": "1",
    "VTASKS_LOOP_BLOCK_THRESHOLD": "0.5",
    "VTASKS_SHUTDOWN_TIMEOUT": "20",
    "VTASKS_RESULT_TTL": "7200",
    "VTASKS_RUN_SCHEDULER": "false",
}
QUEUES = {"default": {}, "bulk": {"batch": {"count": 10, "timeout": 0.3}, "result_ttl": 7200}}


class Vacuous(Exception):
    """Raised when a scenario could not bring its fault about, so that it proved nothing."""


class Stage:
    """What a scenario acts on. After it, `finish` waits for quiescence and judges."""

    def __init__(
        self,
        home: Home,
        folder: Path,
        seed: int,
        *,
        short: bool,
        settings: dict[str, Any],
        seconds: float | None = None,
    ) -> None:
        self.home = home
        self.folder = folder
        self.seed = seed
        self.short = short
        self.length = seconds or (SHORT_LENGTH if short else LENGTH)
        self.rng = random.Random(f"gauntlet {seed}")
        self.ledger = Ledger(folder / "ledger.jsonl")
        self.workers: list[Worker] = []
        self.feeds: list[Feed] = []
        self.enqueued: dict[str, Call] = {}
        #: Labels of runs that the scenario judges by itself.
        self.judged_apart: set[str] = set()
        self.facts: dict[str, float | int | str] = {}
        self.problems: list[str] = []
        self.rescues = {name: kind.rescues for name, kind in KINDS.items()}
        self.judged: invariants.Evidence | None = None
        #: Accepted jobs that the store may know nothing of, because the scenario removed its data.
        self.forgotten: set[str] = set()
        self.probes = Probes()
        self._proxies: list[Proxy] = []
        self._settings = settings
        self._finished = False

    # --- set up -------------------------------------------------------------------------------------------------

    def environment(self, port: int | None = None, **settings: Any) -> dict[str, str]:
        """The environment of a process of this run, led to the store through another port if given."""
        values = {"INSTALLED_APPS": self.home.apps, "ROOT_URLCONF": URLS, "VTASKS_QUEUES": QUEUES}
        values |= self.home.settings(port) | self._settings | settings
        own = {VARIABLE: str(self.ledger.path), "VTASKS_TEST_SETTINGS": json.dumps(values)}
        return FAST | self.home.environment(port) | own

    def set_up(self) -> None:
        """Start the store, and make this process one of the project's."""
        self.home.start()
        os.environ |= self.environment() | {"DJANGO_SETTINGS_MODULE": "tests.project.settings"}
        import django

        django.setup()

    @property
    def backend(self) -> Any:
        """The backend, as application code has it."""
        from django_vtasks.framework import task_backends

        return task_backends["default"]

    # --- what scenarios do ----------------------------------------------------------------------------------------

    def feed(self, least: int, **options: Any) -> Feed:
        """Feed jobs until the end of the scenario, at least so many (a fifth in the short form)."""
        least = max(60, least // 5) if self.short else least
        feed = Feed(self.rng, least=least, rate=options.pop("rate", 150.0), **options)
        self.feeds.append(feed)
        feed.start()
        return feed

    def enqueue(self, kind: str, seconds: float) -> str:
        """Enqueue one job of a scenario's own; returns its id."""
        from gauntlet import tasks

        label = f"{kind}-own-{len(self.enqueued)}"
        job_id = str(getattr(tasks, KINDS[kind].task).enqueue(label, seconds).id)
        self.enqueued[job_id] = Call(label=label, kind=kind, seconds=seconds)
        return job_id

    def start_workers(
        self,
        *names: str,
        concurrency: int = 8,
        flags: tuple[str, ...] = (),
        probed: bool = False,
        **options: Any,
    ) -> list[Worker]:
        """Start workers and wait until each has its lease and says so in the store."""
        env = self.environment(options.pop("port", None), **options)
        started = [Worker(name, "--concurrency", str(concurrency), *flags, env=env, probed=probed) for name in names]
        self.workers += started
        for worker in started:
            worker.start()
        self.until_announced(started)
        for worker in started if probed else ():
            self.probes.watch(worker)
        return started

    def start_proxy(self) -> Proxy:
        """A proxy that leads to the server."""
        proxy = Proxy(self.home.port, self.seed).start()
        self._proxies.append(proxy)
        return proxy

    def until_announced(self, workers: list[Worker]) -> None:
        """Wait until the store knows the workers; learn their incarnations."""

        def all_known() -> bool:
            if ended := [worker for worker in workers if worker.exit_code is not None]:
                raise RuntimeError(f"{ended[0].name} ended at its start: {ended[0].log_text()[-2000:]}")
            known = {info.pid: info.incarnation for info in self.backend.admin_store.workers()}
            for worker in workers:
                worker.incarnation = known.get(worker.pid, "")
            return all(worker.incarnation for worker in workers)

        until(all_known, "the workers to be announced")

    def until_green(self, workers: list[Worker], deadline: float) -> list[Worker]:
        """Wait until the probes of all workers say that they are ready, at most until `deadline` (monotonic clock);
        returns those that are not."""
        asked_after = time.monotonic()
        while True:
            newest = {worker: self.probes.of(worker, asked_after)[-1:] for worker in workers}
            red = [worker for worker, samples in newest.items() if not (samples and samples[0].ready)]
            if not red or time.monotonic() > deadline:
                return red
            time.sleep(0.05)

    def until_busy(self, worker: Worker, least: int = 1) -> None:
        """Wait until a worker runs so many jobs."""
        until(lambda: len(self.ledger.open_in(worker.pid)) >= least, f"{least} running jobs in {worker.name}")

    def accepted(self) -> dict[str, Call]:
        """The jobs that were accepted so far, by id."""
        accepted = dict(self.enqueued)
        for feed in self.feeds:
            accepted |= feed.accepted.copy()
        return accepted

    def jobs_of(self, *kinds: str) -> set[str]:
        """The ids of the accepted jobs of these kinds."""
        return {job_id for job_id, call in self.accepted().items() if call.kind in kinds}

    def kill(self, worker: Worker) -> list[Run]:
        """Kill a worker; returns what it was running."""
        worker.lapsed = True
        worker.expected_exit = None
        worker.kill()
        return self.ledger.open_in(worker.pid)

    def kill_at_work(self, worker: Worker, least: int = 1) -> list[Run]:
        """As `kill`, at a moment when it runs so many jobs: it is held still for the look."""
        for _ in range(30):
            self.until_busy(worker, least)
            worker.pause()
            if len(self.ledger.open_in(worker.pid)) >= least:
                break
            worker.resume()
        return self.kill(worker)

    def finished(self) -> int:
        """How many runs came to their end so far."""
        return sum(run.ended is not None for run in self.ledger.runs())

    def exercised(self, condition: object, otherwise: str) -> None:
        """The fault must have happened: what is not true here makes the scenario vacuous."""
        if not condition:
            raise Vacuous(otherwise)

    def expect_log(self, worker: Worker, pattern: str, otherwise: str, within: float = 15) -> None:
        """As `expect`, of a line that is to appear in a worker's log."""
        try:
            worker.wait_for_log(pattern, within=within * PATIENCE)
        except AssertionError:
            self.problems.append(otherwise)

    def expect(self, condition: object, otherwise: str) -> None:
        """What the scenario itself asks of the product, beside the invariants."""
        if not condition:
            self.problems.append(otherwise)

    # --- the end --------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Wait until nothing is left to do, end the workers, and judge; `problems` has what is wrong. Once only."""
        if self._finished:
            return
        self._finished = True
        for feed in self.feeds:
            feed.enough()
        began = time.monotonic()
        self._drain()
        self.facts["drained_after"] = round(time.monotonic() - began, 1)
        self._end_workers()
        self.judged = evidence = self.evidence()
        self.facts |= invariants.summary(evidence)
        self.problems += invariants.problems(evidence)
        self._judge_logs()
        self._judge_leftovers()

    def evidence(self) -> invariants.Evidence:
        """All that is known at this moment."""
        accepted, store = self.accepted(), self.backend.client_store
        return invariants.Evidence(
            accepted=accepted,
            unsure=[call for feed in self.feeds for call in feed.unsure],
            records={job_id: store.get(job_id) for job_id in accepted},
            runs={job: runs for job, runs in self.ledger.by_job().items() if runs[0].label not in self.judged_apart},
            workers=self.workers,
            rescues=self.rescues,
            forgotten=self.forgotten,
        )

    def _drain(self) -> None:
        last: list[Any] = []

        def nothing_left() -> bool:
            # Twice, because a count is no moment: a job may go from a place not counted yet to one that was.
            last[:] = [c for _ in range(2) for c in self.counts() if c.ready or c.scheduled or c.leased]
            return not last or all(worker.exit_code is not None for worker in self.workers)

        try:
            until(nothing_left, "everything to be done", within=90)
        except AssertionError:
            pass
        if last:
            self.problems.append(f"work was left: {last}")

    def counts(self) -> list[Any]:
        """What waits and runs in each queue."""
        counts = self.backend.admin_store.counts()
        self.hang_up()
        return counts

    def hang_up(self) -> None:
        """Close this thread's database connections: a server that was restarted since knows nothing of them."""
        from django.db import connections

        connections.close_all()

    def _end_workers(self) -> None:
        running = [worker for worker in self.workers if worker.exit_code is None]
        for worker in running:
            worker.send(signal.SIGTERM)
        for worker in running:
            try:
                code = worker.wait(within=30 * PATIENCE)
            except AssertionError:
                self.problems.append(f"{worker.name} did not end within 30 s although it had nothing to do")
                continue
            if code != worker.expected_exit:
                self.problems.append(f"{worker.name} ended with exit code {code}")

    def _judge_logs(self) -> None:
        runs = self.ledger.runs()
        for worker in self.workers:
            self.problems += worker.log_problems(sum(run.pid == worker.pid for run in runs))

    def _judge_leftovers(self) -> None:
        """What dead workers leave behind is gone after one turn of the cleaner."""
        import asyncio

        asyncio.run(self._purge())
        self.problems += [f"left behind: {what}" for what in self.home.leftovers()]
        alone = [call for feed in self.feeds for call in feed.accepted.values() if call.kind == "alone"]
        for call in alone[:3]:
            from gauntlet import tasks

            if tasks.work_alone.enqueue(call.label, 0) is None:
                self.problems.append(f"the unique key of {call.label} is still taken")

    async def _purge(self) -> None:
        from django_vtasks.stores.base import Retention

        store = self.backend.new_worker_store()
        await store.open()
        try:
            await store.purge(Retention(), 1000)
        finally:
            await store.close()

    def save(self, folder: Path) -> None:
        """Keep what somebody needs who wants to know what happened."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "ledger.jsonl").write_bytes(self.ledger.path.read_bytes())
        for worker in self.workers:
            worker.save_log(folder)
        if self.home.server is not None:
            (folder / "server.log").write_text(self.home.server.log_text())

    def tear_down(self) -> None:
        """End everything that was started."""
        self.probes.stop()
        for worker in self.workers:
            worker.discard()
        for proxy in self._proxies:
            proxy.stop()
        self.home.stop()


def say(text: str) -> None:
    """Tell whoever watches what goes on."""
    print(text, file=sys.stderr, flush=True)

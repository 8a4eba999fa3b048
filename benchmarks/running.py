"""Runs one peer in one scenario on a fresh store."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import PostgresServer, ValkeyServer

from .peers import ROOT, Peer

VENVS = ROOT / ".venvs"
APPS = ROOT / "benchmarks" / "apps"
PATIENCE = 120.0


class RunFailed(Exception):
    """Raised when a run brought no figure; the message says why."""


def environment_of(peer: Peer) -> Path:
    """The `bin` folder of the peer's virtual environment, made at the first use."""
    folder = VENVS / peer.name
    if not (folder / "ready").exists():
        print(f"Installing {peer.name} into {folder.relative_to(ROOT)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *peer.requires], check=True)
        (folder / "ready").touch()
    return folder / "bin"


@contextmanager
def store_urls() -> Iterator[Callable[[str], str]]:
    """Starts servers as they are asked for; the function empties the store of a name and returns its URL."""
    running: dict[str, PostgresServer | ValkeyServer] = {}
    folder = Path(tempfile.mkdtemp(prefix="vtasks-bench-"))

    def fresh(store: str) -> str:
        if store == "sqlite":
            for old in folder.iterdir():
                old.unlink()
            return str(folder / "jobs.sqlite3")
        if store in running:
            running.pop(store).discard()
        server = PostgresServer(fsync="on") if store == "postgres" else ValkeyServer()
        server.start()
        running[store] = server
        return server.url

    try:
        yield fresh
    finally:
        for server in running.values():
            server.discard()
        shutil.rmtree(folder, ignore_errors=True)


class Run:
    """One peer on one fresh store."""

    def __init__(self, peer: Peer, store: str, url: str, jobs: int) -> None:
        self._peer = peer
        self._bin = environment_of(peer)
        self._jobs = jobs
        self._report = Path(tempfile.mkdtemp(prefix="vtasks-bench-")) / "report.json"
        self._environ = {
            **os.environ,
            "BENCH_STORE": store,
            "BENCH_URL": url,
            "BENCH_JOBS": str(jobs),
            "BENCH_REPORT": str(self._report),
            "DJANGO_SETTINGS_MODULE": "vtasks_settings",
            "PYTHONPATH": str(APPS),
        }
        self._drive("setup")

    def rate(self, scenario: str) -> float:
        """Jobs per second. Raises RunFailed."""
        if scenario == "enqueue":
            task = "noop_async" if "async" in self._peer.scenarios else "noop_sync"
            return self._jobs / float(json.loads(self._drive("enqueue", task, str(self._jobs)))["seconds"])
        self._drive("load", f"noop_{scenario}", str(self._jobs))
        report = self._work()
        if report["repeated"]:
            raise RunFailed(f"{report['repeated']} jobs ran twice")
        return self._jobs / float(report["seconds"])

    def _drive(self, *arguments: str) -> str:
        command = [str(self._bin / "python"), str(APPS / "drive.py"), self._peer.module, *arguments]
        done = subprocess.run(
            command, env=self._environ, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if done.returncode:
            raise RunFailed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message")
        return done.stdout

    def _work(self) -> dict[str, float]:
        command = [str(self._bin / self._peer.worker[0]), *self._peer.worker[1:]]
        worker = subprocess.Popen(
            command, env=self._environ, cwd=APPS, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not self._report.exists():
                if worker.poll() is not None or time.monotonic() > deadline:
                    raise RunFailed("the worker ended early or did not run every job in time")
                time.sleep(0.02)
            report: dict[str, float] = json.loads(self._report.read_text())
            return report
        finally:
            worker.send_signal(signal.SIGTERM)
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                worker.kill()
            shutil.rmtree(self._report.parent, ignore_errors=True)

"""Runs one peer on a fresh store: its environment, its producer, its worker, and what they cost."""

import array
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from .peers import CONCURRENCY, ROOT, THREADS, Peer
from .stores import Stores

VENVS = ROOT / ".venvs"
APPS = ROOT / "benchmarks" / "apps"
PATIENCE = 60.0
SPARE = 64  # slots beyond the jobs, for warm-ups


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


def version_of(peer: Peer) -> str:
    """The version of what was installed."""
    (library,) = (VENVS / peer.name / "lib").glob("python*")
    found = importlib.metadata.distributions(name=peer.package, path=[str(library / "site-packages")])
    return next(iter(found)).version


class Run:
    """One peer on one fresh store."""

    def __init__(self, peer: Peer, store: str, stores: Stores, *, kind: str, jobs: int) -> None:
        self._peer, self._store, self._stores, self._jobs = peer, store, stores, jobs
        self._bin = VENVS / peer.name / "bin"
        self._folder = Path(tempfile.mkdtemp(prefix="vtasks-bench-"))
        for name, size in (("ends", 8), ("delays", 8), ("runs", 1)):
            (self._folder / name).write_bytes(bytes(size * (jobs + SPARE)))
        self._kind = kind
        self.url = stores.fresh(store, f"{peer.name}_{kind}", lambda url: self._drive("setup", url=url))

    def close(self) -> None:
        """Remove the notes."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def produce(self, operation: str, task: str, count: int) -> float:
        """Enqueue; returns the seconds it took. Raises RunFailed."""
        seconds: float = json.loads(self._drive(operation, task, str(count)).splitlines()[-1])["seconds"]
        return seconds

    def ran(self) -> int:
        """How many of the jobs ran at least once."""
        return self._jobs - self._runs().count(0)

    def repeated(self) -> int:
        """How many runs were one too many."""
        return sum(runs - 1 for runs in self._runs() if runs)

    def span(self) -> float:
        """Seconds between the end of the first and of the last job."""
        ends = [end for end in self._doubles("ends") if end]
        return max(ends) - min(ends)

    def delays(self) -> list[float]:
        """Seconds from enqueue to start, sorted."""
        return sorted(delay for delay in self._doubles("delays") if delay)

    def wait(self, number: int, worker: psutil.Popen, *, patience: float = PATIENCE) -> None:
        """Wait until so many jobs ran. Raises RunFailed."""
        deadline = time.monotonic() + patience
        while self.ran() < number:
            if worker.poll() is not None:
                raise RunFailed(f"the worker ended early, with {worker.returncode}: {self._last_words()}")
            if time.monotonic() > deadline:
                raise RunFailed(f"{number - self.ran()} of {number} jobs did not run in {patience:.0f} s")
            time.sleep(0.02)

    @contextmanager
    def worker(self) -> Iterator[psutil.Popen]:
        """The peer's worker while the block lasts."""
        first, *rest = (part.replace("{url}", self.url) for part in self._peer.worker)
        with (self._folder / "log").open("ab") as log:
            process = psutil.Popen(
                [str(self._bin / first), *rest], env=self._environ(self.url), cwd=APPS, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            _stop(process, self._peer.stop)

    def commands(self) -> int | None:
        """What the server was asked so far."""
        return self._stores.commands(self._store, self.url)

    def _drive(self, *arguments: str, url: str = "") -> str:
        command = [str(self._bin / "python"), str(APPS / "drive.py"), self._peer.module, *arguments]
        try:
            done = subprocess.run(
                command, env=self._environ(url or self.url), cwd=APPS, capture_output=True, text=True,
                timeout=PATIENCE * 2, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise RunFailed(f"{arguments[0]} took more than {PATIENCE * 2:.0f} s") from error
        if done.returncode:
            raise RunFailed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no message")
        return done.stdout

    def _environ(self, url: str) -> dict[str, str]:
        path = f"{self._bin}{os.pathsep}{os.environ.get('PATH', '')}"
        kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        return kept | {
            "PATH": path,
            "BENCH_STORE": self._store,
            "BENCH_URL": url,
            "BENCH_FOLDER": str(self._folder),
            "BENCH_KIND": self._kind,
            "BENCH_CONCURRENCY": str(CONCURRENCY),
            "BENCH_THREADS": str(THREADS),
            "DJANGO_SETTINGS_MODULE": "vtasks_settings",
            "PYTHONPATH": str(APPS),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _runs(self) -> bytes:
        return (self._folder / "runs").read_bytes()[: self._jobs]

    def _doubles(self, name: str) -> array.array[float]:
        values = array.array("d")
        values.frombytes((self._folder / name).read_bytes()[: 8 * self._jobs])
        return values

    def _last_words(self) -> str:
        lines = (self._folder / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it printed nothing"


def family(process: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants."""
    return [process, *process.children(recursive=True)]


def cpu_seconds(process: psutil.Process) -> float:
    """What a process and its descendants computed, those that ended included."""
    return _summed(process, lambda each: sum(each.cpu_times()[:4]))


def peak_mebibytes(process: psutil.Process) -> float:
    """The most memory each process of a family had resident, added up."""
    return _summed(process, _peak) / 1024


def _peak(process: psutil.Process) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1])
    return 0.0


def _summed(process: psutil.Process, figure: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for each in family(process):
        try:
            total += figure(each)
        except (psutil.Error, OSError):
            continue  # ended meanwhile
    return total


def _stop(process: psutil.Popen, number: int) -> None:
    everybody = family(process) if process.poll() is None else []
    if everybody:
        process.send_signal(number)
        try:
            process.wait(10)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(10)
    for each in everybody[1:]:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue

"""What a job costs beyond what no worker can leave out: `python -m benchmarks.floor [--jobs N] [store ...]`.

Runs a worker of ours, with results and metrics, and a prototype with nothing but the bookkeeping of the framework
(`apps/floor_app.py`), one after the other on the same private server, in the same Python with the same libraries, and
prints the computing time of a no-op coroutine in each and their ratio. Computing time hardly depends on what else the
machine does; the start of the worker is taken off by a second run with fewer jobs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from statistics import median

from .running import APPS
from .stores import Stores

FEWER = 10
"""The second run has a tenth of the jobs."""


def main() -> int:
    """Measure each store that was named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", nargs="*", default=["valkey", "postgres"])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    stores = Stores()
    try:
        for store in options.stores:
            pairs = [
                [measure(stores, store, options.jobs) for measure in (ours, floor)] for _ in range(options.repeat)
            ]
            product, prototype = (median(column) for column in zip(*pairs, strict=True))
            ratios = sorted(one / other for one, other in pairs)
            sys.stdout.write(
                f"{store}: {product:.1f} us a job, {prototype:.1f} us for the bookkeeping alone: "
                f"{median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f}, {options.repeat} pairs)\n"
            )
            sys.stdout.flush()
    finally:
        stores.close()
    return 0


def ours(stores: Stores, store: str, jobs: int) -> float:
    """Microseconds of computing for a job of a worker of ours."""
    spent = [_worker_seconds(stores, store, count) for count in (jobs, jobs // FEWER)]
    return (spent[0] - spent[1]) / (jobs - jobs // FEWER) * 1e6


def floor(stores: Stores, store: str, jobs: int) -> float:
    """Microseconds of computing for a job of the prototype."""
    url = _fresh(stores, store)
    return float(_python(store, url, "floor_app.py", store, url, str(jobs)).splitlines()[-1])


def _worker_seconds(stores: Stores, store: str, jobs: int) -> float:
    url = _fresh(stores, store)
    _python(store, url, "-c", f"import floor_app; floor_app.load({jobs})")
    command = [sys.executable, "-m", "django", "runworker", "--batch", "--concurrency", "100", "--metrics-port", "0"]
    worker = subprocess.Popen([*command, "--exit-empty", "9"], env=_environ(store, url), cwd=APPS)
    _, status, usage = os.wait4(worker.pid, 0)
    worker.returncode = os.waitstatus_to_exitcode(status)
    if worker.returncode:
        raise SystemExit(f"the worker ended with {worker.returncode}")
    return usage.ru_utime + usage.ru_stime


def _fresh(stores: Stores, store: str) -> str:
    return stores.fresh(store, "floor", lambda url: _python(store, url, "-c", "import floor_app; floor_app.setup()"))


def _python(store: str, url: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], env=_environ(store, url), cwd=APPS, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def _environ(store: str, url: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
    return kept | {
        "BENCH_STORE": store,
        "BENCH_URL": url,
        "BENCH_RESULT_TTL": "3600",
        "DJANGO_SETTINGS_MODULE": "vtasks_settings",
        "PYTHONPATH": str(APPS),
    }


if __name__ == "__main__":
    raise SystemExit(main())

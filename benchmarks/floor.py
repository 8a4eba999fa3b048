"""What a job costs beyond what no worker can leave out: `python -m benchmarks.floor [--jobs N] [store ...]`.

Runs a worker of ours, with results and metrics, and a prototype with nothing but the bookkeeping of the framework
(`apps/floor_app.py`), one after the other on the same private server, in the same Python with the same libraries, and
prints the computing time of a no-op coroutine in each and their ratio. On a machine that is shared with others even
computing time is noisy; `--instructions` counts instead what the programs execute, which nothing disturbs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
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
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions (needs valgrind, a minute each)"
    )
    options = parser.parse_args()
    cost, unit = (_instructions, "instructions") if options.instructions else (_microseconds, "us")
    stores = Stores()
    try:
        for store in options.stores:
            pairs = [
                [_of_a_job(side, cost, stores, store, options.jobs) for side in (_ours, _floor)]
                for _ in range(options.repeat)
            ]
            product, prototype = (median(column) for column in zip(*pairs, strict=True))
            ratios = sorted(one / other for one, other in pairs)
            sys.stdout.write(
                f"{store}: {product:.1f} {unit} a job, {prototype:.1f} for the bookkeeping alone: "
                f"{median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f}, {options.repeat} pairs)\n"
            )
            sys.stdout.flush()
    finally:
        stores.close()
    return 0


type Cost = Callable[[Sequence[str], Mapping[str, str]], float]
"""What a command costs whose environment is given."""

type Side = Callable[[str, str, int], Sequence[str]]
"""Fills a store (name, URL, number of jobs) and says which command does these jobs."""


def _of_a_job(side: Side, cost: Cost, stores: Stores, store: str, jobs: int) -> float:
    """What a job costs; the start of the process is taken off by a second run with fewer jobs."""
    spent = []
    for count in (jobs, jobs // FEWER):
        url = stores.fresh(
            store, "floor", lambda url: _python(store, url, "-c", "import floor_app; floor_app.setup()")
        )
        spent.append(cost(side(store, url, count), _environ(store, url)))
    return (spent[0] - spent[1]) / (jobs - jobs // FEWER)


def _ours(store: str, url: str, jobs: int) -> Sequence[str]:
    _python(store, url, "-c", f"import floor_app; floor_app.load({jobs})")
    command = [sys.executable, "-m", "django", "runworker", "--batch", "--concurrency", "100", "--metrics-port", "0"]
    return [*command, "--exit-empty", "9"]


def _floor(store: str, url: str, jobs: int) -> Sequence[str]:
    _python(store, url, "-c", f"import floor_app; floor_app.fill({store!r}, {url!r}, {jobs})")
    return [sys.executable, "floor_app.py", store, url, str(jobs)]


def _microseconds(command: Sequence[str], environ: Mapping[str, str]) -> float:
    process = subprocess.Popen(command, env=environ, cwd=APPS)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[1]} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e6


def _instructions(command: Sequence[str], environ: Mapping[str, str]) -> float:
    counting = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    # Without a fixed seed the order of sets would change from run to run, and the count with it.
    environ = {**environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*counting, *command], env=environ, cwd=APPS, stderr=subprocess.PIPE, text=True, check=True)
    (line,) = (line for line in done.stderr.splitlines() if re.search(r"I +refs:", line))
    return float(line.split()[-1].replace(",", ""))


def _python(store: str, url: str, *arguments: str) -> None:
    command = [sys.executable, *arguments]
    subprocess.run(command, env=_environ(store, url), cwd=APPS, stdout=subprocess.DEVNULL, check=True)


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

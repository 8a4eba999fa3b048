"""Breaks the product on purpose, in a copy, and sees the scenarios fail: `python -m gauntlet.mutations [NAME ...]`.

A scenario is worth what it catches. Each mutation is a fault that somebody could write, with the scenarios and stores
that must notice it. Exit code 0 when each of them did.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [path for path in (str(ROOT),) if path not in sys.path]

from gauntlet.mutants_of_load import MUTANTS_OF_LOAD  # noqa: E402 - after the path is set
from gauntlet.mutants_of_outages import MUTANTS_OF_OUTAGES  # noqa: E402
from gauntlet.mutation import DB, LUA, Mutation  # noqa: E402
from gauntlet.scenarios import SCENARIOS  # noqa: E402

COPIED = ("src", "gauntlet", "tests/project", "tests/support", "tests/__init__.py")


MUTATIONS = [
    Mutation(
        name="takes-from-the-living",
        about="the sweep takes jobs although their lease has not run out",
        changes=(
            (
                LUA + "expired.lua",
                "call('ZRANGEBYSCORE', P .. 'leases', '-inf', now)",
                "call('ZRANGE', P .. 'leases', 0, -1)",
            ),
            (LUA + "reclaim.lua", "local over = not lives(owner, now)", "local over = true"),
            (DB + "upkeep.py", "if live else", "if False else"),
            (DB + "upkeep.py", "tuple(live), f", "(), f"),
            (DB + "settle.py", "or lease.owner in live", ""),
        ),
        scenarios=("kill",),
    ),
    Mutation(
        name="no-fence",
        about="an outcome is written whoever has the job by now",
        changes=(
            (
                LUA + "exchange.lua",
                "if standing[i] and not seen[field] and find(standing[i], ARGV[fields + count + i], 1, true) == 1 then",
                "if not seen[field] then\n      standing[i] = standing[i] or nonce",
            ),
            (
                DB + "oneround.py",
                "AND COALESCE(j.worker_id, '') = %s\n        AND COALESCE(j.lease_token, '') = e.token",
                "AND %s <> '' AND e.token <> ''",
            ),
            (DB + "settle.py", "or (found.owner, found.token) != (lease.owner, lease.token)", ""),
        ),
        scenarios=("freeze",),
    ),
    Mutation(
        name="no-rescue",
        about="the rescuer overlooks what it finds",
        changes=(("worker/rescuer.py", "        if not others:", "        if others:"),),
        scenarios=("kill", "gone"),
    ),
    Mutation(
        name="rescue-loses",
        about="a job is taken from a dead worker and not put back",
        changes=(
            (
                LUA + "reclaim.lua",
                "    call('HDEL', inflight, field)\n    write(now, field)",
                "    call('HDEL', inflight, field)",
            ),
            (
                DB + "settle.py",
                "    if requeues:\n        _requeue(session, requeues)",
                '    if requeues:\n        session.run_many(f"DELETE FROM {JOBS} WHERE id = %s", [(session.vendor.id_in(c.lease.job_id),) for c, _ in requeues])',
            ),
        ),
        scenarios=("gone",),
    ),
    Mutation(
        name="rescue-own-kind",
        about="the rescuer only looks after workers of its own name",
        changes=(
            (
                "worker/rescuer.py",
                "if claim.lease.owner != self._keeper.owner]",
                "if claim.lease.owner.partition(':')[0] == self._keeper.owner.partition(':')[0] != '' and claim.lease.owner != self._keeper.owner]",
            ),
        ),
        scenarios=("gone",),
    ),
    Mutation(
        name="lease-in-the-loop",
        about="leases are renewed only while the event loop turns",
        changes=(
            (
                "worker/runtime.py",
                "        self.keeper.start(\n",
                "        extend = self.store.extend\n\n"
                "        def extend_in_loop(owner, seconds):\n"
                "            import threading\n\n"
                "            turned = threading.Event()\n"
                "            loop.call_soon_threadsafe(turned.set)\n"
                "            turned.wait()\n"
                "            return extend(owner, seconds)\n\n"
                "        self.store.extend = extend_in_loop\n"
                "        self.keeper.start(\n",
            ),
        ),
        scenarios=("block",),
    ),
    Mutation(
        name="silent-loop",
        about="a blocked loop is not reported",
        changes=(("worker/loopwatch.py", "        self._emitter.emit(LoopBlocked(", "        print(LoopBlocked("),),
        scenarios=("block",),
        stores=("valkey",),
    ),
    Mutation(
        name="one-name-one-worker",
        about="the lease belongs to the worker id, not to the incarnation",
        changes=(("worker/runtime.py", 'return f"{worker_id}:{os.urandom(6).hex()}"', "return worker_id"),),
        scenarios=("twins",),
    ),
    Mutation(
        name="keeps-the-key",
        about="a unique key is not given back when its job is done",
        changes=((LUA + "shared/unique.lua", "  if holder == id or", "  if holder == '' or"),),
        scenarios=("kill",),
        stores=("valkey",),
    ),
    *MUTANTS_OF_LOAD,
    *MUTANTS_OF_OUTAGES,
]


def main() -> int:
    """Try the mutations asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gauntlet.mutations", description=__doc__)
    names = [mutation.name for mutation in MUTATIONS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--store", action="append", help="repeatable; default: those of the mutation")
    parser.add_argument("--scenario", action="append", help="repeatable; default: those of the mutation")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"no such mutation: {', '.join(unknown)}")
    wanted = [mutation for mutation in MUTATIONS if not options.names or mutation.name in options.names]
    caught = [_caught(mutation, options) for mutation in wanted]
    return 0 if all(caught) else 1


def _caught(mutation: Mutation, options: argparse.Namespace) -> bool:
    print(f"{mutation.name}: {mutation.about}", flush=True)
    all_caught = True
    with tempfile.TemporaryDirectory(prefix="gauntlet-mutant-", dir="/tmp") as folder:
        root = Path(folder)
        _copy(root)
        mutation.apply(root)
        for scenario in options.scenario or mutation.scenarios:
            for store in _stores(options.store or mutation.stores, scenario):
                verdict, problem = _play(root, scenario, store, options.seed)
                print(f"    {scenario} on {store}: {verdict}: {problem}", flush=True)
                all_caught &= verdict == "failed"
    return all_caught


def _stores(names: Sequence[str], scenario: str) -> list[str]:
    return [name for name in names if name in SCENARIOS[scenario].stores]


def _copy(root: Path) -> None:
    for name in COPIED:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def _play(root: Path, scenario: str, store: str, seed: int) -> tuple[str, str]:
    command = [sys.executable, "-m", "gauntlet.one", scenario, store, str(seed), "--short"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    try:
        report = json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return "broken", (done.stdout + done.stderr)[-2000:]
    problems = [problem.strip().splitlines()[-1][:200] for problem in report["problems"]]
    return report["verdict"], "; ".join([*problems[:3], f"{len(problems)} in all"])


if __name__ == "__main__":
    sys.exit(main())

"""`python -m gauntlet`: scenarios on stores over seeds, one after the other; exit code 0 when all of them passed."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "src")) if path not in sys.path]

from gauntlet.homes import HOMES  # noqa: E402 - after the path is set
from gauntlet.runs import Report, Templates, run  # noqa: E402
from gauntlet.scenarios import SCENARIOS  # noqa: E402


def main() -> int:
    """Run what was asked for; returns the exit code."""
    options = _options()
    if options.list:
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:<12} {', '.join(scenario.stores):<26} {scenario.summary}")
        return 0
    reports = []
    with Templates() as templates:
        for scenario, store, seed in _plan(options):
            report = run(
                scenario,
                store,
                seed,
                short=options.short,
                seconds=options.seconds,
                template=templates.of(store),
                keep=options.keep,
            )
            print(report, flush=True)
            reports.append(report)
    return _conclude(reports)


def _plan(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    for name in options.scenario or SCENARIOS:
        for store in options.store or HOMES:
            if store in SCENARIOS[name].stores:
                for seed in range(options.first_seed, options.first_seed + options.seeds):
                    yield name, store, seed


def _conclude(reports: list[Report]) -> int:
    print()
    for scenario, store in dict.fromkeys((report.scenario, report.store) for report in reports):
        verdicts = Counter(r.verdict for r in reports if (r.scenario, r.store) == (scenario, store))
        print(f"{scenario:<12} {store:<9} {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}")
    return 0 if reports and all(report.passed for report in reports) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gauntlet", description=__doc__)
    parser.add_argument("--scenario", action="append", choices=SCENARIOS, help="repeatable; default: all")
    parser.add_argument("--store", action="append", choices=HOMES, help="repeatable; default: all")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many seeds (default 1)")
    parser.add_argument("--first-seed", type=int, default=1, metavar="N", help="the first of them (default 1)")
    parser.add_argument("--short", action="store_true", help="fewer jobs")
    parser.add_argument("--seconds", type=float, metavar="N", help="for those that have a length (600; short: 10)")
    parser.add_argument("--list", action="store_true", help="list the scenarios and end")
    keep = Path(os.environ.get("GAUNTLET_KEEP", "/tmp/gauntlet-failures"))
    parser.add_argument("--keep", type=Path, default=keep, metavar="FOLDER", help=f"logs of failures ({keep})")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

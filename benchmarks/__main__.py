"""`python -m benchmarks`: runs every peer in every scenario and prints a table with ratios."""

import argparse
import platform
import statistics
from collections import defaultdict

from .peers import PEERS
from .running import Run, RunFailed, store_urls

SCENARIOS = ("enqueue", "async", "sync")
JOBS = {"sqlite": 5000, "postgres": 5000, "valkey": 20000}
REFERENCE = "vtasks-3.2"

type Cell = tuple[str, str, str]


def main() -> None:
    """Measure and print."""
    options = _options()
    stores = options.stores.split(",")
    names = options.peers.split(",")
    scenarios = options.scenarios.split(",")
    rates: dict[Cell, list[float]] = defaultdict(list)
    with store_urls() as fresh:
        for turn in range(options.repeat):
            order = names if turn % 2 == 0 else names[::-1]
            for store in stores:
                for scenario in scenarios:
                    for name in order:
                        peer = PEERS[name]
                        if store not in peer.stores or scenario not in peer.scenarios:
                            continue
                        jobs = int(JOBS[store] * options.scale)
                        try:
                            rate = Run(peer, store, fresh(store), jobs).rate(scenario)
                        except RunFailed as error:
                            print(f"{store} {scenario} {name}: failed: {error}", flush=True)
                            continue
                        rates[store, scenario, name].append(rate)
                        print(f"{store} {scenario} {name}: {rate:,.0f}/s", flush=True)
    _print_table(rates, stores, scenarios, names)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--stores", default=",".join(JOBS), help=f"of {', '.join(JOBS)}")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each, of which the median counts")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of jobs")
    return parser.parse_args()


def _print_table(rates: dict[Cell, list[float]], stores: list[str], scenarios: list[str], names: list[str]) -> None:
    print(f"\n{platform.machine()}, Python {platform.python_version()}; jobs per second, median (times {REFERENCE})\n")
    print(f"| store | scenario | {' | '.join(names)} |")
    print(f"|---|---|{'---|' * len(names)}")
    for store in stores:
        for scenario in scenarios:
            base = rates.get((store, scenario, REFERENCE))
            cells = []
            for name in names:
                runs = rates.get((store, scenario, name))
                if not runs:
                    cells.append("")
                    continue
                median = statistics.median(runs)
                cells.append(f"{median:,.0f}" + (f" ({median / statistics.median(base):.1f}x)" if base else ""))
            print(f"| {store} | {scenario} | {' | '.join(cells)} |")


main()

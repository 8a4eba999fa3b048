"""`python -m benchmarks`: measures every peer in every scenario and prints the tables."""

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

from .peers import PEERS, ROOT
from .plot import svg
from .report import page, publish_readme
from .results import FOLDER, Cell, Results, planned
from .running import RunFailed, environment_of, version_of
from .scenarios import SCENARIOS, measure
from .stores import Stores


def main() -> None:
    """Measure, print, and with `--publish` write down."""
    options = _options()
    # SystemExit runs the `finally` that ends the servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names, scenarios = options.peers.split(","), options.scenarios.split(",")
    for name in names:
        environment_of(PEERS[name])
    if options.install:
        return
    results = Results.begun(scale=options.scale)
    file = FOLDER / f"{results.about['date']}.json"
    if options.publish and file.exists():
        results = Results.read(file)
        if results.about["scale"] != options.scale:
            sys.exit(f"{file.name} was begun with --scale {results.about['scale']:g}; go on with it, or remove it.")
    results.versions |= {name: version_of(PEERS[name]) for name in names}
    todo = _plan(results, names, scenarios, options.repeat)
    done = _measure(results, todo, options, file if options.publish else None)
    print(f"\n{page(results)}")
    if options.publish:
        _publish(results, file)
    if not done:
        sys.exit("The time is up; the same command goes on where this one ended." if options.publish else 3)


def _plan(results: Results, names: list[str], scenarios: list[str], repeat: int) -> list[Cell]:
    """What is still to be measured: every cell once before any a second time, in turned order every other time."""
    todo: list[Cell] = []
    for turn in range(repeat):
        for cell in planned(names if turn % 2 == 0 else names[::-1], scenarios):
            wanted = turn + 1 if SCENARIOS[cell[2]].repeated else 1
            if results.count(cell) + todo.count(cell) < wanted:
                todo.append(cell)
    return todo


def _measure(results: Results, todo: list[Cell], options: argparse.Namespace, file: Path | None) -> bool:
    """Whether everything was measured before the time was up."""
    ends = time.monotonic() + options.minutes * 60
    stores = Stores()
    try:
        for number, cell in enumerate(todo, 1):
            if time.monotonic() > ends:
                return False
            began = time.monotonic()
            name, store, scenario = cell
            try:
                outcome = measure(SCENARIOS[scenario], PEERS[name], store, stores, options.scale)
            except RunFailed as error:
                outcome = {"error": str(error)}
            results.note(cell, outcome)
            if file is not None:
                results.write(file)
            took = time.monotonic() - began
            print(f"{number}/{len(todo)} {store} {scenario} {name} [{took:.0f} s]: {outcome}", flush=True)
    finally:
        stores.close()
    return True


def _publish(results: Results, file: Path) -> None:
    """Write the tables and the drawing, the README's figures and the page of the documentation."""
    drawing = svg(results)
    file.with_suffix(".md").write_text(f"# Benchmarks\n\n![bars]({file.stem}.svg)\n\n{page(results)}")
    file.with_suffix(".svg").write_text(drawing)
    (ROOT / "docs" / "images" / "benchmarks.svg").write_text(drawing)
    publish_readme(results)
    subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py")], check=True)
    print(f"Written: {file.relative_to(ROOT)}, .md, .svg, README.md, docs/reference/benchmarks.md")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help=f"of {', '.join(SCENARIOS)}")
    parser.add_argument("--repeat", type=int, default=2, help="runs of a rate, of which the median counts (2)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of jobs (1)")
    parser.add_argument("--minutes", type=float, default=18.0, help="start nothing new after so many (18)")
    parser.add_argument(
        "--publish", action="store_true", help="write benchmarks/results/DATE.*; goes on with what is there"
    )
    parser.add_argument("--install", action="store_true", help="make the virtual environments and end")
    return parser.parse_args()


if __name__ == "__main__":
    main()

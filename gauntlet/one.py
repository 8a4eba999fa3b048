"""One run in a process of its own: `python -m gauntlet.one SCENARIO STORE SEED`. Prints a report as its last line."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [path for path in (str(ROOT), str(ROOT / "src")) if path not in sys.path]

from gauntlet.homes import HOMES  # noqa: E402 - after the path is set
from gauntlet.scenarios import SCENARIOS  # noqa: E402
from gauntlet.stage import Stage, Vacuous  # noqa: E402
from tests.support.servers import ServerUnavailable  # noqa: E402


def main() -> None:
    """Run, report, and end with 0 when the run passed."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="gauntlet-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        report = perform(options, Path(folder))
    print(json.dumps(report), flush=True)
    # Threads that hang at a dead server must not keep the process.
    sys.stdout.flush()
    os._exit(0 if report["verdict"] == "passed" else 1)


def perform(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Run one scenario; returns its report."""
    scenario = SCENARIOS[options.scenario]
    home = HOMES[options.store](folder, options.template)
    stage = Stage(home, folder, options.seed, short=options.short, seconds=options.seconds, settings=scenario.settings)
    began = time.monotonic()
    try:
        verdict, problems = _verdict(stage, scenario)
        if verdict != "passed" and options.keep:
            stage.save(options.keep)
    finally:
        stage.tear_down()
    return {
        "verdict": verdict,
        "problems": problems,
        "facts": stage.facts,
        "seconds": round(time.monotonic() - began, 1),
    }


def _verdict(stage: Stage, scenario) -> tuple[str, list[str]]:
    try:
        stage.set_up()
        scenario.play(stage)
        stage.finish()
    except Vacuous as reason:
        return "vacuous", [str(reason)]
    except ServerUnavailable as reason:
        return "unavailable", [str(reason)]
    except Exception:
        return "failed", [*stage.problems, traceback.format_exc()]
    return ("failed", stage.problems) if stage.problems else ("passed", [])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("store", choices=HOMES)
    parser.add_argument("seed", type=int)
    parser.add_argument("--short", action="store_true", help="fewer jobs")
    parser.add_argument("--seconds", type=float, help="how long a scenario that has a length lasts")
    parser.add_argument("--template", type=Path, help="what `Home.make_template` prepared")
    parser.add_argument("--keep", type=Path, help="where logs and ledger go when the run does not pass")
    return parser.parse_args()


if __name__ == "__main__":
    main()

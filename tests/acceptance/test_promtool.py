"""Prometheus' own tool takes the shipped rules, fires them when it should, and takes what a worker exports."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.support.processes import ROOT, ManagedProcess
from tests.support.servers import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.acceptance

SHIPPED = ROOT / "docs" / "monitoring" / "alerts.yaml"
SERIES = Path(__file__).with_name("alerts.yaml")


@pytest.fixture
def promtool():
    """Run promtool; returns what it printed. It is no part of what `.ci/run` installs."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not on PATH: it comes with Prometheus (apt-get install prometheus, or promtool)")

    def run(*arguments, given=None):
        done = subprocess.run(
            [program, *map(str, arguments)], input=given, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_the_rules_are_taken(promtool):
    rules = SHIPPED.read_text().count("- alert:")
    assert f"{rules} rules found" in promtool("check", "rules", SHIPPED)


def test_each_alert_fires_for_its_fault_and_for_nothing_else(promtool):
    assert "SUCCESS" in promtool("test", "rules", SERIES)


def test_every_shipped_alert_is_seen_to_fire():
    fired = SERIES.read_text()
    names = [line.split()[-1] for line in SHIPPED.read_text().splitlines() if "- alert:" in line]
    assert [name for name in names if f'alertname="{name}"' not in fired] == []


def test_what_a_worker_exports_is_taken_without_a_complaint(promtool, tmp_path, migrated_file):
    shutil.copy(migrated_file, tmp_path / "db.sqlite3")
    port = free_port()
    env = {"VTASKS_TEST_DB_URL": f"sqlite://{tmp_path / 'db.sqlite3'}"}
    with ManagedProcess("runworker", "--health-port", str(port), "--scheduler", env=env) as worker:
        worker.wait_for_log("starts")

        def scraped():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return answer.read().decode()

        eventually(lambda: 'vtasks_slots{state="free"}' in scraped())
        told = promtool("check", "metrics", given=scraped())
        assert worker.terminate() == 0
    assert told == ""

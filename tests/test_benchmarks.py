"""The benchmarks' bookkeeping: what counts, what is shown, what an interrupted run goes on with."""

from __future__ import annotations

import argparse
import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from benchmarks import __main__ as command
from benchmarks import report, results, scenarios
from benchmarks.peers import PEERS, REFERENCE
from benchmarks.plot import svg
from benchmarks.results import Results, planned
from benchmarks.running import RunFailed
from tests.support.processes import ROOT

OURS, THEIRS = (REFERENCE, "valkey", "async"), ("dramatiq", "valkey", "async")


@pytest.fixture
def measured():
    """A small run."""
    made = Results.begun(scale=1.0)
    for peer, rate in ((REFERENCE, 4000.0), ("dramatiq", 1000.0), ("vtasks-3.2", 2000.0)):
        made.versions[peer] = "1.0"
        for factor in (0.9, 1.0, 1.2):
            figures = {"rate": rate * factor, "peak_mib": 50.0, "cpu_us": 250.0, "other_cores": 0.0}
            made.note((peer, "valkey", "async"), figures)
    made.note((REFERENCE, "valkey", "latency"), {"p50_ms": 1.25, "p95_ms": 2.0, "other_cores": 0.0})
    return made


def test_the_median_counts_and_ratios_are_to_this_project(measured):
    assert measured.median(OURS, "rate") == 4000.0
    assert measured.ratio(THEIRS, "rate") == 0.25


def test_a_disturbed_run_counts_only_where_no_quiet_one_is(measured):
    measured.note(OURS, {"rate": 10.0, "other_cores": 1.5})
    assert measured.median(OURS, "rate") == 4000.0
    assert not measured.disturbed(OURS)
    only = Results(runs=[{"peer": "rq", "store": "valkey", "scenario": "sync", "rate": 10.0, "other_cores": 1.5}])
    assert only.median(("rq", "valkey", "sync"), "rate") == 10.0
    assert only.disturbed(("rq", "valkey", "sync"))


def test_a_failure_is_shown_with_its_reason(measured):
    cell = ("huey", "valkey", "sync")
    measured.note(cell, {"error": "3 of 50 jobs did not run in 60 s"})
    page = report.page(measured)
    assert "| huey |  | - | failed |" in page
    assert "- huey on Valkey, sync: 3 of 50 jobs did not run in 60 s" in page


def test_the_page_has_absolute_figures_with_ratios_beside_them(measured):
    page = report.page(measured)
    assert "| 4,000 |" in page
    assert "| 1,000 (0.25x) |" in page
    assert str(measured.about["cores"]) in page.splitlines()[0]


def test_the_readme_compares_with_the_line_before(measured):
    assert "| Valkey |  | 4,000 (2.0x) |  | 1.25 |" in report.readme_block(measured)


def test_the_drawing_is_svg_with_a_bar_for_each_peer(measured):
    root = ET.fromstring(svg(measured))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"django-vtasks", "dramatiq", "vtasks-3.2", "4,000"} <= set(texts)
    lengths = [float(bar.get("width")) for bar in root.iter("{http://www.w3.org/2000/svg}rect") if bar.get("x")]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == pytest.approx(4 * lengths[-1], rel=0.01)


def test_what_was_written_down_is_read_again(measured, tmp_path):
    measured.write(tmp_path / "2026-01-01.json")
    again = Results.read(tmp_path / "2026-01-01.json")
    assert (again.about, again.versions, again.runs) == (measured.about, measured.versions, measured.runs)


def test_an_interrupted_run_goes_on_where_it_was(measured):
    names, wanted = [REFERENCE, "dramatiq"], ["async", "latency"]
    plan = command._plan(Results(), names, wanted, repeat=2)
    assert sorted(plan) == sorted([*planned(names, wanted), *planned(names, ["async"])])
    left = command._plan(measured, names, wanted, repeat=2)
    assert set(left) == {cell for cell in plan if cell[1] != "valkey"} | {("dramatiq", "valkey", "latency")}


def test_what_failed_is_tried_again_by_the_next_run():
    cell = ("huey", "valkey", "latency")
    made = Results()
    made.note(cell, {"error": "1 of 50 jobs did not run in 60 s"})
    assert command._plan(made, ["huey"], ["latency"], repeat=2) == [cell]


def test_peers_on_a_store_are_measured_one_after_the_other():
    cells = planned(list(PEERS), list(scenarios.SCENARIOS))
    groups = [cell[1:] for cell in cells]
    assert len(set(groups)) == sum(group != groups[place - 1] for place, group in enumerate(groups))


@pytest.fixture
def measuring(monkeypatch):
    """What is measured, without servers and without time."""
    moments = iter(range(0, 10_000, 60))

    class NoStores:
        def close(self):
            pass

    monkeypatch.setattr(command, "Stores", NoStores)
    monkeypatch.setattr(command.time, "monotonic", lambda: next(moments))
    asked = []

    def measure(scenario, peer, store, stores, scale):
        asked.append(peer.name)
        if peer.name == "rq":
            raise RunFailed("the worker ended early")
        return {"rate": 1.0, "other_cores": 0.0}

    monkeypatch.setattr(command, "measure", measure)
    return asked


def test_nothing_new_is_started_when_the_time_is_up(measuring, capsys):
    todo = [("huey", "valkey", "sync")] * 9
    made = Results()
    options = argparse.Namespace(minutes=5.0, scale=1.0)
    assert not command._measure(made, todo, options, None)
    assert 0 < len(made.runs) < 9


def test_a_peer_that_fails_ends_nothing(measuring, tmp_path, capsys):
    made = Results()
    todo = [("rq", "valkey", "sync"), ("huey", "valkey", "sync")]
    file = tmp_path / "x.json"
    assert command._measure(made, todo, argparse.Namespace(minutes=60.0, scale=1.0), file)
    assert [run.get("error") for run in json.loads(file.read_text())["runs"]] == ["the worker ended early", None]


@pytest.mark.parametrize("peer", PEERS.values(), ids=list(PEERS))
def test_a_peer_has_a_module_with_what_its_scenarios_ask_for(peer):
    text = (ROOT / "benchmarks" / "apps" / f"{peer.module}.py").read_text()
    kinds = {
        scenario.name: peer.kind(scenario.name) for scenario in scenarios.SCENARIOS.values() if scenario.suits(peer)
    }
    wanted = {f"noop_{kind}" for kind in kinds.values()}
    wanted |= {f"sleep_{kinds['waiting']}", f"lat_{kinds['latency']}", "setup"}
    assert [name for name in wanted if f"def {name}(" not in text] == []
    assert ("async def aenqueue(" in text) != ("\ndef enqueue(" in text)


def test_a_slow_peer_gets_fewer_jobs():
    peer = replace(PEERS["rq"], jobs=300)
    assert peer.count("valkey", 1.0) == 300
    assert peer.count("valkey", 0.001) == 50


def test_the_readme_says_what_was_published_last_and_nothing_else():
    text = (ROOT / "README.md").read_text()
    block = report.BEGIN + text.partition(report.BEGIN)[2].partition(report.END)[0] + report.END
    published = results.Results.newest()
    expected = f"{report.BEGIN}\n{report.END}" if published is None else report.readme_block(published)
    assert block == expected


def test_published_results_have_their_tables_and_their_drawing():
    for file in results.FOLDER.glob("*.json"):
        assert file.with_suffix(".md").exists()
        assert ET.parse(file.with_suffix(".svg"))
        assert set(Results.read(file).about) >= {"date", "processor", "cores", "memory_gib", "python"}

"""The files that are shipped for Prometheus and Grafana ask for nothing but what is exported."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from django_vtasks import metrics

SHIPPED = Path(__file__).resolve().parents[2] / "docs" / "monitoring"

COLLECTED = {
    "vtasks_jobs": {"alias", "queue", "state"},
    "vtasks_oldest_ready_seconds": {"alias", "queue"},
    "vtasks_queue_paused": {"alias", "queue"},
    "vtasks_store_up": {"alias"},
}
FUNCTIONS = {
    *("sum", "max", "min", "rate", "increase", "last_over_time", "time", "topk", "histogram_quantile"),
    *("by", "on", "unless"),
}
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


def known():
    """Every name that a scrape can have, with its labels."""
    found = dict(COLLECTED)
    for family in metrics._prometheus.REGISTRY.collect():
        if family.name.startswith("vtasks_"):
            labels = {*metrics._prometheus.REGISTRY._names_to_collectors[family.name]._labelnames}
            if family.type == "histogram":
                found |= {f"{family.name}_bucket": labels | {"le"}}
                found |= {f"{family.name}_{end}": labels for end in ("sum", "count")}
            else:
                found[f"{family.name}_total" if family.type == "counter" else family.name] = labels
    return found


def used(expression):
    """The metrics of an expression with the labels that it asks of each, and the labels that it groups by."""
    bare = STRINGS.sub('""', expression)
    selectors = re.findall(r"([a-zA-Z_:]\w*)(?:\{([^}]*)\})?", bare)
    groups = {
        label.strip() for part in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", bare) for label in part.split(",") if label
    }
    found = {}
    for name, matchers in selectors:
        if name.startswith("vtasks_"):
            found.setdefault(name, set()).update(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
    words = {name for name, _ in selectors} - {*found} - groups - {"rate_interval", "__rate_interval", "m", "h", "d"}
    words -= {label for labels in found.values() for label in labels}
    return found, groups - {""}, words


def check(expression):
    found, groups, words = used(expression)
    assert found, expression
    names = known()
    for name, labels in found.items():
        assert name in names, f"{name} is not exported: {expression}"
        assert labels <= names[name], f"{name} has no label {labels - names[name]}: {expression}"
    assert groups <= set().union(*(names[name] for name in found)), expression
    assert words <= FUNCTIONS, f"not understood: {words - FUNCTIONS} in {expression}"
    assert expression.count("(") == expression.count(")"), expression
    assert expression.count("{") == expression.count("}"), expression


RULES = yaml.safe_load((SHIPPED / "alerts.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((SHIPPED / "grafana.json").read_text())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_is_exported(rule):
    check(rule["expr"])
    assert {*rule} <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
    assert rule["labels"]["severity"] in ("page", "warning")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["action"]


def test_the_rules_of_a_text_name_labels_that_their_expression_leaves():
    for rule in RULES:
        _, groups, _ = used(rule["expr"])
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            assert label in groups, f"{rule['alert']} has no label {label}"


PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_is_exported(panel):
    assert panel["targets"]
    for target in panel["targets"]:
        check(target["expr"])
        asked = used(target["expr"])[1]
        assert {*re.findall(r"{{(\w+)}}", target["legendFormat"])} <= asked, target


def test_panels_do_not_lie_on_each_other():
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_exported_metric_is_on_the_dashboard_or_needs_none():
    asked = {name for panel in PANELS for target in panel["targets"] for name in used(target["expr"])[0]}
    missing = {re.sub(r"_(bucket|sum|count)$", "", name) for name in known()} - {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in asked
    }
    # The depth that a worker tells is the collector's; paused and last fired are for alerts; blocks are in seconds.
    assert missing == {
        *("vtasks_queue_depth", "vtasks_queue_paused"),
        *("vtasks_scheduler_last_fired_timestamp_seconds", "vtasks_loop_blocked_total"),
    }

"""Every exported series moves under the fault or the work that it is for; the shipped files ask for no other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from django_vtasks import metrics
from django_vtasks.events import Emitter, events
from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import Job
from django_vtasks.jobs.outcomes import Raised
from django_vtasks.jobs.transitions import Policy, Settlement, decide
from django_vtasks.scheduling.schedules import Every
from django_vtasks.stores.base import ClaimRequest, Retention, Want
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker import Worker
from django_vtasks.worker.cleaner import Cleaner
from django_vtasks.worker.gauges import Gauges
from django_vtasks.worker.loopwatch import LoopWatch
from django_vtasks.worker.service import Pace
from django_vtasks.worker.slots import Slots
from tests.django.conftest import MEMORY, entry
from tests.support import traced_tasks as tasks
from tests.support.builders import a_failure
from tests.support.flaky import FlakyStore
from tests.support.operators import AwayBackend
from tests.support.waiting import aeventually, eventually
from tests.worker import executing
from tests.worker.support import Bench, FakeExecutor
from tests.worker.test_scheduler import World

SHIPPED = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
QUEUES = {"default": {}, "batch": {"batch": {"count": 10, "timeout": 0.05}}}


def listen(emitter):
    """Count the events of an emitter; returns what ends that."""
    ends = [emitter.subscribe(kind, handler) for kind, handler in metrics.Recorder().subscriptions().items()]
    return lambda: [end() for end in ends]


def recorded(bench):
    listen(bench.emitter)
    return bench


def scrape():
    """Every sample of ours, as the exposition has it: (name, labels) -> value."""
    families = text_string_to_metric_families(metrics.exposition()[0].decode())
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("vtasks_") and not sample.name.endswith("_created")
    }


def moved(before, after):
    """Name and labels of every sample that changed."""
    return {key for key, value in after.items() if value != before.get(key, 0.0)}


# -- work and faults --------------------------------------------------------------------------------------------------


async def jobs_that_succeed_fail_and_are_refused(settings):
    settings.TASKS = entry(MEMORY, QUEUES=[])
    settings.VTASKS_QUEUES = QUEUES
    end = listen(events)
    try:
        await tasks.awork.aenqueue()
        await tasks.fail.aenqueue()
        await tasks.batch.using(queue_name="batch").aenqueue({})
        for _ in range(2):
            await tasks.work.using(unique=True).aenqueue("once")
        await Worker(task_backends["default"]).run(handle_signals=False, run_once=True)
    finally:
        end()


async def a_job_that_runs(_):
    done = threading.Event()
    async with executing.bench(emitter=(emitter := Emitter())) as on:
        recorder = metrics.Recorder()
        claim = on.claim(lambda: done.wait(20))
        recorder.started(type("Started", (), {"claim": claim})())
        before = scrape()
        emitter.subscribe(metrics.happened.AttemptEnded, recorder.ended)
        done.set()
        on.start(claim)
        await on.end_of(claim)
    return before


async def functions_that_ignore_their_timeout(_):
    released = threading.Event()
    async with executing.bench(emitter=(emitter := Emitter())) as on:
        listen(emitter)

        def stubborn():
            released.wait(20)

        def late(context):
            eventually(lambda: context.cancelled)

        await on.run(on.task(late, takes_context=True, timeout=0.01))
        await on.run(on.task(stubborn, timeout=0.01))
        released.set()


async def a_worker_that_died(_):
    bench = recorded(Bench(executor=FakeExecutor(instant=True)))
    jobs = [*bench.add(max_rescues=1), *bench.add()]
    bench.store.extend("dead:1", 15)
    await bench.store.exchange((), ClaimRequest(owner="dead:1", wants=(Want(queue="default", slots=2),), limit=2))
    bench.store.release("dead:1")
    async with bench.run():
        await aeventually(lambda: {bench.state(job) for job in jobs} == {"succeeded", "dead"})


async def a_lease_that_somebody_else_took(_):
    bench = recorded(Bench())
    bench.add()
    async with bench.run():
        await bench.until_running(1)
        [attempt] = bench.executor.running
        bench.store._state.leased.pop(attempt.claim.lease.token)
        attempt.end()
        await aeventually(lambda: bench.runtime.settler.refused == 1)


async def a_worker_that_was_frozen(_):
    bench = recorded(Bench(heartbeat_interval=0.02))
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        bench.store.release(bench.runtime.owner)
        await aeventually(lambda: bench.runtime.keeper.losses == 1)


async def a_store_that_is_away(_):
    flaky = FlakyStore(MemoryStore())
    bench = recorded(Bench(flaky))
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        flaky.down = True
        await aeventually(lambda: any(("service", "promoter") in labels for _, labels in scrape()))
        flaky.down = False


async def more_dead_letters_than_are_kept(_):
    store = MemoryStore()
    listen(emitter := Emitter())
    store.add([Job(id=str(number), func="app.f") for number in range(3)])
    store.extend("w", 60)
    request = ClaimRequest(owner="w", wants=(Want(queue="default", slots=3),), limit=3)
    claims = (await store.exchange((), request)).claims
    outcome = Raised(failure=a_failure())
    await store.exchange([Settlement(claim=c, decision=decide(c, outcome, Policy(), 1.0)) for c in claims], None)
    await Cleaner(store, Retention(dead_letter_cap=1), emitter, Pace("cleaner", emitter)).tick()


async def a_schedule_that_was_not_looked_after(_):
    world = World()
    listen(world.emitter)
    world.add(Every(10), catch_up=1)
    scheduler = world.scheduler()
    await world.run(scheduler, seconds=1)
    world.passes(100.0)
    await world.run(scheduler, seconds=1)


async def code_without_await(_):
    listen(emitter := Emitter())
    heard = []
    emitter.subscribe(metrics.happened.LoopBlocked, heard.append)
    watch = LoopWatch(0.05, emitter)
    watch.start()
    try:
        ends = time.monotonic() + 0.4
        while time.monotonic() < ends:
            sum(range(100))
        await aeventually(lambda: heard)
    finally:
        watch.stop()


async def what_a_worker_has_and_sees(settings):
    store = MemoryStore()
    store.add([Job(id=str(number), func="app.f", queue="q") for number in range(3)])
    slots = Slots(4, {})
    slots.take("q")
    await Gauges(store.counts, ["q"], slots, lambda: 2, Pace("gauges", Emitter())).tick()


MOVES = {
    jobs_that_succeed_fail_and_are_refused: {
        'vtasks_tasks_submitted_total{queue="default",task_name="awork"}',
        'vtasks_tasks_processed_total{queue="default",status="success",task_name="tests.support.traced_tasks.awork"}',
        'vtasks_tasks_processed_total{queue="default",status="failure",task_name="tests.support.traced_tasks.fail"}',
        'vtasks_task_duration_seconds_count{queue="default",task_name="tests.support.traced_tasks.awork"}',
        'vtasks_wait_seconds_count{queue="default",task_name="tests.support.traced_tasks.awork"}',
        'vtasks_attempts_total{outcome="raised",queue="default",task_name="tests.support.traced_tasks.fail"}',
        'vtasks_attempts_total{outcome="succeeded",queue="default",task_name="tests.support.traced_tasks.awork"}',
        'vtasks_retries_total{queue="default",task_name="tests.support.traced_tasks.fail"}',
        'vtasks_duplicates_total{queue="default",task_name="tests.support.traced_tasks.work"}',
        'vtasks_dead_letters_total{queue="default",reason="failed"}',
        'vtasks_batch_size_count{queue="batch"}',
    },
    a_job_that_runs: {'vtasks_active_tasks{queue="default"}'},
    functions_that_ignore_their_timeout: {
        "vtasks_abandoned_threads{}",
        'vtasks_late_successes_total{queue="default",task_name="bench.late_0"}',
    },
    a_worker_that_died: {
        'vtasks_rescues_total{queue="default",result="requeued"}',
        'vtasks_rescues_total{queue="default",result="buried"}',
        'vtasks_dead_letters_total{queue="default",reason="rescued_too_often"}',
    },
    a_lease_that_somebody_else_took: {'vtasks_settle_refused_total{queue="default"}'},
    a_worker_that_was_frozen: {"vtasks_leases_lost_total{}"},
    a_store_that_is_away: {'vtasks_store_errors_total{service="promoter"}'},
    more_dead_letters_than_are_kept: {"vtasks_dead_letter_evictions_total{}"},
    a_schedule_that_was_not_looked_after: {
        'vtasks_scheduler_lag_seconds{entry="entry"}',
        'vtasks_scheduler_last_fired_timestamp_seconds{entry="entry"}',
        'vtasks_scheduler_missed_slots_total{entry="entry"}',
    },
    code_without_await: {"vtasks_loop_blocked_total{}", "vtasks_loop_blocked_seconds_total{}"},
    what_a_worker_has_and_sees: {
        'vtasks_slots{state="busy"}',
        'vtasks_slots{state="free"}',
        'vtasks_queue_depth{queue="q"}',
        "vtasks_abandoned_threads{}",
    },
}


def text(key):
    name, labels = key
    return (
        f"{name}{{{','.join(f'{label}={value}' for label, value in sorted((k, json.dumps(v)) for k, v in labels))}}}"
    )


@pytest.fixture
def still():
    """Gauges of other tests are put back, so that a value that is set is seen to change."""
    metrics.abandoned_threads.set(0)
    metrics.slots.clear()
    metrics.queue_depth.clear()
    metrics.scheduler_lag_seconds.clear()
    metrics.scheduler_last_fired.clear()


@pytest.mark.parametrize("scenario", MOVES, ids=lambda scenario: scenario.__name__)
async def test_a_series_moves_under_what_it_is_for(scenario, settings, still):
    before = scrape()
    before = await scenario(settings) or before
    changed = {text(key) for key in moved(before, scrape())}
    assert changed >= MOVES[scenario]


def collected(store):
    """What QueueCollector gives of a store."""
    families = metrics.QueueCollector({"default": store}).collect()
    return {
        text((sample.name, frozenset(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_collector_tells_of_every_state_of_a_paused_queue():
    store = MemoryStore(lambda: time.time() - 100)
    store.add([Job(id=f"ready-{number}", func="f") for number in range(2)])
    store.pause("default")
    found = collected(store)
    where = 'alias="default",queue="default"'
    assert found[f'vtasks_jobs{{{where},state="ready"}}'] == 2
    assert {f'vtasks_jobs{{{where},state="{state}"}}' for state in ("scheduled", "leased", "dead")} <= {*found}
    assert found[f"vtasks_oldest_ready_seconds{{{where}}}"] >= 100
    assert found[f"vtasks_queue_paused{{{where}}}"] == 1
    assert found['vtasks_store_up{alias="default"}'] == 1


def test_the_collector_tells_that_a_store_is_away(settings):
    settings.TASKS = entry(f"{AwayBackend.__module__}.{AwayBackend.__qualname__}")
    assert collected(task_backends["default"].admin_store) == {'vtasks_store_up{alias="default"}': 0}


def test_no_series_is_left_out():
    exported = {
        family.name
        for family in text_string_to_metric_families(metrics.exposition()[0].decode())
        if family.name.startswith("vtasks_") and not family.name.endswith("_created")
    }
    shown = {re.sub(r"(_count)?\{.*", "", one) for series in MOVES.values() for one in series}
    assert {name.removesuffix("_total") for name in shown} == {name.removesuffix("_total") for name in exported}


def test_counters_of_faults_begin_at_zero():
    metrics.begin(["quiet"])
    quiet = {text(key): value for key, value in scrape().items() if ("queue", "quiet") in key[1]}
    assert quiet['vtasks_rescues_total{queue="quiet",result="buried"}'] == 0
    assert quiet['vtasks_settle_refused_total{queue="quiet"}'] == 0
    assert quiet['vtasks_dead_letters_total{queue="quiet",reason="timed_out"}'] == 0


# -- the shipped files ------------------------------------------------------------------------------------------------

COLLECTED = {
    "vtasks_jobs": {"alias", "queue", "state"},
    "vtasks_oldest_ready_seconds": {"alias", "queue"},
    "vtasks_queue_paused": {"alias", "queue"},
    "vtasks_store_up": {"alias"},
}
FUNCTIONS = {"sum", "max", "min", "rate", "increase", "time", "topk", "histogram_quantile", "by", "on", "unless"}
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
    words = {name for name, _ in selectors} - {*found} - groups - {"rate_interval", "__rate_interval", "m", "h"}
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


def test_promtool_takes_the_rules():
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    subprocess.run([promtool, "check", "rules", str(SHIPPED / "alerts.yaml")], check=True)


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

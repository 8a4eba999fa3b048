"""Every exported series moves under the fault or the work that it is for; the shipped files ask for no other."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import valkey
from django.db import connections
from prometheus_client.parser import text_string_to_metric_families

from django_vtasks import metrics
from django_vtasks.events import Emitter, events
from django_vtasks.exceptions import Discard, Retry, Snooze
from django_vtasks.framework import task_backends
from django_vtasks.jobs.model import Claim, DeadReason, Job, Lease, OutcomeKind
from django_vtasks.jobs.outcomes import Raised
from django_vtasks.jobs.transitions import Policy, Settlement, decide
from django_vtasks.scheduling.schedules import Every
from django_vtasks.stores.base import ClaimRequest, Connections, Retention, Want
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker import Worker, gauges
from django_vtasks.worker.cleaner import Cleaner
from django_vtasks.worker.gauges import Gauges
from django_vtasks.worker.loopwatch import LoopWatch
from django_vtasks.worker.service import Pace
from tests.django.conftest import MEMORY, VALKEY, entry
from tests.support import traced_tasks as tasks
from tests.support.builders import a_failure
from tests.support.flaky import FlakyStore
from tests.support.operators import AwayBackend, Scene
from tests.support.servers import ValkeyServer, free_port
from tests.support.waiting import aeventually, eventually
from tests.worker import executing
from tests.worker.support import Bench, FakeExecutor
from tests.worker.test_scheduler import World

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


def moves(before, after):
    """Every sample that changed."""
    return {text(key) for key, value in after.items() if value != before.get(key, 0.0)}


def text(key):
    name, labels = key
    return (
        f"{name}{{{','.join(f'{label}={value}' for label, value in sorted((k, json.dumps(v)) for k, v in labels))}}}"
    )


# -- work and faults --------------------------------------------------------------------------------------------------


async def jobs_that_succeed_fail_and_are_refused(request):
    settings = request.getfixturevalue("settings")
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
    return before, scrape()


async def functions_that_do_not_stop_when_told_to(_):
    begun, released = threading.Event(), threading.Event()

    def stubborn():
        released.wait(20)

    def late(context):
        begun.set()
        eventually(lambda: context.cancelled)

    async with executing.bench(emitter=(emitter := Emitter()), grace=60) as on:
        listen(emitter)
        attempt = on.start(claim := on.claim(on.task(late, takes_context=True)))
        await aeventually(begun.is_set)
        attempt.cancel()
        await on.end_of(claim)
    async with executing.bench(emitter=(emitter := Emitter())) as on:
        listen(emitter)
        await on.run(on.task(stubborn, timeout=0.5))
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


async def what_a_worker_has_and_sees(_):
    store = MemoryStore()
    store.add([Job(id=str(number), func="app.f", queue="q") for number in range(3)])
    watched = SimpleNamespace(slots=(1, 3), abandoned_threads=2, connections={})
    await Gauges(store.counts, ["q"], watched, Pace("gauges", Emitter())).tick()


async def every_way_an_attempt_ends(_):
    async def asks(how):
        raise {"retry": Retry(0), "snooze": Snooze(60), "discard": Discard("enough")}[how]

    begun = []

    async def forever():
        begun.append(1)
        await asyncio.Event().wait()

    async with executing.bench(emitter=(emitter := Emitter()), max_attempts=2) as on:
        listen(emitter)
        asking = on.task(asks)
        for how in ("retry", "snooze", "discard"):
            await on.run(asking, how)
        await on.run(on.task(forever, timeout=0.01))
        await on.run("bench.is_not_here")
        await on.run(asking, "retry", expires_at=1.0)
        staying = on.task(forever)
        for told in ("cancel", "interrupt"):
            begun.clear()
            attempt = on.start(claim := on.claim(staying))
            await aeventually(lambda: begun)
            getattr(attempt, told)()
            await on.end_of(claim)


async def jobs_that_cannot_succeed(request):
    settings = request.getfixturevalue("settings")
    settings.TASKS = entry(MEMORY, QUEUES=[])
    end, store = listen(events), task_backends["default"].client_store
    try:
        await tasks.hang.aenqueue()
        await tasks.cancel_itself.aenqueue()
        store.add([Job(id="gone", func="app.tasks.gone"), Job(id="late", func=tasks.work.module_path, expires_at=1.0)])
        store.inject("default", b"\xff no job")
        await Worker(task_backends["default"]).run(handle_signals=False, run_once=True)
    finally:
        end()


@asynccontextmanager
async def a_worker_on_a_server(request, server):
    """A worker that is connected in every way, and serves metrics."""
    settings, monkeypatch = request.getfixturevalue("settings"), request.getfixturevalue("monkeypatch")
    monkeypatch.setattr(gauges, "INTERVAL", 0.05)
    settings.TASKS = entry(VALKEY, QUEUES=[], OPTIONS={"BROKER_URL": server.url})
    settings.VTASKS_METRICS_PORT = free_port()
    settings.VTASKS_HEARTBEAT_INTERVAL = 0.2
    worker = Worker(task_backends["default"])
    running = asyncio.create_task(worker.run(handle_signals=False))
    try:
        await aeventually(lambda: open_connections() == {"store": 1, "lease": 1, "wait": 1, "functions": 0})
        yield
    finally:
        await worker.stop()
        await running


def open_connections():
    return {dict(labels)["use"]: value for (name, labels), value in scrape().items() if name == "vtasks_connections"}


async def connections_that_the_server_cuts(request):
    server = request.getfixturevalue("clean_valkey")
    async with a_worker_on_a_server(request, server):
        before = scrape()
        with valkey.Valkey.from_url(server.url) as raw:
            raw.client_kill_filter(_type="normal", skipme=True)
        await aeventually(lambda: MOVES[connections_that_the_server_cuts] <= moves(before, scrape()))
        return before, scrape()


async def a_server_that_is_down(request):
    server = request.getfixturevalue("start_server")(ValkeyServer())
    async with a_worker_on_a_server(request, server):
        before = scrape()
        server.stop()
        await aeventually(lambda: not any(open_connections().values()))
        after = scrape()
        server.start()
        return before, after


async def functions_that_use_a_database(request):
    alias = request.getfixturevalue("sqlite_alias")
    with request.getfixturevalue("django_db_blocker").unblock():
        async with executing.bench() as on:
            done = threading.Event()
            on.start(claim := on.claim(lambda: (connections[alias].ensure_connection(), done.wait(20))))
            await aeventually(lambda: on.executor.connected_slots == (1, 1))
            watched = SimpleNamespace(slots=(0, 4), abandoned_threads=0)
            watched.connections = {"functions": Connections(open=1, opened=1)}
            await Gauges(list, [], watched, Pace("gauges", Emitter())).tick()
            done.set()
            await on.end_of(claim)


def attempts(task, *outcomes):
    return [f'vtasks_attempts_total{{outcome="{one}",queue="default",task_name="{task}"}}' for one in outcomes]


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
    functions_that_do_not_stop_when_told_to: {
        "vtasks_abandoned_threads{}",
        'vtasks_late_successes_total{queue="default",task_name="bench.late_0"}',
    },
    a_worker_that_died: {
        'vtasks_rescues_total{queue="default",result="requeued"}',
        'vtasks_rescues_total{queue="default",result="buried"}',
        'vtasks_attempts_total{outcome="lease_expired",queue="default",task_name="app.tasks.f"}',
        'vtasks_tasks_processed_total{queue="default",status="failure",task_name="app.tasks.f"}',
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
    every_way_an_attempt_ends: {
        *attempts("bench.asks_0", "retried", "snoozed", "discarded", "expired"),
        *attempts("bench.forever_1", "timed_out"),
        *attempts("bench.is_not_here", "unrunnable"),
        *attempts("bench.forever_2", "cancelled", "interrupted"),
    },
    jobs_that_cannot_succeed: {
        f'vtasks_dead_letters_total{{queue="default",reason="{reason}"}}'
        for reason in ("timed_out", "cancelled", "unknown_task", "expired", "undecodable")
    },
    connections_that_the_server_cuts: {
        f'vtasks_connections_opened_total{{use="{use}"}}' for use in ("store", "lease", "wait")
    },
    a_server_that_is_down: {f'vtasks_connections{{use="{use}"}}' for use in ("store", "lease", "wait")},
    functions_that_use_a_database: {
        'vtasks_connections{use="functions"}',
        'vtasks_connections_opened_total{use="functions"}',
    },
    code_without_await: {"vtasks_loop_blocked_total{}", "vtasks_loop_blocked_seconds_total{}"},
    what_a_worker_has_and_sees: {
        'vtasks_slots{state="busy"}',
        'vtasks_slots{state="free"}',
        'vtasks_queue_depth{queue="q"}',
        "vtasks_abandoned_threads{}",
    },
}


@pytest.fixture
def still(request):
    """Gauges of other tests are put back, so that a value that is set is seen to change."""
    if request.getfixturevalue("scenario") is functions_that_use_a_database:
        request.getfixturevalue("sqlite_alias")  # Migrates, which an event loop does not allow.
    metrics.abandoned_threads.set(0)
    metrics.slots.clear()
    metrics.connections.clear()
    metrics.queue_depth.clear()
    metrics.scheduler_lag_seconds.clear()
    metrics.scheduler_last_fired.clear()


@pytest.mark.parametrize("scenario", MOVES, ids=lambda scenario: scenario.__name__)
async def test_a_series_moves_under_what_it_is_for(scenario, request, still):
    before = scrape()
    before, after = await scenario(request) or (before, scrape())
    assert moves(before, after) >= MOVES[scenario]


def collected(store):
    """What QueueCollector gives of a store."""
    families = metrics.QueueCollector({"default": store}).collect()
    return {
        text((sample.name, frozenset(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_collector_follows_every_state_of_a_queue():
    store = MemoryStore(lambda: time.time() - 100)
    scene, where = Scene(store), 'alias="default",queue="default"'
    scene.ready(4, func="f"), scene.delayed(3), scene.running(2), scene.dead(1)
    store.pause("default")
    found = collected(store)
    states = {
        state: found[f'vtasks_jobs{{{where},state="{state}"}}'] for state in ("ready", "scheduled", "leased", "dead")
    }
    assert states == {"ready": 4, "scheduled": 3, "leased": 2, "dead": 1}
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


@pytest.mark.parametrize(
    ("name", "label", "values"),
    [("vtasks_attempts_total", "outcome", OutcomeKind), ("vtasks_dead_letters_total", "reason", DeadReason)],
)
def test_no_way_to_end_is_left_out(name, label, values):
    shown = {one for series in MOVES.values() for one in series if one.startswith(name)}
    assert {re.search(rf'{label}="(\w+)"', one).group(1) for one in shown} == {value.value for value in values}


def test_tasks_that_payloads_make_up_do_not_make_series_without_end(monkeypatch):
    monkeypatch.setattr(metrics, "MOST_SERIES", 3)
    recorder, before = metrics.Recorder(), scrape()
    for number in range(10):
        job = Job(id=str(number), func=f"made.up_{number}")
        claim = Claim(
            lease=Lease(job_id=job.id, token="t", owner="w"), raw=b"", queue="default", started_at=1.0, job=job
        )
        recorder.started(SimpleNamespace(claim=claim))
    new = {text(key) for key in scrape().keys() - before.keys()}
    shown = {re.search(r'task_name="([^"]*)"', one).group(1) for one in new if "vtasks_wait_seconds_count" in one}
    assert shown == {"made.up_0", "made.up_1", "made.up_2", "other"}


def test_counters_of_faults_begin_at_zero():
    metrics.begin(["quiet"])
    quiet = {text(key): value for key, value in scrape().items() if ("queue", "quiet") in key[1]}
    assert quiet['vtasks_rescues_total{queue="quiet",result="buried"}'] == 0
    assert quiet['vtasks_settle_refused_total{queue="quiet"}'] == 0
    assert quiet['vtasks_dead_letters_total{queue="quiet",reason="timed_out"}'] == 0

"""Health comes from progress: red when a service is stuck or the store is away for long, green again on recovery."""

from __future__ import annotations

import asyncio
import io
import json
import os
import time
import urllib.error
import urllib.request
from contextlib import nullcontext

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from django_vtasks.conf import WorkerConfig
from django_vtasks.events import Emitter
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.metrics import exposition
from django_vtasks.worker.health import Health
from django_vtasks.worker.probes import HealthFile, HealthServer
from django_vtasks.worker.service import Pace, ServiceCrashed
from django_vtasks.worker.surroundings import Surroundings
from tests.support.flaky import FlakyStore
from tests.support.waiting import aeventually, eventually
from tests.worker.support import Bench


@pytest.fixture
def pace():
    return Pace("consumer", Emitter(), expected=1.0, patience=10.0)


@pytest.fixture
def health(pace):
    return Health([pace])


def long_ago(seconds):
    return time.monotonic() - seconds


def test_a_service_that_turns_is_healthy(pace, health):
    report = health.report()
    assert (report.healthy, report.ready) == (True, True)


def test_a_service_that_did_not_come_round_for_long_is_not(pace, health):
    pace.turned_at = long_ago(10.5)
    assert health.report().healthy
    pace.turned_at = long_ago(11.5)
    report = health.report()
    assert not report.healthy
    assert "did not come round" in report.subsystems[0].problem
    pace.turned()
    assert health.report().healthy


def test_a_short_outage_is_not_ready_but_alive_and_a_long_one_is_neither(pace, health):
    pace.failed(StoreUnavailable("away"))
    assert (health.report().healthy, health.report().ready) == (True, False)
    pace.down_since = long_ago(11)
    assert health.report().healthy is False
    pace.turned()
    assert (health.report().healthy, health.report().ready) == (True, True)


def test_a_stopping_worker_is_alive_but_not_ready(pace):
    health = Health([pace], lambda: True)
    assert (health.report().healthy, health.report().ready) == (True, False)


def test_a_crashed_service_is_red_until_it_turns_again(pace, health):
    pace.crashed = ZeroDivisionError("a defect")
    assert "a defect" in health.report().subsystems[0].problem
    pace.turned()
    assert health.report().healthy


def test_the_file_holds_the_epoch_seconds_and_is_rewritten(tmp_path, pace, health):
    path = tmp_path / "health"
    file = HealthFile(str(path), health, every=0.02)
    file.start()
    try:
        eventually(path.exists)
        first = float(path.read_text())
        assert abs(first - time.time()) < 60
        eventually(lambda: float(path.read_text()) > first)
    finally:
        file.stop()


def test_the_file_grows_stale_while_the_worker_is_ill(tmp_path, pace, health):
    path = tmp_path / "health"
    file = HealthFile(str(path), health, every=0.02)
    file.start()
    try:
        eventually(path.exists)
        pace.turned_at = long_ago(3600)
        stale = eventually(lambda: _unchanged(path))
        assert stale
        pace.turned()
        eventually(lambda: path.read_text() != stale)
    finally:
        file.stop()


def surroundings(path, health):
    return Surroundings(WorkerConfig(health_check_file=str(path), loop_block_threshold=0), health, Emitter())


@pytest.mark.parametrize("crash", [None, ServiceCrashed])
def test_a_file_of_one_process_goes_when_the_worker_stops_and_stays_when_it_crashed(tmp_path, health, crash):
    path = tmp_path / f"health-{os.getpid()}"
    with pytest.raises(crash) if crash else nullcontext(), surroundings(tmp_path / "health-{pid}", health):
        eventually(path.exists)
        assert asked(tmp_path / "health-{pid}").startswith(f"process {os.getpid()}: healthy")
        if crash:
            raise crash
    assert path.exists() is (crash is not None)


def test_a_file_of_several_processes_stays(tmp_path, health):
    with surroundings(tmp_path / "health", health):
        eventually((tmp_path / "health").exists)
    assert (tmp_path / "health").exists()


def asked(path):
    out = io.StringIO()
    call_command("vtasks_health", file=str(path), stdout=out)
    return out.getvalue().strip()


def test_the_probe_is_red_as_soon_as_one_of_several_processes_is_ill(tmp_path):
    now, pattern = time.time(), tmp_path / "a[b]-{pid}"
    others = [os.getppid(), os.getpid()]
    for pid in others:
        (tmp_path / f"a[b]-{pid}").write_text(f"{now}")
    (tmp_path / f"a[b]-{2**22 + 7}").write_text("1.0")  # of a process that is no more
    (tmp_path / "a[b]-x").write_text("1.0")
    assert asked(pattern).count("healthy") == 2
    (tmp_path / f"a[b]-{os.getpid()}").write_text(f"{now - 60}")
    with pytest.raises(CommandError, match=f"{os.getpid()} is stale"):
        asked(pattern)
    with pytest.raises(CommandError, match="of a process that lives"):
        asked(tmp_path / "none-{pid}")


def test_a_file_that_cannot_be_written_is_told_once(tmp_path, pace, health, caplog):
    file = HealthFile(str(tmp_path / "missing" / "health"), health, every=0.01)
    file.start()
    try:
        eventually(lambda: "cannot be written" in caplog.text)
    finally:
        file.stop()
    assert caplog.text.count("cannot be written") == 1


@pytest.fixture
def url(health):
    server = HealthServer(0, health, lambda: (b"metrics here", "text/plain"))
    port = server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def fetched(address):
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_endpoint_tells_of_each_subsystem(url, pace):
    status, body = fetched(f"{url}/livez")
    assert status == 200
    assert json.loads(body)["subsystems"]["consumer"]["problem"] is None
    pace.turned_at = long_ago(3600)
    status, body = fetched(f"{url}/livez")
    assert status == 503
    assert json.loads(body)["subsystems"]["consumer"]["age"] >= 3600


def test_readiness_differs_from_liveness(url, pace):
    pace.failed(StoreUnavailable("away"))
    assert fetched(f"{url}/livez")[0] == 200
    assert fetched(f"{url}/readyz")[0] == 503


def test_metrics_are_beside_them_and_other_paths_are_not_found(url):
    assert fetched(f"{url}/metrics") == (200, b"metrics here")
    assert fetched(f"{url}/secrets")[0] == 404


def test_metrics_that_nobody_measures_are_no_empty_page(monkeypatch):
    monkeypatch.setattr("django_vtasks.metrics.HAS_METRICS", False)
    server = HealthServer(0, Health([]), exposition)
    try:
        status, body = fetched(f"http://127.0.0.1:{server.start()}/metrics")
    finally:
        server.stop()
    assert status == 501
    assert b"django-vtasks[metrics]" in body


async def test_every_service_of_a_worker_reports():
    bench = Bench(heartbeat_interval=0.1)
    async with bench.run():
        names = {"lease", "consumer", "wait", "promoter", "rescuer", "cleaner", "announcer", "reports"}
        await aeventually(lambda: names <= {pace.name for pace in bench.runtime.paces})
        assert Health(bench.runtime.paces).report().healthy


async def test_a_consumer_with_all_slots_busy_is_healthy(monkeypatch):
    monkeypatch.setattr("django_vtasks.worker.consumer.WAIT", 0.05)
    bench = Bench(concurrency=1)
    bench.add(1)
    async with bench.run():
        await bench.until_running(1)
        consumer = next(pace for pace in bench.runtime.paces if pace.name == "consumer")
        seen = consumer.turned_at
        await aeventually(lambda: consumer.turned_at > seen)


async def test_a_worker_without_its_store_is_red_and_green_again_afterwards():
    flaky = FlakyStore(Bench().store)
    bench = Bench(flaky, heartbeat_interval=0.1)
    health = Health(bench.runtime.paces)
    async with bench.run():
        await aeventually(lambda: bench.runtime.keeper.held)
        for pace in bench.runtime.paces:
            pace.patience = 0.5
        flaky.down = True
        await aeventually(lambda: not health.report().healthy)
        flaky.down = False
        for pace in bench.runtime.paces:
            pace.patience = 30
        await aeventually(lambda: health.report().ready, message=lambda: str(health.report().as_json()))


def _unchanged(path):
    before = path.read_text()
    asyncio.run(asyncio.sleep(0))
    until = time.monotonic() + 0.2
    while time.monotonic() < until:
        if path.read_text() != before:
            return None
    return before

"""Processes that die, freeze and stop: nothing is lost, nothing is done twice, on every kind of store."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


def started(path):
    """The processes that began the task that waits for `path`."""
    folder = Path(path).parent
    return {int(file.name.split(".")[-2]) for file in folder.glob(f"{Path(path).name}.*.started")}


def test_a_killed_workers_job_is_run_by_another_and_the_rest_is_untouched(site):
    gate = site.path("gate")
    with site.worker("--id", "first", "--concurrency", "2") as first:
        jobs = site.enqueue(f"record_slowly, 'a', {gate!r}", f"record_slowly, 'b', {gate!r}")
        later = site.enqueue("record, 'c'")
        eventually(lambda: Path(f"{gate}.{first.pid}.started").exists())
        first.kill()
    Path(gate).touch()
    with site.worker("--id", "second") as second:
        site.until_statuses(jobs + later, ["SUCCESSFUL"] * 3)
        assert second.terminate() == 0
    assert site.effects() == {"a": 1, "b": 1, "c": 1}
    for job, result in site.results(jobs).items():
        assert [worker.partition(":")[0] for worker in result["workers"]] in (["first", "second"], ["second"]), job


def test_a_job_that_may_not_be_rescued_fails_with_the_reason_when_its_worker_is_killed(site):
    gate = site.path("gate")
    with site.worker("--concurrency", "1") as first:
        jobs = site.enqueue(f"hold, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        first.kill()
    with site.worker() as second:
        site.until_statuses(jobs, ["FAILED"])
        assert second.terminate() == 0
    [result] = site.results(jobs).values()
    assert result["errors"] == ["django_vtasks.jobs.errors.RescuedTooOften"]
    assert site.effects() == {}


def test_a_frozen_worker_loses_its_job_to_another_and_changes_nothing_when_it_wakes(site):
    gate = site.path("gate")
    with site.worker("--id", "frozen", "--concurrency", "1") as frozen:
        jobs = site.enqueue(f"record_slowly, 'a', {gate!r}")
        eventually(lambda: frozen.pid in started(gate))
        site.freeze(frozen)
        with site.worker("--id", "awake") as awake:
            eventually(lambda: awake.pid in started(gate), within=60)
            frozen.resume()
            frozen.wait_for_log("had run out", within=60)
            Path(gate).touch()
            site.until_statuses(jobs, ["SUCCESSFUL"])
            assert awake.terminate() == 0
        [after] = site.enqueue("add, 1, 2")
        site.until_statuses([after], ["SUCCESSFUL"])
        assert frozen.terminate() == 0
    [result] = site.results(jobs).values()
    assert result["workers"][-1].startswith("awake:")
    assert result["attempts"] == 2


def test_a_worker_that_is_stopped_under_load_loses_and_doubles_nothing(site):
    labels = [f"job {number}" for number in range(120)]
    with site.worker("--concurrency", "4") as first:
        first.wait_for_log("starts")
        jobs = site.enqueue(*(f"record, {label!r}" for label in labels))
        eventually(lambda: "succeeded" in first.log_text(), message=first.log_text)
        assert first.terminate(within=60) == 0
    with site.worker("--batch", "--concurrency", "4") as second:
        assert second.wait(within=120) == 0
    assert site.effects() == dict.fromkeys(labels, 1)
    assert set(site.statuses(jobs)) == {"SUCCESSFUL"}


def test_a_second_signal_ends_the_worker_at_once_and_hands_the_job_back(site):
    gate = site.path("gate")
    with site.worker("--concurrency", "1", "--shutdown-timeout", "3600") as worker:
        jobs = site.enqueue(f"hold, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        worker.send(signal.SIGTERM)
        worker.wait_for_log("Stopping; ")
        assert worker.exit_code is None
        began = time.monotonic()
        worker.send(signal.SIGTERM)
        worker.wait()
        assert time.monotonic() - began < 10, "the deadline of an hour was not cut short"
    [result] = site.results(jobs).values()
    assert (result["status"], result["errors"]) == ("READY", [])


def test_at_the_deadline_the_job_is_handed_back(site):
    gate = site.path("gate")
    with site.worker("--concurrency", "1", "--shutdown-timeout", "0.5") as worker:
        jobs = site.enqueue(f"hold, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        began = time.monotonic()
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
        assert time.monotonic() - began < 10
    [result] = site.results(jobs).values()
    assert (result["status"], result["errors"]) == ("READY", [])
    Path(gate).touch()
    with site.worker("--batch") as other:
        assert other.wait(within=60) == 0
    assert site.statuses(jobs) == ["SUCCESSFUL"]


def test_a_worker_whose_event_loop_is_blocked_keeps_its_job_and_ends_at_the_deadline_all_the_same(site):
    gate = site.path("gate")
    with site.worker("--concurrency", "1", "--shutdown-timeout", "0.5") as worker:
        jobs = site.enqueue(f"block_the_loop, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        with site.worker("--id", "other") as other:
            other.wait_for_log("starts")
            worker.wait_for_log(r"The event loop was blocked for (.|\n)*block_the_loop", within=60)
            assert other.terminate() == 0
        assert site.statuses(jobs) == ["RUNNING"]
        worker.send(signal.SIGTERM)
        assert worker.wait() == 1
        assert "does not answer" in worker.log_text()
    [result] = site.results(jobs).values()
    assert (result["status"], result["errors"]) == ("READY", [])


def test_two_workers_with_one_id_are_two_workers(site):
    gate = site.path("gate")
    flags = ("--id", "twin", "--concurrency", "2")
    with site.worker(*flags) as one, site.worker(*flags) as other:
        one.wait_for_log("starts")
        other.wait_for_log("starts")
        jobs = site.enqueue(*(f"record_slowly, {label!r}, {gate!r}" for label in "abcd"))
        eventually(lambda: {one.pid, other.pid} <= started(gate), within=60)
        one.kill()
        Path(gate).touch()
        site.until_statuses(jobs, ["SUCCESSFUL"] * 4)
        assert other.terminate() == 0
    assert site.effects() == dict.fromkeys("abcd", 1)


def reloading_worker(site):
    """A worker in development, and a module of its project to change."""
    module = site.folder / "reloadable.py"
    module.write_text("from contextlib import nullcontext\n\ndef context(**kwargs):\n    return nullcontext()\n")
    worker = site.worker("--reload", DEBUG=True, VTASKS_TASK_CONTEXT="reloadable.context")
    worker.env["PYTHONPATH"] = str(site.folder)
    return worker, module


def test_a_worker_in_development_restarts_when_code_changes_and_hands_back_what_ran(sqlite_site):
    gate = sqlite_site.path("gate")
    worker, module = reloading_worker(sqlite_site)

    def is_seen() -> bool:
        # The reloader measures changes from the first time that it looks, which may be after the first of these.
        seen = "reloadable.py changed, reloading" in worker.log_text()
        if not seen:
            module.touch()
        return seen

    with worker:
        worker.wait_for_log("starts")
        jobs = sqlite_site.enqueue(f"hold, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        Path(f"{gate}.started").unlink()
        eventually(is_seen, within=60)
        worker.wait_for_log(r"starts(.|\n)*starts", within=60)
        eventually(Path(f"{gate}.started").exists)
        Path(gate).touch()
        sqlite_site.until_statuses(jobs, ["SUCCESSFUL"])
        os.killpg(worker.pid, signal.SIGINT)
        assert worker.wait() == 0
    [result] = sqlite_site.results(jobs).values()
    assert (result["attempts"], result["errors"]) == (2, [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_in_development_hands_back_what_runs_when_its_parent_alone_is_asked_to_end(sqlite_site, number):
    gate = sqlite_site.path("gate")
    worker, _ = reloading_worker(sqlite_site)
    with worker:
        worker.wait_for_log("starts")
        jobs = sqlite_site.enqueue(f"hold, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        worker.send(number)
        assert worker.wait() == 0
        assert sqlite_site.statuses(jobs) == ["READY"]


@pytest.mark.parametrize("name", ["leave_a_process_behind", "wait_in_a_thread", "take_no_cancellation"])
def test_a_worker_ends_whatever_its_tasks_leave_behind(sqlite_site, name):
    gate = sqlite_site.path("gate")
    with sqlite_site.worker("--shutdown-timeout", "0.5") as worker:
        worker.wait_for_log("starts")
        sqlite_site.enqueue(f"{name}, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        assert worker.terminate() == 0
        assert "behind" in worker.log_text()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)


def test_a_task_can_end_processes_that_it_forked(sqlite_site):
    """The worker's own handler of SIGTERM is not for processes that inherit it, from their first moment on."""
    with sqlite_site.worker() as worker:
        jobs = sqlite_site.enqueue("end_processes")
        sqlite_site.until_statuses(jobs, ["SUCCESSFUL"])
        assert worker.terminate() == 0

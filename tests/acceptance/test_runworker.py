"""`manage.py runworker` as a user sees it: flags, lines, exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.support.processes import MANAGE, ROOT, ManagedProcess, manage, process_environment
from tests.support.servers import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture
def env(tmp_path, migrated_file):
    shutil.copy(migrated_file, tmp_path / "db.sqlite3")
    return {"VTASKS_TEST_DB_URL": f"sqlite://{tmp_path / 'db.sqlite3'}"}


def python(code, env):
    done = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup()\nfrom tests.project.tasks import *\n{code}"],
        cwd=ROOT,
        env=process_environment(PYTHONPATH=str(ROOT), **env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def refused(*arguments, env):
    done = subprocess.run(
        [sys.executable, str(MANAGE), "runworker", *arguments],
        cwd=ROOT,
        env=process_environment(**env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def settings(**values):
    return {"VTASKS_TEST_SETTINGS": json.dumps(values)}


def test_a_plain_project_sees_the_start_a_line_for_each_job_and_the_end(env):
    job = python("print(add.enqueue(1, 2).id); fail.enqueue()", env)
    printed = manage("runworker", "--batch", env=env)
    assert re.search(r"Worker \S+ starts", printed)
    assert "Broker: sqlite" in printed
    assert "Queues: default" in printed
    assert re.search(rf"tests\.project\.tasks\.add \({job}, [\d.]+ s\) succeeded", printed)
    assert re.search(r"tests\.project\.tasks\.fail .* failed: ValueError: this task fails", printed)
    assert "has ended" in printed


def test_a_worker_that_could_never_see_a_job_says_so(env):
    databases = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    memory = {"default": {"BACKEND": "django_vtasks.backends.memory.MemoryTaskBackend"}}
    for values in ({"DATABASES": databases}, {"TASKS": memory}):
        assert "keeps its jobs in memory" in refused("--batch", env=env | settings(**values))


def test_every_queue_is_drained_where_any_name_is_taken(env):
    anything = {"default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend", "QUEUES": []}}
    env |= settings(TASKS=anything)
    python("for name in ('default', 'a', 'b'): add.using(queue_name=name).enqueue(1, 2)", env)
    assert manage("runworker", "--batch", env=env).count("succeeded") == 1
    assert manage("runworker", "--batch", "--queue", "*", env=env).count("succeeded") == 2


def test_verbosity_0_is_silent(env):
    python("add.enqueue(1, 2); fail.enqueue()", env)
    assert manage("runworker", "--batch", "--verbosity", "0", env=env) == ""


def test_a_project_with_its_own_logging_decides_what_is_printed(env):
    python("add.enqueue(1, 2)", env)
    own = settings(
        LOGGING={
            "version": 1,
            "handlers": {"own": {"class": "logging.StreamHandler", "formatter": "own"}},
            "formatters": {"own": {"format": "OWN %(message)s"}},
            "loggers": {"django_vtasks": {"handlers": ["own"], "level": "WARNING"}},
        }
    )
    assert manage("runworker", "--batch", env=env | own) == ""


def test_an_empty_queue_drains_at_once(env):
    manage("runworker", "--batch", env=env)


def test_it_stops_after_as_many_jobs_as_it_may_take(env):
    python("for i in range(5): add.enqueue(i, i)", env)
    printed = manage("runworker", "--batch", "--max-jobs", "3", env=env)
    assert printed.count("succeeded") == 3
    assert manage("runworker", "--max-tasks", "2", env=env).count("succeeded") == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--queue", ""], "--queue needs"),
        (["--id", ""], "--id must be"),
        (["--id", "x" * 65], "64"),
        (["--concurrency", "0"], "at least 1"),
        (["--concurrency", "-3"], "at least 1"),
        (["--max-jobs", "0"], "at least 1"),
        (["--interval", "-1"], "finite number of seconds"),
        (["--interval", "inf"], "finite number of seconds"),
        (["--interval", "soon"], "number of seconds"),
        (["--shutdown-timeout", "-1"], "finite number of seconds"),
        (["--metrics-port", "70000"], "65535"),
        (["--backend", "nowhere"], "'nowhere'"),
        (["--backend", "dummy"], "DummyBackend"),
        (["--reload", "--batch"], "--reload"),
        (["--reload"], "DEBUG"),
    ],
)
def test_wrong_flags_are_refused_with_the_reason(env, arguments, text):
    tasks = {
        "default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend"},
        "dummy": {"BACKEND": "django.tasks.backends.dummy.DummyBackend"},
    }
    assert text in refused(*arguments, env=env | settings(TASKS=tasks))


@pytest.mark.parametrize(("queue", "told"), [("mial", True), ("mail", False), ("elsewhere", False), ("*", False)])
def test_a_queue_that_is_nearly_another_one_is_questioned(env, queue, told):
    """A worker that waits at a misspelt queue looks as well as any other."""
    done = subprocess.run(
        [sys.executable, str(MANAGE), "runworker", "--drain", "--queue", queue],
        cwd=ROOT,
        env=process_environment(**env | settings(VTASKS_QUEUES=["default", "mail"])),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("did you mean 'mail'?" in done.stderr) is told


def test_a_url_that_cannot_be_read_is_told_without_a_traceback(env):
    options = {"BROKER_URL": "localhost:6379"}
    tasks = {"default": {"BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend", "OPTIONS": options}}
    assert "begins with one of" in refused(env=env | settings(TASKS=tasks))


def test_an_app_that_is_not_installed_is_told_without_a_traceback(env):
    apps = ["django.contrib.contenttypes", "django_vtasks"]
    assert "add 'django_vtasks.db' to INSTALLED_APPS" in refused(env=env | settings(INSTALLED_APPS=apps))


def test_a_driver_that_is_not_installed_is_told_without_a_traceback(env, tmp_path):
    for name in ("valkey", "redis"):
        (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('none', name={name!r})")
    path = f"{tmp_path}{os.pathsep}{ROOT / 'src'}"
    entry = {"BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend", "OPTIONS": {"BROKER_URL": "valkey://x"}}
    said = refused(env=env | settings(TASKS={"default": entry}) | {"PYTHONPATH": path})
    assert "pip install 'django-vtasks[valkey]'" in said


def test_wrong_settings_are_all_told_at_once(env):
    text = refused(env=env | settings(VTASKS_QUEUES={"a": {"concurrency": 1}}, VTASKS_SHUTDOWN_TIMEOUT=-1))
    assert "worker_concurrency" in text
    assert "VTASKS_SHUTDOWN_TIMEOUT" in text


def test_fractions_and_zero_are_good_intervals(env):
    manage("runworker", "--batch", "--interval", "0", env=env)
    manage("runworker", "--batch", "--interval", "0.5", env=env)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_ends_within_half_a_second_of_a_signal(env, number):
    with ManagedProcess("runworker", "--id", "idle", env=env) as worker:
        worker.wait_for_log("Worker idle starts")
        python("add.enqueue(1, 2)", env)
        worker.wait_for_log("succeeded")
        began = time.monotonic()
        worker.send(number)
        assert worker.wait() == 0
        assert time.monotonic() - began < 8, "far more than the half second that it takes by itself"
        ended = re.search(r"^(\S+) INFO Stopping", worker.log_text(), re.MULTILINE)
        assert ended
        assert "has ended" in worker.log_text()


def test_jobs_enqueued_while_it_runs_are_run(env):
    with ManagedProcess("runworker", env=env) as worker:
        worker.wait_for_log("starts")
        for number in range(3):
            python(f"add.enqueue({number}, 1)", env)
        eventually(lambda: worker.log_text().count("succeeded") == 3, message=worker.log_text)
        assert worker.terminate() == 0


def test_the_health_file_is_kept_fresh_and_the_probe_command_reads_it(env, tmp_path):
    path = tmp_path / "health"
    with ManagedProcess("runworker", "--health-check-file", str(path), env=env) as worker:
        worker.wait_for_log("starts")
        eventually(path.exists)
        assert abs(float(path.read_text()) - time.time()) < 60
        manage("vtasks_health", "--file", str(path), env=env)
        assert worker.terminate() == 0
    path.write_text("12.5")
    done = subprocess.run(
        [sys.executable, str(MANAGE), "vtasks_health", "--file", str(path)],
        cwd=ROOT,
        env=process_environment(**env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "stale" in done.stderr + done.stdout


def test_a_port_that_is_taken_is_told_without_a_traceback(env):
    import socket

    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        text = refused("--health-port", str(taken.getsockname()[1]), env=env)
    assert "cannot start" in text


def test_metrics_are_served_beside_health(env):
    port = free_port()
    with ManagedProcess("runworker", "--health-port", str(port), env=env) as worker:
        python("add.enqueue(1, 2)", env)
        worker.wait_for_log("succeeded")

        def scraped():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return answer.read().decode()

        eventually(lambda: 'vtasks_queue_depth{queue="default"}' in scraped())
        text = scraped()
        processed = (
            'vtasks_tasks_processed_total{queue="default",status="success",task_name="tests.project.tasks.add"}'
        )
        assert f"{processed} 1.0" in text
        assert 'vtasks_slots{state="free"}' in text
        assert worker.terminate() == 0


def test_a_worker_loads_nothing_that_it_does_not_use(env):
    apps = ["django.contrib.contenttypes", "django_vtasks", "django_vtasks.db", "tests.project"]
    code = """
import sys
from django.core.management import call_command
call_command("runworker", "--batch", "--verbosity", "0")
print("\\n".join(sys.modules))
"""
    loaded = python(code, env | settings(INSTALLED_APPS=apps)).split()
    assert "django_vtasks.worker.worker" in loaded
    unused = ("prometheus_client", "http.server", "cronsim", "opentelemetry", "valkey", "redis", "psycopg")
    ours = ("scheduling", "admin", "metrics", "operating", "checks", "asgi", "worker.probes", "worker.gauges")
    wrong = [*unused, *(f"django_vtasks.{name}" for name in ours), "django.contrib.admin"]
    assert [name for name in loaded if any(name == bad or name.startswith(f"{bad}.") for bad in wrong)] == []


def test_exit_codes_tell_an_empty_run_and_a_failed_one_when_asked_for(env):
    flags = ["runworker", "--batch", "--exit-empty", "3", "--exit-failed", "4"]

    def exit_code(*arguments):
        done = subprocess.run(
            [sys.executable, str(MANAGE), *arguments],
            cwd=ROOT,
            env=process_environment(**env),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    assert exit_code(*flags) == 3
    assert exit_code("runworker", "--batch") == 0
    python("add.enqueue(1, 2)", env)
    assert exit_code(*flags) == 0
    python("add.enqueue(1, 2); fail.enqueue()", env)
    assert exit_code(*flags) == 4

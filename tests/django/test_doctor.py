"""`vtasks doctor`: what it finds in settings and servers, what it says to do, how it exits."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from django_vtasks.backends.examining import (
    judge_clock,
    judge_connection,
    judge_connections,
    judge_sharing,
    judge_sqlite,
    judge_valkey,
)
from django_vtasks.framework import BaseTaskBackend, task_backends
from django_vtasks.operating.doctor import diagnose
from tests.support.operators import AwayBackend, Scene
from tests.support.processes import MANAGE, process_environment

AWAY = f"{AwayBackend.__module__}.{AwayBackend.__qualname__}"
DATABASE = "django_vtasks.backends.db.DatabaseTaskBackend"
VALKEY = "django_vtasks.backends.valkey.ValkeyTaskBackend"
IMMEDIATE = "django_vtasks.backends.immediate.ImmediateBackend"

#: Entries may be rows of the database too, so looking at the schedule reads it.
pytestmark = pytest.mark.django_db(databases="__all__")


def doctor(*arguments):
    """Exit code and output."""
    out = io.StringIO()
    try:
        call_command("vtasks", "doctor", *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, f"{out.getvalue()}{error}"
    return 0, out.getvalue()


def told(findings, severity=None):
    return [finding.text for finding in findings if severity in (None, finding.severity)]


def one(findings, part):
    """The only finding whose text has this part."""
    (found,) = [finding for finding in findings if part in finding.text]
    return found


# -- the project ------------------------------------------------------------------------------------------------------


def test_a_project_that_works_is_told_so(memory):
    Scene(memory).announce()
    code, text = doctor()
    assert code == 0
    assert text.count("nothing is wrong") == 2


def test_settings_of_older_lines_and_wrong_values_are_found(memory, settings):
    settings.VTASKS_BATCH_QUEUES = {"bulk": {"count": 10}}
    settings.VTASKS_CONCURRENCY = 0
    settings.VTASKS_SCHEDULE = {"x": {"task": "no.such.task", "schedule": "61 * * * *"}}
    code, text = doctor()
    assert code == 1
    assert "VTASKS_BATCH_QUEUES has no effect" in text
    assert "part of VTASKS_QUEUES" in text
    assert "VTASKS_CONCURRENCY must be at least 1" in text
    assert "Schedule entry 'x'" in text


def test_variables_that_are_no_settings_are_found(memory, monkeypatch):
    monkeypatch.setenv("VTASKS_QUEUE", "default")
    monkeypatch.setenv("VTASKS_CONCURRENCY", "5")
    assert one(diagnose().findings, "VTASKS_QUEUE ").severity == "warning"
    assert not [text for text in told(diagnose().findings) if "VTASKS_CONCURRENCY" in text]


def test_checks_that_break_are_an_error(memory, monkeypatch):
    def broken(*args, **kwargs):
        raise ImportError("no module named shop")

    monkeypatch.setattr("django.core.checks.run_checks", broken)
    assert one(diagnose().findings, "The system checks break").severity == "error"


def test_json_has_everything(memory):
    code, text = doctor("--json")
    document = json.loads(text)
    assert (code, document["well"]) == (0, True)
    assert [patient["alias"] for patient in document["patients"]] == ["default"]
    assert document["patients"][0]["findings"][0]["severity"] == "warning"


# -- aliases ----------------------------------------------------------------------------------------------------------


def test_an_unknown_alias_is_wrong_usage(memory):
    code, text = doctor("--alias", "nowhere")
    assert (code, "choose one of: default" in text) == (2, True)


def test_a_sentence_of_the_driver_ends_once(settings):
    options = {"BROKER_URL": "valkey://127.0.0.1:1"}  # nobody listens there, and the system says so with a full stop
    settings.TASKS = {"default": {"BACKEND": VALKEY, "OPTIONS": options}}
    (text,) = told(diagnose().patients[0].findings)
    assert text.endswith("refused.")
    assert ".." not in text


def test_a_store_that_is_away_hides_no_other_alias(settings, memory):
    settings.TASKS = {
        "default": {"BACKEND": AWAY},
        "broken": {"BACKEND": "no.such.Backend"},
        "foreign": {"BACKEND": f"{BaseTaskBackend.__module__.rpartition('.')[0]}.dummy.DummyBackend"},
        "tests": {"BACKEND": IMMEDIATE},
        "wrong": {"BACKEND": VALKEY},
    }
    diagnosis = diagnose()
    by_alias = {patient.alias: patient for patient in diagnosis.patients}
    assert "cannot be reached" in told(by_alias["default"].findings)[0]
    assert "cannot be made" in told(by_alias["broken"].findings)[0]
    assert "not of this package" in by_alias["foreign"].location
    assert one(by_alias["tests"].findings, "is for tests").severity == "warning"
    assert "does not say where the server is" in told(by_alias["wrong"].findings)[0]
    assert doctor("--alias", "tests")[0] == 0
    assert doctor("--alias", "wrong")[0] == 1


def test_queues_that_nobody_serves_are_found(memory, settings):
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": ["default", "mails", "odd"]}}
    settings.VTASKS_QUEUES = ["default", "mails"]
    scene = Scene(task_backends["default"].client_store)
    findings = diagnose().findings
    assert "--queue odd" in one(findings, "'odd' is accepted").hint
    assert one(findings, "No worker of this alias").hint == "Start one: manage.py runworker"
    scene.announce(queues=("default",))
    findings = diagnose().findings
    assert one(findings, "No live worker serves the queue 'mails'")
    scene.ready(queue="mails")
    assert one(diagnose().findings, "'mails'").severity == "error"
    assert doctor()[0] == 1


def test_a_schedule_that_nobody_fires_is_found(memory, settings):
    Scene(memory).announce()
    settings.VTASKS_SCHEDULE = {"nightly": {"task": "tests.project.tasks.echo", "schedule": "0 3 * * *"}}
    finding = one(diagnose().findings, "'nightly' is not fired")
    assert (finding.severity, finding.hint) == ("warning", "Start a worker with --scheduler.")


# -- servers ----------------------------------------------------------------------------------------------------------


def test_a_database_without_its_migrations_is_an_error(tmp_path):
    env = process_environment(VTASKS_TEST_DB_URL=f"sqlite://{tmp_path}/empty.sqlite3")
    done = subprocess.run(
        [sys.executable, str(MANAGE), "vtasks", "doctor"],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "error: Migrations are not applied: 0001_initial, " in done.stdout
    assert "Run manage.py migrate db." in done.stdout
    assert "1 thing(s) do not work." in done.stderr


def test_sqlite_in_a_file_is_looked_at(settings):
    settings.TASKS = {"default": {"BACKEND": DATABASE}}
    (patient,) = diagnose().patients
    assert patient.facts["server"].startswith("SQLite 3.")
    assert one(patient.findings, "journal_mode is delete").severity == "warning"


@pytest.mark.parametrize(
    "vendor", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("postgres", "mariadb")]
)
def test_database_servers_are_looked_at(settings, request, vendor, monkeypatch):
    alias = request.getfixturevalue(f"{vendor}_alias")
    settings.TASKS = {"default": {"BACKEND": DATABASE, "OPTIONS": {"DATABASE": alias}}}
    monkeypatch.setitem(settings.DATABASES, alias, {})
    settings.VTASKS_CONCURRENCY = 100_000
    (patient,) = diagnose().patients
    assert patient.facts["server"].split()[0] in ("PostgreSQL", "MariaDB")
    assert int(patient.facts["max_connections"]) > 1
    assert one(patient.findings, "A worker may use a connection").severity == "warning"


@pytest.mark.valkey
def test_a_valkey_server_is_looked_at(settings, clean_valkey):
    settings.TASKS = {"default": {"BACKEND": VALKEY, "OPTIONS": {"BROKER_URL": clean_valkey.url}}}
    cache = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": clean_valkey.url}
    settings.CACHES = {"default": cache, "other": {**cache, "LOCATION": f"{clean_valkey.url.rpartition('/')[0]}/1"}}
    clean_valkey.call("CONFIG SET maxmemory-policy allkeys-lru")
    try:
        (patient,) = diagnose().patients
    finally:
        clean_valkey.call("CONFIG SET maxmemory-policy noeviction")
    assert patient.facts["server"].startswith("Valkey ")
    assert patient.facts["maxmemory_policy"] == "allkeys-lru"
    assert one(patient.findings, "deletes jobs without a word")
    assert "CACHES 'default' is in the same database" in one(patient.findings, "cache.clear()").text


WELL = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
    "aof_enabled": "1",
}


@pytest.mark.parametrize(
    ("told_by_server", "severity", "part"),
    [
        ({"maxmemory_policy": "volatile-lru"}, "warning", "maxmemory-policy is volatile-lru"),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": "100"}, "error", "deletes jobs"),
        ({"maxmemory": "100", "used_memory": "95"}, "warning", "95% of maxmemory"),
        ({"maxmemory": "100", "used_memory": "101"}, "error", "101% of maxmemory"),
        ({"aof_enabled": "0"}, "warning", "appendonly is off"),
        ({"role": "slave"}, "error", "replica"),
        ({"redis_version": "5.0.3"}, "error", "older than 6.2"),
        ({"cluster_enabled": "1"}, "error", "CLUSTER_MODE is not set"),
    ],
)
def test_what_is_wrong_with_a_valkey_server(told_by_server, severity, part):
    (symptom,) = judge_valkey(WELL | told_by_server, cluster=False)
    assert (symptom.severity, part in symptom.text) == (severity, True)
    assert symptom.hint


def test_a_valkey_server_that_is_well():
    assert list(judge_valkey(WELL, cluster=False)) == []
    assert list(judge_valkey(WELL | {"cluster_enabled": "1"}, cluster=True)) == []
    assert list(judge_sharing([])) == []


@pytest.mark.parametrize(
    ("journal", "entry", "parts"),
    [
        ("wal", {"NAME": "x", "OPTIONS": {"transaction_mode": "IMMEDIATE"}}, []),
        ("delete", {"NAME": "x", "OPTIONS": {"transaction_mode": "immediate"}}, ["journal_mode is delete"]),
        ("wal", {"NAME": "x"}, ["begin as readers"]),
        ("memory", {"NAME": ":memory:"}, ["in the memory of this process"]),
        ("delete", {"NAME": "file:x?mode=memory"}, ["in the memory of this process"]),
    ],
)
def test_what_is_wrong_with_an_sqlite_file(journal, entry, parts):
    found = [symptom.text for symptom in judge_sqlite(journal, entry)]
    assert len(found) == len(parts)
    assert all(part in text for part, text in zip(parts, found, strict=True))


def test_the_advice_for_sqlite_says_whose_options_it_means():
    hints = [symptom.hint for symptom in judge_sqlite("delete", {"NAME": "x"})]
    assert len(hints) == 2
    assert all("DATABASES" in hint for hint in hints)


@pytest.mark.parametrize(
    ("entry", "vendor", "severities"),
    [
        ({"CONN_MAX_AGE": 0}, "postgresql", ["hint"]),
        ({"CONN_MAX_AGE": 0, "OPTIONS": {"pool": True}}, "postgresql", []),
        ({"CONN_MAX_AGE": 60}, "postgresql", []),
        ({"CONN_MAX_AGE": None}, "mysql", []),
        ({"CONN_MAX_AGE": 0}, "sqlite", []),
        ({"CONN_MAX_AGE": 60, "AUTOCOMMIT": False}, "mysql", ["error"]),
    ],
)
def test_what_is_wrong_with_a_databases_entry(entry, vendor, severities):
    assert [symptom.severity for symptom in judge_connection(entry, vendor)] == severities


def test_clocks_and_connections():
    assert list(judge_clock(1000.0, 1003.0)) == []
    assert "60 s behind" in next(judge_clock(1000.0, 1060.0)).text
    assert "60 s ahead of" in next(judge_clock(1060.0, 1000.0)).text
    assert list(judge_connections(100, 20)) == []


def test_metrics_without_their_library_are_found(memory, settings, monkeypatch):
    monkeypatch.setattr("django_vtasks.metrics.HAS_METRICS", False)
    settings.VTASKS_METRICS_PORT = 9100
    assert "django-vtasks[metrics]" in one(diagnose().findings, "VTASKS_METRICS_PORT").hint

"""System checks and configuration: statements I 109 to 115."""

from __future__ import annotations

import pytest
from django.core import checks
from django.db.backends.signals import connection_created

from django_vtasks.checks import run_checks
from django_vtasks.framework import task_backends
from tests.django.conftest import IMMEDIATE, entry
from tests.support.processes import run_script

DB = "django_vtasks.backends.db.DatabaseTaskBackend"
VALKEY = "django_vtasks.backends.valkey.ValkeyTaskBackend"


def of_entry(settings, tasks):
    settings.TASKS = tasks
    return {(message.id.rpartition(".")[2], message.msg) for message in task_backends["default"].check()}


@pytest.mark.parametrize(
    "tasks",
    [
        entry(DB),
        entry(DB, QUEUES=[], OPTIONS={"DLQ_CAP": 5}, DLQ_CAP=7),
        entry(IMMEDIATE, QUEUES=["default", "a"]),
        entry(VALKEY, OPTIONS={"BROKER_URL": "valkey://localhost"}),
        entry(VALKEY, OPTIONS={"cache_alias": "default", "PREFIX": "{x}", "BLOCKING_TIMEOUT": 2}),
    ],
    ids=range(5),
)
def test_a_right_configuration_yields_no_messages(settings, tasks):
    """I 109."""
    assert of_entry(settings, tasks) == set()
    assert list(run_checks()) == []


def test_a_missing_app_gives_an_error_that_names_it(settings):
    """I 110."""
    settings.INSTALLED_APPS = ["django.contrib.contenttypes"]
    settings.TASKS = entry(DB)
    (message,) = task_backends["default"].check()
    assert (message.id, message.is_serious()) == ("django_vtasks.E001", True)
    assert "'django_vtasks.db'" in message.hint


@pytest.mark.parametrize(
    ("tasks", "number", "said"),
    [
        (entry(DB, OPTIONS={"dlq_cap": 1}), "W010", "'dlq_cap'"),
        (entry(DB, OPTIONS={"BROKER_URL": "x"}), "W010", "'BROKER_URL'"),
        (entry(DB, ENQUEUE_ON_COMMIT=True), "W010", "'ENQUEUE_ON_COMMIT'"),
        (entry(DB, OPTIONS=None), "E004", "OPTIONS"),
        (entry(DB, OPTIONS=["x"]), "E004", "OPTIONS"),
        (entry(DB, QUEUES="default"), "E003", "QUEUES"),
        (entry(DB, QUEUES=None), "E003", "QUEUES"),
        (entry(DB, QUEUES=5), "E003", "QUEUES"),
        (entry(DB, QUEUES=["a", 5]), "E003", "5"),
        (entry(DB, OPTIONS={"DLQ_CAP": "many"}), "E002", "DLQ_CAP"),
        (entry(DB, DLQ_CAP=-1), "E002", "DLQ_CAP"),
        (entry(DB, OPTIONS={"DATABASE": "nowhere"}), "E005", "nowhere"),
        (entry(VALKEY), "E006", "where the server is"),
        (entry(VALKEY, OPTIONS={"BROKER_URL": "localhost:6379"}), "E006", "begins with one of"),
        (entry(VALKEY, OPTIONS={"BROKER_URL": ["valkey://a/x"]}), "E006", "'x' is no database number"),
        (entry(VALKEY, OPTIONS={"cache_alias": "nowhere"}), "E007", "nowhere"),
    ],
    ids=lambda value: str(value)[-40:],
)
def test_what_is_wrong_with_an_entry_is_a_message_and_no_exception(settings, tasks, number, said):
    """I 111, I 112."""
    messages = [(code, text) for code, text in of_entry(settings, tasks) if code == number]
    assert messages
    assert said in messages[0][1]


def test_everything_wrong_with_an_entry_is_reported_together(settings):
    wrong = of_entry(settings, entry(VALKEY, QUEUES="a", COLOUR=1, OPTIONS={"x": 1, "DLQ_CAP": -1}))
    assert {code for code, _ in wrong} == {"E003", "W010", "E002", "E006"}


@pytest.mark.parametrize("queues", ["default", None, 5])
def test_a_backend_with_wrong_queues_can_still_be_made(settings, queues):
    settings.TASKS = entry(DB, QUEUES=queues, OPTIONS=None)
    assert task_backends["default"].queues == {"default"}
    assert task_backends["default"].options == {}


def test_the_settings_and_the_schedule_are_checked_together(settings):
    settings.VTASKS_CONCURRENCY = 0
    settings.VTASKS_QUEUES = {"a": {"concurrency": 5}}
    settings.VTASKS_SCHEDULE = {"x": {"task": "nodots", "schedule": 5}}
    messages = run_checks()
    assert sorted(message.id.rpartition(".")[2] for message in messages) == ["E002", "E002", "W003"]
    assert any("VTASKS_CONCURRENCY" in message.msg for message in messages)
    assert any("worker_concurrency" in message.msg for message in messages)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("VTASKS_BATCH_QUEUES", "'batch'"), ("VTASKS_CONCURENCY", "VTASKS_CONCURRENCY"), ("VTASKS_XYZZY", "reference")],
)
def test_a_setting_that_does_not_exist_is_reported(settings, name, hint):
    setattr(settings, name, 5)
    (message,) = run_checks()
    assert message.id == "django_vtasks.W011"
    assert name in message.msg
    assert hint in message.hint


def test_a_worker_alias_that_does_not_exist_is_reported(settings):
    settings.VTASKS_BACKEND = "nowhere"
    (message,) = run_checks()
    assert "nowhere" in message.msg


def test_our_checks_run_in_a_project_that_imports_no_tasks():
    """I 113: the framework registers its check when it is imported, which our app sees to."""
    script = (
        "from django.conf import settings\n"
        f"settings.configure(TASKS={entry(DB, QUEUES='x')!r}, VTASKS_CONCURRENCY=0,"
        " INSTALLED_APPS=['django_vtasks'])\n"
        "import django; django.setup()\n"
        "from django.core import checks\n"
        "print(sorted(m.id for m in checks.run_checks() if m.id.startswith('django_vtasks')))\n"
    )
    done = run_script(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['django_vtasks.E001', 'django_vtasks.E002', 'django_vtasks.E003']"


def test_the_app_of_the_rows_says_that_it_needs_the_other_one():
    script = (
        "from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['django_vtasks.db'])\n"
        "import django; django.setup()\n"
    )
    done = run_script(script)
    assert "has 'django_vtasks.db' and needs 'django_vtasks' as well" in done.stderr


def test_our_checks_have_a_tag(settings):
    settings.VTASKS_CONCURRENCY = 0
    assert [message.id for message in checks.run_checks(tags=["vtasks"])] == ["django_vtasks.E002"]


def test_checks_and_backends_open_no_connection(settings):
    """I 114: pytest-django refuses any use of the database here."""
    opened: list[str] = []

    def note(connection, **_: object) -> None:
        opened.append(connection.alias)

    connection_created.connect(note)
    for path, options in ((DB, {}), (VALKEY, {"BROKER_URL": "valkey://127.0.0.1:1"})):
        settings.TASKS = entry(path, OPTIONS=options)
        assert list(task_backends["default"].check()) == []
    assert list(run_checks()) == []
    connection_created.disconnect(note)
    assert opened == []

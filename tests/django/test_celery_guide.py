"""The guide on moving from Celery: its project runs, its tests pass, its commands find what they are to find."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from textwrap import dedent

import pytest

from django_vtasks.signals import task_failure, task_finished, task_retried, task_started
from django_vtasks.testing import drain, fire_due, travel
from tests.support.processes import MANAGE, ROOT, process_environment

GUIDE = (ROOT / "docs" / "upgrading" / "from-celery.md").read_text()
FILES = {
    name: dedent(text)
    for name, text in re.findall(r'^ *```python title="([^"]+)"\n(.*?)^ *```$', GUIDE, re.MULTILINE | re.DOTALL)
}
SETTINGS = ("TASKS", "VTASKS_QUEUES", "VTASKS_SCHEDULE")


def chosen():
    """The settings of the guide."""
    namespace = {}
    exec(FILES["settings.py"], namespace)
    return {name: namespace[name] for name in SETTINGS}


@pytest.fixture
def folder(tmp_path):
    """The project of the guide, as it is written there."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def guide(settings, folder, monkeypatch):
    """Its tasks and its settings, in this process."""
    for name, value in chosen().items():
        setattr(settings, name, value)
    monkeypatch.syspath_prepend(folder)
    yield importlib.import_module("shop.tasks")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.django_db
def test_the_project_of_the_guide_runs(guide):
    with travel(datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        clock.advance(timedelta(hours=1))
        assert {job.task for job in fire_due()} == {"shop.tasks.clean_up", "shop.tasks.nightly"}
        drained = drain()
        assert {ran.task for ran in drained.succeeded} >= {"shop.tasks.nightly", "shop.tasks.clean_up"}
        assert [ran.retry_in for ran in drained.retried] == [30.0]
        clock.advance(60)
        assert "shop.tasks.notify" in {ran.task for ran in drain().succeeded}
        clock.advance(60)
        drain()
        clock.advance(60)
        (failed,) = drain().failed
        assert isinstance(failed.error, OSError)


@pytest.mark.django_db
def test_a_part_that_fails_fails_what_was_a_chord(guide):
    report = importlib.import_module("shop.report")
    report.total.delay([report.sales_of.delay("sunday").id], "week")
    assert {type(ran.error) for ran in drain(delayed=True).failed} == {KeyError}


@pytest.mark.django_db
def test_a_wait_for_parts_that_never_are_done_ends(guide):
    report = importlib.import_module("shop.report")
    with travel(datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        report.total.delay(["nobody"], "week")
        assert len(drain().snoozed) == 1
        clock.advance(timedelta(days=1, seconds=1))
        (failed,) = drain().failed
        assert "expire" in repr(failed).lower()


@pytest.mark.django_db
def test_the_receivers_of_the_guide_are_called(guide, capsys):
    signals = importlib.import_module("shop.signals")
    try:
        guide.fetch.delay("x")
        drain(delayed=True)
    finally:
        task_started.disconnect(signals.began)
        for signal in (task_finished, task_failure, task_retried):
            signal.disconnect(signals.ended)
    assert capsys.readouterr().out.count("ended with") == 4


MEMORY = {"TASKS": {"default": {"BACKEND": "django_vtasks.backends.memory.MemoryTaskBackend"}}}


@pytest.mark.parametrize("tasks", [{}, MEMORY], ids=["database", "memory"])
def test_the_tests_of_the_guide_pass(folder, tasks):
    """In memory is what it advises those who move to Valkey."""
    apps = ["django.contrib.contenttypes", "django_vtasks", "django_vtasks.db", "shop"]
    wanted = chosen() | tasks | {"INSTALLED_APPS": apps, "MIDDLEWARE": [], "ROOT_URLCONF": "django_vtasks.empty_urls"}
    env = process_environment(
        PYTHONPATH=os.pathsep.join(map(str, (folder, ROOT / "src", ROOT))), VTASKS_TEST_SETTINGS=json.dumps(wanted)
    )
    done = subprocess.run(
        [sys.executable, str(MANAGE), "test", "shop", "--noinput"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 3 tests" in done.stderr


# -- commands ---------------------------------------------------------------------------------------------------------


def run_command(beginning, folder):
    """Run the command of the guide that begins so; returns its output."""
    (command,) = re.findall(rf"^ +\$ ({beginning}.*?)(?:\n +\$|\n +```)", GUIDE, re.MULTILINE | re.DOTALL)
    command = re.sub(r"\\\n\s*", " ", command)
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=20, check=True)
    return done.stdout


@pytest.fixture
def old_project(tmp_path):
    """A project on Celery, with the virtual environment that the quick start makes beside it."""
    installed = tmp_path / ".venv" / "lib" / "python3" / "site-packages" / "celery"
    installed.mkdir(parents=True)
    (installed / "app.py").write_text("from celery import Celery\nchain()\n")
    (tmp_path / "tasks.py").write_text(
        "from celery import shared_task\n"
        "from celery.exceptions import Retry\n"
        "from celery.utils.log import get_task_logger\n"
        "from proj.celery import app\n"
        "@app.task\n"
        "def charge():\n"
        "    from proj import celery_app\n"
    )
    (tmp_path / "celery.py").write_text("from celery import Celery\n")
    return tmp_path


def test_imports_are_changed_in_the_project_and_not_in_what_is_installed(old_project):
    run_command("grep -rlE", old_project)
    assert (old_project / "tasks.py").read_text() == (
        "from django_vtasks.contrib.celery import shared_task\n"
        "from django_vtasks.contrib.celery import Retry\n"
        "from django_vtasks.contrib.celery import get_task_logger\n"
        "from django_vtasks.contrib.celery import shared_task\n"
        "@shared_task\n"
        "def charge():\n"
        "    from django_vtasks.contrib.celery import shared_task\n"
    )
    # The app goes, or stays as it is where other packages need it.
    assert (old_project / "celery.py").read_text() == "from celery import Celery\n"
    installed = next(old_project.rglob("app.py"))
    assert installed.read_text() == "from celery import Celery\nchain()\n"


LEFT = (
    "from celery.signals import task_prerun",
    "import celery",
    "CELERY_TASK_ALWAYS_EAGER = True",
    "chain(a, b)",
    "work = group(a.s(1))",
    "charge.apply(args=(1,))",
    "charge.si(1)",
    "app.conf.task_always_eager = True",
    "app.send_task('shop.tasks.charge')",
    "current_app.control.revoke(id)",
)


@pytest.mark.parametrize("line", LEFT)
def test_what_is_left_is_found(old_project, line):
    (old_project / "orders.py").write_text(f"{line}\n")
    assert f"orders.py:1:{line}\n" in run_command("grep -rnE", old_project)


def test_a_moved_project_has_nothing_left(old_project):
    run_command("grep -rlE", old_project)
    (old_project / "celery.py").unlink()
    (old_project / "orders.py").write_text("charge.apply_async((1,), countdown=1)\ncharge.delay(1)\n")
    with pytest.raises(subprocess.CalledProcessError):  # grep has found nothing
        run_command("grep -rnE", old_project)


@pytest.mark.parametrize("page", ["from-celery.md", "from-others.md"])
def test_commands_and_settings_that_the_guides_name_exist(page):
    from django_vtasks.conf import DEFAULTS
    from django_vtasks.management.commands.runworker import Command

    text = (ROOT / "docs" / "upgrading" / page).read_text()
    flags = set(re.findall(r"runworker((?: --[a-z-]+(?: [A-Za-z0-9]+)?)+)", text))
    parser = Command().create_parser("manage.py", "runworker")
    for line in flags:
        parser.parse_args(line.replace("--max-jobs", "--max-jobs 5").split())
    assert set(re.findall(r"VTASKS_[A-Z_]+", text)) <= set(DEFAULTS)

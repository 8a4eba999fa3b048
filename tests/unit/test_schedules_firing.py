"""The job that a slot becomes, and where entries come from."""

from __future__ import annotations

import sys
import types

import pytest
from django.apps import apps

from django_vtasks import task
from django_vtasks.conf import SCHEDULE_ENTRY_KEYS
from django_vtasks.exceptions import TaskNotFound
from django_vtasks.framework import InvalidTask, django_task
from django_vtasks.jobs.model import UniqueMode
from django_vtasks.scheduling import sources
from django_vtasks.scheduling.entries import ScheduleEntry
from django_vtasks.scheduling.firing import JobMaker, job_id
from django_vtasks.scheduling.options import KEYS, Overlap
from django_vtasks.scheduling.schedules import Cron, Every

SLOT = 1_767_225_600.0
HEX, UUID = "0" * 32, "00000000-0000-0000-0000-000000000000"


def entry(path="tests.project.tasks.echo", **options):
    return ScheduleEntry(name="entry", task=path, **{"schedule": Every(60)} | options)


def made(*, now=SLOT, **options):
    return JobMaker(alias="default", sample_id=HEX)(entry(**options), SLOT, now)


def test_a_slot_becomes_a_job_of_the_entrys_task():
    job = made(args=(1,), kwargs={"b": 2}, now=SLOT + 0.5)
    assert (job.func, list(job.args), dict(job.kwargs)) == ("tests.project.tasks.echo", [1], {"b": 2})
    assert (job.queue, job.priority, job.enqueued_at, job.run_after) == ("default", 0, SLOT + 0.5, None)
    assert job.unique is None


def test_the_entry_has_the_last_word_on_priority():
    assert made(priority=7).priority == 7


def test_a_queue_that_the_backend_does_not_have_is_an_error_that_names_it():
    with pytest.raises(InvalidTask, match="nowhere"):
        made(queue="nowhere")


def test_a_path_that_leads_to_no_task_is_an_error_that_says_why():
    for path in ("tests.project.tasks.nothing", "tests.project.nowhere.echo", "tests.project.tasks.Effect"):
        with pytest.raises(TaskNotFound, match=path.rpartition(".")[2]):
            made(path=path)


def test_arguments_that_are_not_json_are_an_error():
    with pytest.raises((TypeError, ValueError)):
        made(args=(object(),))


def test_jitter_delays_the_job_by_less_than_it_says_and_always_the_same():
    delayed = made(jitter=30.0)
    assert SLOT < delayed.run_after < SLOT + 30
    assert made(jitter=30.0, now=SLOT + 0.001).run_after == delayed.run_after


def test_a_late_slot_with_jitter_is_not_delayed_further():
    assert made(jitter=30.0, now=SLOT + 30).run_after is None


def test_the_id_of_a_slots_job_is_known_beforehand_and_has_the_form_of_the_store():
    job = made()
    assert job.id == job_id("entry", SLOT, like=HEX) == job_id("entry", SLOT, like=UUID).replace("-", "")
    assert len(job.id) == 32
    assert len({job.id, job_id("entry", SLOT + 1, like=HEX), job_id("other", SLOT, like=HEX)}) == 3


def test_jobs_that_must_not_overlap_share_a_unique_key():
    assert made(overlap=Overlap.SKIP).unique.mode is UniqueMode.UNTIL_DONE
    assert made(overlap=Overlap.QUEUE).unique.mode is UniqueMode.UNTIL_STARTED
    assert made(overlap=Overlap.SKIP).unique.key == "schedule:entry"


@task(unique=True)
def alone():
    """Never runs twice at a time, whoever enqueues it."""


@django_task
def plain():
    """A task of Django's own decorator."""


def test_a_task_that_is_unique_keeps_its_own_key():
    unique = made(path=alone.module_path, overlap=Overlap.SKIP).unique
    assert "alone" in unique.key


def test_a_task_of_djangos_own_decorator_can_be_scheduled():
    job = made(path=f"{__name__}.plain", priority=3, queue="default")
    assert (job.func, job.priority) == (f"{__name__}.plain", 3)


# -- where entries come from ------------------------------------------------------------------------------------------


@task(schedule="0 5 * * *")
def declared():
    """Every morning."""


@task(schedule={"name": "renamed", "schedule": 60, "overlap": "skip"})
def declared_with_options():
    """Every minute."""


@task(schedule=True)
def badly_declared():
    """Never."""


@pytest.fixture
def tasks_module(monkeypatch):
    """A module `tasks` of the test project's app that holds the tasks declared above."""
    monkeypatch.setattr(
        sources, "_tasks_module", lambda app: holder if app is apps.get_app_config("project").module else None
    )
    holder = types.ModuleType("holder")
    holder.declared, holder.again = declared, declared
    holder.declared_with_options, holder.badly_declared = declared_with_options, badly_declared
    return holder


def test_tasks_declare_entries_of_their_own(tasks_module):
    found = sources.from_tasks()
    by_name = {one.name: one for one in found.usable}
    assert by_name.keys() == {f"{__name__}.declared", "renamed"}
    assert by_name["renamed"].overlap is Overlap.SKIP
    assert by_name[f"{__name__}.declared"].schedule == Cron("0 5 * * *")
    assert [(problem.code, problem.entry) for problem in found.problems] == [("W007", f"{__name__}.badly_declared")]


def test_the_setting_wins_over_a_declaration_of_the_same_name(tasks_module, settings):
    settings.VTASKS_SCHEDULE = {"renamed": {"task": "tests.project.tasks.echo", "schedule": 5}}
    found = sources.static_entries()
    assert [one.schedule for one in found.usable if one.name == "renamed"] == [Every(5)]
    assert any("twice" in problem.message for problem in found.problems)


def test_the_tasks_modules_of_installed_apps_are_looked_through():
    assert "tests.project.tasks" in sys.modules or sources.from_tasks() is not None
    assert sources._tasks_module(apps.get_app_config("project").module) is sys.modules["tests.project.tasks"]
    assert sources._tasks_module(apps.get_app_config("auth").module) is None


def test_the_default_zone_is_a_setting(settings):
    settings.VTASKS_SCHEDULE_TIMEZONE = "Europe/Berlin"
    settings.VTASKS_SCHEDULE = {"a": {"task": "tests.project.tasks.echo", "schedule": "0 5 * * *"}}
    assert sources.from_setting().usable[0].schedule.timezone == "Europe/Berlin"


def test_a_scheduler_may_get_something_to_do_where_entries_can_be_added(settings, monkeypatch):
    settings.VTASKS_SCHEDULE = {}
    assert sources.may_have_entries()  # rows of the database
    monkeypatch.setattr(sources, "has_rows", lambda: False)
    assert not sources.may_have_entries()
    settings.VTASKS_SCHEDULE = {"a": {"task": "tests.project.tasks.echo", "schedule": 5}}
    assert sources.may_have_entries()


def test_the_keys_of_the_setting_are_known_under_their_old_name():
    assert set(KEYS) == SCHEDULE_ENTRY_KEYS


def codes(settings, **entries):
    settings.VTASKS_SCHEDULE = entries
    return [code for code, _, _ in sources.check_problems()]


def test_the_checks_follow_the_path_of_a_task_into_installed_packages(settings):
    assert codes(settings, good={"task": "tests.project.tasks.echo", "schedule": 5}) == []
    assert codes(settings, typo={"task": "tests.project.tasks.ehco", "schedule": 5}) == ["W003"]
    assert codes(settings, elsewhere={"task": "not_installed_here.tasks.run", "schedule": 5}) == []


def test_the_checks_report_a_wrong_default_zone_once(settings):
    settings.VTASKS_SCHEDULE_TIMEZONE = "Mars"
    cron = {"task": "tests.project.tasks.echo", "schedule": "0 5 * * *"}
    assert codes(settings, a=cron, b=cron) == ["W013"]


def test_crontab_and_the_scheduler_have_their_old_names():
    from django_vtasks import scheduler

    assert scheduler.crontab(hour=5, minute=0) == "0 5 * * *"
    assert scheduler.Scheduler.__name__ == "Scheduler"
    with pytest.raises(AttributeError):
        scheduler.nothing  # noqa: B018


def test_importing_crontab_needs_no_settings():
    import subprocess

    code = "from django_vtasks.scheduler import crontab; print(crontab(hour=5, minute=0))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": "src"}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "0 5 * * *\n", done.stderr

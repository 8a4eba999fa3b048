"""What operators are told about schedule entries, as values and by the command."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from django_vtasks.db.models import ScheduleEntry as Row
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.management.commands import vtasks_schedule
from django_vtasks.scheduling import rows
from django_vtasks.scheduling.entries import Entries, Problem, ScheduleEntry, parse
from django_vtasks.scheduling.overview import UPCOMING, Standing, overview, upcoming, wording
from django_vtasks.scheduling.schedules import Cron, Every

T = 1_767_225_600.0  # 2026-01-01 00:00 UTC
ECHO = "tests.project.tasks.echo"


def entry(schedule, **options):
    return ScheduleEntry(**{"name": "entry", "task": ECHO, "schedule": schedule} | options)


def view(one, *, last=None, now=T, lost=()):
    (found,) = overview(Entries(usable=(one,)), lost, {} if last is None else {"entry": last}, now)
    return found


def next_slots(one, *, last=None, now=T, count=3):
    slots = upcoming(one, last, now)
    return [next(slots, None) for _ in range(count)]


def test_the_next_runs_of_a_cron_entry():
    assert next_slots(entry(Cron("0 * * * *")), last=T - 3600, now=T - 1) == [T, T + 3600, T + 7200]
    assert next_slots(entry(Cron("0 * * * *")), now=T) == [T + 3600, T + 7200, T + 10800]
    assert next_slots(entry(Cron("0 0 30 2 *")), now=T) == [None, None, None]


def test_the_next_runs_of_an_interval_keep_its_beat():
    assert next_slots(entry(Every(60)), last=T - 10) == [T + 50, T + 110, T + 170]
    assert next_slots(entry(Every(60))) == [T, T + 60, T + 120]
    assert next_slots(entry(Every(60), run_on_start=False)) == [T + 60, T + 120, T + 180]


def test_a_slot_that_is_due_is_due_now():
    assert next_slots(entry(Every(60)), last=T - 130) == [T, T + 50, T + 110]
    assert next_slots(entry(Cron("0 * * * *")), last=T - 9000, now=T + 60) == [T + 60, T + 3600, T + 7200]


def test_an_entry_that_runs_needs_no_explanation():
    found = view(entry(Every(60), description="Beats"), last=T - 10)
    assert (found.standing, found.why, found.last, found.next) == (Standing.WAITING, "", T - 10, T + 50)
    assert (found.when, found.task, found.description) == ("every 60 s", ECHO, "Beats")
    assert len(found.upcoming) == UPCOMING


@pytest.mark.parametrize(
    ("one", "last", "standing", "reason"),
    [
        (entry(Every(60), enabled=False), T, Standing.DISABLED, "disabled"),
        (entry(Every(60)), None, Standing.NEW, "--scheduler"),
        (entry(Every(60)), T - 600, Standing.OVERDUE, "--scheduler"),
        (entry(Cron("0 * * * *")), T - 9000, Standing.OVERDUE, "--scheduler"),
    ],
)
def test_an_entry_that_does_not_run_is_explained(one, last, standing, reason):
    found = view(one, last=last)
    assert found.standing is standing
    assert reason in found.why
    assert found.why[-1].isalpha()  # a clause, to be put into sentences


def test_an_entry_that_can_never_run_is_explained():
    lost = (Problem(code="W003", entry="entry", message="no such task", hint="Correct it."),)
    found = view(entry(Every(60)), lost=lost)
    assert (found.standing, found.why, found.upcoming) == (Standing.NEVER, "no such task. Correct it.", ())


def test_unusable_entries_are_listed_among_the_others():
    parsed = parse({"b": {"task": ECHO, "schedule": True}, "a": {"task": ECHO, "schedule": 1, "odd": 1}})
    views = overview(parsed, (), {}, T)
    assert [(one.name, one.standing) for one in views] == [("a", Standing.NEW), ("b", Standing.NEVER)]
    assert "truth value" in views[1].why


def test_schedules_in_words():
    assert wording(Every(0.5)) == "every 0.5 s"
    assert wording(Cron("0 5 * * *", "Europe/Berlin")) == "0 5 * * * Europe/Berlin"


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def command(monkeypatch, settings, capsys, db):
    """Run the command over a setting and recorded slots; returns what it printed and its exit code."""

    def run(*arguments, schedule, recorded=()):
        store = SimpleNamespace(recorded_slots=lambda names: {n: s for n, s in dict(recorded).items() if n in names})
        monkeypatch.setattr(vtasks_schedule, "alias_named", lambda name: SimpleNamespace(admin=store))
        monkeypatch.setattr(vtasks_schedule.time, "time", lambda: T)
        settings.VTASKS_SCHEDULE = schedule
        try:
            call_command("vtasks_schedule", *arguments)
        except CommandError as error:
            return capsys.readouterr().out + str(error), error.returncode
        return capsys.readouterr().out, 0

    return run


def test_the_command_lists_last_and_next_runs(command):
    printed, code = command(schedule={"beat": {"task": ECHO, "schedule": 60}}, recorded={"beat": T - 20})
    assert code == 0
    assert printed.split() == (
        f"entry schedule task last next beat every 60 s {ECHO} 20 s ago in 40 s"
    ).split()  # fmt: skip


def test_the_command_explains_what_will_never_run_and_fails(command):
    printed, code = command(
        schedule={
            "typo": {"task": "tests.project.tasks.ehco", "schedule": 60},
            "february": {"task": ECHO, "schedule": "0 0 30 2 *"},
            "good": {"task": ECHO, "schedule": 60},
        }
    )
    assert code == 1
    assert "no task 'ehco'" in printed
    assert "never fires" in printed
    assert "never run: february, typo" in printed


def test_the_command_speaks_json(command):
    printed, code = command("--json", schedule={"beat": {"task": ECHO, "schedule": 60}}, recorded={"beat": T - 20})
    (said,) = json.loads(printed)
    assert code == 0
    assert (said["name"], said["standing"], said["last"]) == ("beat", "waiting", "2025-12-31T23:59:40+00:00")
    assert said["next"][:2] == ["2026-01-01T00:00:40+00:00", "2026-01-01T00:01:40+00:00"]


def test_the_command_shows_one_entry_in_full(command):
    schedule = {"beat": {"task": ECHO, "schedule": 60, "description": "Beats"}, "other": {"task": ECHO, "schedule": 1}}
    printed, _ = command("beat", schedule=schedule, recorded={"beat": T - 20})
    assert "other" not in printed
    assert "Beats" in printed
    assert printed.count("next") == UPCOMING


def test_the_command_knows_its_entries(command):
    printed, code = command("beet", schedule={"beat": {"task": ECHO, "schedule": 60}})
    assert code == 2
    assert "there is: beat" in printed


def test_without_entries_the_command_says_where_they_come_from(command):
    printed, code = command(schedule={})
    assert code == 0
    assert "VTASKS_SCHEDULE is empty" in printed


def test_entries_of_the_database_are_listed_too(command):
    Row.objects.create(name="row", task=ECHO, schedule="60")
    printed, code = command(schedule={"beat": {"task": ECHO, "schedule": 60}})
    assert code == 0
    assert "row" in printed
    assert "beat" in printed


def test_a_table_that_cannot_be_read_hides_no_other_entry(command, monkeypatch):
    def fails():
        raise DatabaseError("no such table: db_scheduleentry")

    monkeypatch.setattr(rows, "from_rows", fails)
    printed, code = command(schedule={"beat": {"task": ECHO, "schedule": 60}})
    assert code == 1
    assert "beat" in printed
    assert "no such table" in printed


def test_a_setting_of_the_wrong_kind_is_explained(command):
    printed, code = command(schedule=["beat"])
    assert code == 1
    assert "VTASKS_SCHEDULE is a list" in printed


def test_a_store_that_is_away_is_an_error_of_its_own(command, monkeypatch):
    def away(*_args, **_kwargs):
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(vtasks_schedule, "agenda_of", away)
    assert command(schedule={}) == ("the store is away", 2)

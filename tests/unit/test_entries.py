"""From the setting `VTASKS_SCHEDULE` to entries, and what is said about those that cannot be used."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from django_vtasks.scheduling.entries import Entries, crontab, parse, parse_entry, schedule_problems
from django_vtasks.scheduling.options import Overlap
from django_vtasks.scheduling.schedules import Cron, Every

GOOD = {"task": "app.tasks.run", "schedule": 60}


def one(**options):
    parsed = parse({"entry": GOOD | options})
    assert parsed.problems == ()
    return parsed.usable[0]


def codes(setting, **more):
    return [code for code, _, _ in schedule_problems(setting, **more)]


def test_an_entry_needs_a_task_and_a_schedule_only():
    entry = one()
    assert (entry.name, entry.task, entry.schedule) == ("entry", "app.tasks.run", Every(60))
    assert (entry.args, entry.kwargs, entry.queue, entry.priority) == ((), {}, None, None)
    assert (entry.jitter, entry.catch_up, entry.overlap) == (0.0, 1, Overlap.ALLOW)
    assert (entry.run_on_start, entry.enabled, entry.description) == (None, True, "")


def test_every_option_is_read():
    entry = one(
        schedule="0 5 * * *",
        args=[1, "a"],
        kwargs={"b": 2},
        queue="reports",
        priority=-7,
        timezone="Europe/Berlin",
        jitter=timedelta(seconds=30),
        catch_up="all",
        overlap="skip",
        run_on_start=True,
        enabled=False,
        description="Send the reports",
    )
    assert entry.schedule == Cron("0 5 * * *", "Europe/Berlin")
    assert (entry.args, entry.kwargs, entry.queue, entry.priority) == ((1, "a"), {"b": 2}, "reports", -7)
    assert (entry.jitter, entry.catch_up, entry.overlap) == (30.0, 1000, Overlap.SKIP)
    assert (entry.run_on_start, entry.enabled, entry.description) == (True, False, "Send the reports")


@pytest.mark.parametrize(
    ("value", "schedule"),
    [
        ("*/5 * * * *", Cron("*/5 * * * *", "Asia/Tokyo")),
        (1, Every(1)),
        (0.5, Every(0.5)),
        (timedelta(hours=4), Every(14400.0)),
    ],
)
def test_the_kinds_of_schedule(value, schedule):
    parsed = parse({"entry": GOOD | {"schedule": value}}, timezone="Asia/Tokyo")
    assert parsed.usable[0].schedule == schedule


def test_a_zone_may_be_given_as_an_object():
    assert one(schedule="0 5 * * *", timezone=ZoneInfo("Europe/Berlin")).schedule.timezone == "Europe/Berlin"


def test_an_option_that_is_none_counts_as_left_out():
    assert one(args=None, kwargs=None, queue=None, timezone=None, catch_up=None, enabled=None) == one()


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ([], "W001"),
        ("x", "W001"),
        ({"entry": 60}, "W002"),
        ({"entry": None}, "W002"),
        ({7: GOOD}, "W002"),
        ({"": GOOD}, "W002"),
        ({"entry": {"schedule": 60}}, "W003"),
        ({"entry": GOOD | {"task": "run"}}, "W003"),
        ({"entry": GOOD | {"task": "app..run"}}, "W003"),
        ({"entry": GOOD | {"task": len}}, "W003"),
        ({"entry": {"task": "app.tasks.run"}}, "W004"),
        ({"entry": GOOD | {"schedule": None}}, "W004"),
        ({"entry": GOOD | {"schedule": "0 0 30 2 *"}}, "W005"),
        ({"entry": GOOD | {"schedule": "0 5 * *"}}, "W005"),
        ({"entry": GOOD | {"schedule": ""}}, "W005"),
        ({"entry": GOOD | {"schedule": [60]}}, "W006"),
        ({"entry": GOOD | {"schedule": float("nan")}}, "W006"),
        ({"entry": GOOD | {"schedule": float("inf")}}, "W006"),
        ({"entry": GOOD | {"schedule": 10**400}}, "W006"),
        ({"entry": GOOD | {"schedule": True}}, "W007"),
        ({"entry": GOOD | {"schedule": False}}, "W007"),
        ({"entry": GOOD | {"schedule": 0}}, "W008"),
        ({"entry": GOOD | {"schedule": -1.5}}, "W008"),
        ({"entry": GOOD | {"schedule": timedelta(0)}}, "W008"),
        ({"entry": GOOD | {"arguments": []}}, "W009"),
        ({"entry": GOOD | {"args": "ab"}}, "W013"),
        ({"entry": GOOD | {"kwargs": {1: 2}}}, "W013"),
        ({"entry": GOOD | {"queue": ""}}, "W013"),
        ({"entry": GOOD | {"priority": 101}}, "W013"),
        ({"entry": GOOD | {"priority": True}}, "W013"),
        ({"entry": GOOD | {"timezone": "Berlin"}}, "W013"),
        ({"entry": GOOD | {"schedule": "0 5 * * *", "timezone": 7}}, "W013"),
        ({"entry": GOOD | {"jitter": -1}}, "W013"),
        ({"entry": GOOD | {"jitter": float("nan")}}, "W013"),
        ({"entry": GOOD | {"catch_up": "some"}}, "W013"),
        ({"entry": GOOD | {"catch_up": True}}, "W013"),
        ({"entry": GOOD | {"overlap": "wait"}}, "W013"),
        ({"entry": GOOD | {"overlap": ["skip"]}}, "W013"),
        ({"entry": GOOD | {"run_on_start": "yes"}}, "W013"),
        ({"entry": GOOD | {"enabled": 1}}, "W013"),
        ({"entry": GOOD | {"description": 5}}, "W013"),
    ],
)
def test_a_bad_entry_is_reported_under_its_number_and_no_other(setting, code):
    assert codes(setting) == [code]


def test_every_problem_of_every_entry_is_reported_and_the_good_ones_remain():
    parsed = parse(
        {
            "bad": {"task": "run", "schedule": True, "priority": "high"},
            "good": GOOD,
            "odd": 5,
        }
    )
    assert [entry.name for entry in parsed.usable] == ["good"]
    assert sorted(problem.code for problem in parsed.problems) == ["W002", "W003", "W007", "W013"]
    assert all(problem.entry in problem.message for problem in parsed.problems)


def test_a_good_setting_has_no_problems():
    assert codes({"a": GOOD, "b": GOOD | {"schedule": crontab(hour=5, minute=0)}}) == []
    assert codes({}) == []
    assert codes(None) == []


def test_an_unknown_key_is_reported_and_the_entry_runs_as_before():
    parsed = parse({"entry": GOOD | {"arg": [1], "options": {}}})
    assert len(parsed.usable) == 1
    assert "'arg', 'options'" in parsed.problems[0].message
    assert not parsed.problems[0].fatal


def test_a_wrong_default_zone_is_reported_once_for_all_entries():
    cron = GOOD | {"schedule": "0 5 * * *"}
    assert codes({"a": cron, "b": cron}, timezone="Mars") == ["W013"]
    assert parse({"a": cron, "b": GOOD}, timezone="Mars").usable == (parse_entry("b", GOOD).usable[0],)


def test_of_two_entries_with_one_name_the_first_counts():
    ours = parse({"a": GOOD})
    both = ours + parse({"a": GOOD | {"schedule": 5}, "b": GOOD})
    assert [(entry.name, entry.schedule) for entry in both.usable] == [("a", Every(60)), ("b", Every(60))]
    assert ["twice" in problem.message for problem in both.problems] == [True]
    assert ours + Entries() == ours


def test_crontab_writes_the_fields_in_the_order_of_cron():
    assert crontab() == "* * * * *"
    assert crontab(hour=5, minute=0) == "0 5 * * *"
    assert crontab("1", "2", "3", "4", "5") == "1 2 4 5 3"
    assert crontab(minute="*/15", day_of_week="mon-fri") == "*/15 * * * mon-fri"


def test_crontab_refuses_what_is_no_cron_expression():
    for wrong in ({"minute": 60}, {"hour": "x"}, {"day_of_month": 0}, {"minute": ""}, {"minute": "1 2"}):
        with pytest.raises(ValueError, match="Invalid cron format"):
            crontab(**wrong)

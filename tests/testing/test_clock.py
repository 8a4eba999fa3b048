"""Moving the clock: delays, retries, windows, expiries, schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from django_vtasks.jobs.model import OutcomeKind
from django_vtasks.testing import afire_due, drain, enqueued, fire_due, travel
from tests.testing import tasks

NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)


def test_a_stopped_clock_moves_by_hand(memory):
    with travel(NOON) as clock:
        assert clock.now() == timezone.now() == NOON
        assert clock.advance(90) == NOON + timedelta(seconds=90)
        clock.advance(timedelta(minutes=1))
        clock.move_to(NOON + timedelta(days=1))
        assert timezone.now() == NOON + timedelta(days=1)
        with pytest.raises(ValueError, match="does not go back"):
            clock.advance(-1)
        with pytest.raises(RuntimeError, match="in use already"), travel():
            pass
    assert timezone.now() > NOON + timedelta(days=1)


def test_without_a_moment_it_begins_now(memory):
    before = datetime.now(UTC)
    with travel() as clock:
        assert timedelta(0) <= clock.now() - before < timedelta(seconds=60)


@pytest.mark.parametrize("moment", [timedelta(hours=1), NOON + timedelta(hours=1)], ids=["relative", "absolute"])
def test_delays_go_by_it(kit, ran, moment):
    with travel(NOON) as clock:
        result = tasks.note.using(run_after=moment).enqueue("later")
        assert result.enqueued_at == NOON
        clock.advance(3599)
        assert drain().attempts == ()
        clock.advance(1)
        drain()
        assert ran == ["later"]
        result.refresh()
        assert result.started_at == NOON + timedelta(hours=1)


def test_a_delay_from_a_moved_clock_counts_from_there(kit, ran):
    with travel() as clock:
        clock.advance(86400)
        tasks.note.using(run_after=timedelta(hours=1)).enqueue("later")
        drain()
        assert ran == []
        clock.advance(3600)
        drain()
        assert ran == ["later"]


def test_retries_and_snoozes_go_by_it(kit, ran):
    with travel() as clock:
        tasks.flaky.enqueue()
        drain()
        for seconds, attempts in ((59, 1), (1, 2), (59, 2), (1, 3)):
            clock.advance(seconds)
            drain()
            assert len(ran) == attempts


def test_windows_go_by_it(kit, ran):
    with travel() as clock:
        assert tasks.hourly.enqueue(1) is not None
        assert tasks.hourly.enqueue(1) is None
        drain()
        clock.advance(3599)
        assert tasks.hourly.enqueue(1) is None
        clock.advance(2)
        assert tasks.hourly.enqueue(1) is not None


def test_expiries_go_by_it(kit, ran):
    with travel() as clock:
        tasks.perishable.enqueue()
        clock.advance(61)
        (failed,) = drain().failed
        assert failed.outcome is OutcomeKind.EXPIRED
        assert ran == []


def test_rates_go_by_it_and_what_they_keep_is_told(kit, ran):
    with travel() as clock:
        for value in (1, 2, 3):
            tasks.limited.enqueue(value)
        drained = drain()
        assert ran == [1]
        assert drained.limited == 2
        assert str(drained).startswith("1 succeeded, 2 waiting for a rate\n")
        clock.advance(59)
        assert drain(delayed=True).limited == 2
        assert ran == [1]
        clock.advance(1)
        drain()
        assert ran == [1, 2]
        clock.advance(60)
        assert drain().limited == 0
        assert ran == [1, 2, 3]


def test_jobs_are_still_there_when_the_clock_is_let_go(kit, ran):
    with travel():
        tasks.note.enqueue("waits")
    drain()
    assert ran == ["waits"]


# -- schedules --------------------------------------------------------------------------------------------------------

#: Entries may be rows of the database too, so looking at the schedule reads it.
with_rows = pytest.mark.django_db(databases="__all__")


@pytest.fixture
def nightly(settings):
    settings.VTASKS_SCHEDULE = {
        "nightly": {"task": "tests.testing.tasks.note", "schedule": "0 3 * * *", "args": ["nightly"]},
        "often": {"task": "tests.testing.tasks.note", "schedule": 3600, "args": ["often"]},
    }


@with_rows
def test_what_came_due_since_the_clock_stopped_is_fired(kit, ran, nightly):
    with travel(NOON) as clock:
        assert fire_due() == []
        clock.advance(3600)
        assert [job.args for job in fire_due()] == [("often",)]
        clock.move_to(NOON.replace(hour=0) + timedelta(days=1, hours=3, minutes=1))
        assert {job.args for job in fire_due()} == {("nightly",), ("often",)}
        assert fire_due() == []
        assert len(enqueued(tasks.note)) == 3
        drain()
        assert sorted(ran) == ["nightly", "often", "often"]


@with_rows
def test_a_first_look_after_moving_the_clock_finds_the_same(memory, nightly):
    with travel(NOON) as clock:
        clock.advance(86400)
        assert {job.args for job in fire_due()} == {("nightly",), ("often",)}


@with_rows
def test_on_the_real_clock_entries_begin_as_in_a_new_scheduler(memory, nightly):
    assert [job.args for job in fire_due()] == [("often",)]


@with_rows
async def test_async_tests_fire_too(memory, nightly):
    with travel(NOON) as clock:
        clock.advance(3600)
        assert len(await afire_due()) == 1


@with_rows
def test_a_wrong_entry_fails_the_test(memory, settings):
    settings.VTASKS_SCHEDULE = {"broken": {"task": "tests.testing.tasks.gone", "schedule": 60}}
    with pytest.raises(ValueError, match="broken"):
        fire_due()


@with_rows
def test_a_job_that_cannot_be_made_fails_the_test(memory, settings):
    settings.VTASKS_SCHEDULE = {
        "broken": {"task": "tests.testing.tasks.note", "schedule": 60, "kwargs": {"value": object()}}
    }
    with pytest.raises(TypeError):
        fire_due()

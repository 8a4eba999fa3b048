"""What an entry owes after a pause: the catch-up rules, first sight, and records that cannot be believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.scheduling.due import ALL, BATCH, MAX_AHEAD, Due, believable, due, first_sight, spread
from django_vtasks.scheduling.schedules import Cron, Every

T = 1_767_225_600.0  # 2026-01-01 00:00 UTC
HOURLY = Cron("0 * * * *")
NONE, LATEST = 0, 1


def test_nothing_is_due_before_the_next_slot():
    assert due(HOURLY, catch_up=LATEST, last=T, now=T + 3599.9) == Due()


def test_a_slot_is_due_at_its_moment():
    for catch_up in (NONE, LATEST, ALL):
        assert due(HOURLY, catch_up=catch_up, last=T, now=T + 3600) == Due(fire=(T + 3600,))


def test_after_an_outage_the_latest_slot_is_fired_and_the_others_are_counted():
    assert due(Every(10), catch_up=LATEST, last=T, now=T + 3600) == Due(fire=(T + 3600,), missed=359)


def test_after_an_outage_a_number_of_slots_is_fired_oldest_first():
    assert due(HOURLY, catch_up=3, last=T, now=T + 10 * 3600) == Due(
        fire=(T + 8 * 3600, T + 9 * 3600, T + 10 * 3600), missed=7
    )


def test_without_catch_up_a_late_slot_is_recorded_and_not_fired():
    assert due(HOURLY, catch_up=NONE, last=T, now=T + 3600 + 61) == Due(record=T + 3600, missed=1)


def test_without_catch_up_a_slot_of_the_last_minute_is_still_fired():
    assert due(HOURLY, catch_up=NONE, last=T, now=T + 3600 + 59) == Due(fire=(T + 3600,))


def test_without_catch_up_an_entry_goes_on_with_its_present_slot_after_an_outage():
    assert due(Every(1), catch_up=NONE, last=T, now=T + 3600.5) == Due(fire=(T + 3600,), missed=3599)


def test_a_hiccup_of_some_seconds_costs_no_slot():
    for catch_up in (NONE, LATEST, ALL):
        assert due(Every(1), catch_up=catch_up, last=T, now=T + 4.2) == Due(fire=(T + 1, T + 2, T + 3, T + 4))


def test_many_slots_are_fired_in_batches_and_counted_as_missed_once():
    first = due(Every(1), catch_up=ALL, last=T, now=T + 3000)
    assert (len(first.fire), first.missed, first.lost) == (BATCH, 2000, 2000)
    assert first.fire[0] == T + 2001
    second = due(Every(1), catch_up=ALL, last=first.fire[-1], now=T + 3000)
    assert (second.fire[0], second.missed) == (first.fire[-1] + 1, 0)


@given(
    st.sampled_from([Every(0.7), Every(60), HOURLY, Cron("30 2 * * *", "Europe/Berlin")]),
    st.integers(min_value=0, max_value=ALL),
    st.floats(min_value=0, max_value=40 * 86400),
)
def test_every_slot_that_passed_is_fired_once_or_counted_as_missed(schedule, catch_up, pause):
    now = T + pause
    fired, missed, last = [], 0, T
    while (owed := due(schedule, catch_up=catch_up, last=last, now=now)) != Due():
        fired += owed.fire
        missed += owed.missed
        last = owed.record if owed.record is not None else owed.fire[-1]
    passed = schedule.passed(T, now, 1).count
    assert fired == sorted(set(fired))
    assert all(T < slot <= now for slot in fired)
    if passed < 1000:  # beyond that, the slots of a cron expression are not counted
        assert len(fired) + missed == passed


def test_an_interval_that_was_never_recorded_is_due_at_once():
    assert first_sight(Every(60), run_on_start=None, now=T) == Due(fire=(T,))


def test_a_cron_entry_that_was_never_recorded_waits_for_its_next_slot():
    assert first_sight(HOURLY, run_on_start=None, now=T) == Due(record=T)


def test_run_on_start_says_otherwise_for_both():
    assert first_sight(Every(60), run_on_start=False, now=T) == Due(record=T)
    assert first_sight(HOURLY, run_on_start=True, now=T) == Due(fire=(T,))


def test_a_cron_slot_that_was_fired_before_the_clock_was_put_back_is_not_fired_again():
    last = believable(HOURLY, T + 7200, now=T)
    assert last == T + 7200
    assert due(HOURLY, catch_up=ALL, last=last, now=T + 7200) == Due()


def test_an_interval_does_not_stand_still_after_the_clock_was_put_back():
    assert believable(Every(1), T + 7200, now=T) is None
    assert believable(Every(10_000), T + 7200, now=T) == T + 7200


def test_a_record_that_no_working_clock_can_have_written_is_as_good_as_none():
    for last in (T + MAX_AHEAD + 1, float("nan"), float("inf"), -1.0, None):
        assert believable(HOURLY, last, now=T) is None


def test_the_spread_of_a_slot_is_the_same_for_everybody_and_below_the_jitter():
    delays = [spread("entry", T + number, 30.0) for number in range(200)]
    assert delays == [spread("entry", T + number, 30.0) for number in range(200)]
    assert all(0 <= delay < 30 for delay in delays)
    assert max(delays) - min(delays) > 20
    assert spread("entry", T, 30.0) != spread("other", T, 30.0)

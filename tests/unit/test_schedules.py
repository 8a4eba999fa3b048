"""When a cron expression or an interval is due, on days on which clocks change and on all others."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.scheduling.expressions import normalised
from django_vtasks.scheduling.schedules import MAX_COUNTED, Cron, Every

#: Ten zones that change their clocks at midnight, at two, by half an hour, the other way round, or never.
ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Santiago",
    "America/Asuncion",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
)

QUARTER = 15 * 60


def at(text, zone="UTC"):
    """Epoch seconds of a local reading; the first one of two."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def local(slot, zone):
    return datetime.fromtimestamp(slot, ZoneInfo(zone)).isoformat(timespec="minutes")


def following(expression, zone, after, count):
    cron, slots = Cron(expression, zone), []
    for _ in range(count):
        after = cron.next_after(after)
        slots.append(local(after, zone))
    return slots


# -- the rule, told by examples ---------------------------------------------------------------------------------------


def test_a_fixed_time_that_is_skipped_is_due_when_the_clock_jumps():
    assert following("30 2 * * *", "Europe/Berlin", at("2026-03-28T12:00", "Europe/Berlin"), 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


def test_several_skipped_fixed_times_are_due_once_together():
    assert following("0,20,40 2 * * *", "Europe/Berlin", at("2026-03-28T12:00", "Europe/Berlin"), 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:00+02:00",
    ]


def test_a_fixed_time_that_comes_twice_is_due_the_first_time():
    assert following("30 2 * * *", "Europe/Berlin", at("2026-10-24T12:00", "Europe/Berlin"), 2) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]


def test_what_follows_the_clock_does_not_happen_in_the_skipped_hour():
    assert following("*/30 2 * * *", "Europe/Berlin", at("2026-03-28T12:00", "Europe/Berlin"), 1) == [
        "2026-03-30T02:00+02:00"
    ]


def test_what_follows_the_clock_happens_again_in_the_repeated_hour():
    assert following("*/30 2 * * *", "Europe/Berlin", at("2026-10-24T12:00", "Europe/Berlin"), 4) == [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
    ]


def test_every_quarter_of_an_hour_passes_through_both_changes_evenly():
    for day in ("2026-03-29T00:00", "2026-10-25T00:00"):
        start = at(day, "Europe/Berlin")
        slots = list(Cron("*/15 * * * *", "Europe/Berlin").slots_between(start, start + 6 * 3600))
        assert slots == [start + number * QUARTER for number in range(1, 25)]


def test_a_midnight_that_does_not_exist_is_due_when_the_day_begins():
    assert following("0 0 * * *", "America/Santiago", at("2026-09-05T12:00", "America/Santiago"), 2) == [
        "2026-09-06T01:00-03:00",
        "2026-09-07T00:00-03:00",
    ]


def test_a_clock_put_back_over_a_week_boundary_does_not_repeat_a_fixed_time():
    # 1984-10-31 23:00 UTC, an hour before the boundary of the weeks that the calculation is divided into.
    start = at("1984-10-31T12:00", "Europe/Istanbul")
    assert following("30 1 * * *", "Europe/Istanbul", start, 2) == ["1984-11-01T01:30+03:00", "1984-11-02T01:30+02:00"]
    assert following("0 2 * * *", "Europe/Istanbul", start, 2) == ["1984-11-01T02:00+02:00", "1984-11-02T02:00+02:00"]


# -- a year of slots in ten zones, against a calculation of another kind ----------------------------------------------

EXPRESSIONS = {
    "30 2 * * *": ({30}, {2}, None),
    "0 0 * * *": ({0}, {0}, None),
    "45 1 * * *": ({45}, {1}, None),
    "5,35 0-3 * * *": ({5, 35}, {0, 1, 2, 3}, None),
    "*/30 0-3 * * *": ({0, 30}, {0, 1, 2, 3}, None),
    "0 */3 * * *": ({0}, set(range(0, 24, 3)), None),
    "*/10 0,2 * * SUN": ({0, 10, 20, 30, 40, 50}, {0, 2}, {6}),
    "15 2 * * SUN,FRI": ({15}, {2}, {4, 6}),
}
YEAR = (int(at("2026-01-01T00:00")), int(at("2027-01-01T00:00")))


@cache
def quarters(zone):
    """For each quarter of an hour of the year: its start and its offset."""
    starts = range(YEAR[0] - 2 * 86400, YEAR[1], QUARTER)
    clock = ZoneInfo(zone)
    return [(start, int(datetime.fromtimestamp(start, clock).utcoffset().total_seconds())) for start in starts]


def expected(expression, zone):
    """Walk through the year and look at the clock: no cron library, no search for changes of the offset."""
    minutes, hours, weekdays = EXPRESSIONS[expression]
    is_fixed = "*" not in "".join(expression.split()[:2])
    wanted = {hour * 60 + minute for hour in hours for minute in minutes}
    by_quarter = [[m * 60 for m in range(15) if quarter * 15 + m in wanted] for quarter in range(96)]

    def readings(second):  # the seconds that match within the quarter of an hour that begins at this local second
        today = weekdays is None or (second // 86400 + 3) % 7 in weekdays  # 1970-01-01 was a Thursday
        return [second + more for more in by_quarter[second // QUARTER % 96]] if today else []

    slots, highest, offset_before = [], -1, None
    for start, offset in quarters(zone):
        first = start + offset
        skipped = range(first - offset + offset_before, first, QUARTER) if offset_before is not None else ()
        if is_fixed and any(readings(second) for second in skipped):
            slots.append(start)
        if first > highest or not is_fixed:
            slots += [second - offset for second in readings(first)]
        highest, offset_before = max(highest, first), offset
    return sorted({float(slot) for slot in slots if YEAR[0] < slot < YEAR[1]})


@pytest.mark.parametrize("zone", ZONES)
def test_a_year_of_slots_is_exact(zone):
    for expression in EXPRESSIONS:
        slots = list(Cron(expression, zone).slots_between(YEAR[0], YEAR[1] - 1))
        assert slots == expected(expression, zone), expression


@pytest.mark.parametrize("zone", ZONES)
def test_a_year_backwards_is_the_same_year(zone):
    for expression in ("30 2 * * *", "0 0 * * *", "0 */3 * * *", "15 2 * * SUN,FRI"):
        cron, slots, before = Cron(expression, zone), [], float(YEAR[1] - 1)
        while (slot := cron.latest_at_or_before(before)) > YEAR[0]:
            slots.append(slot)
            before = slot - 0.5
        assert slots[::-1] == expected(expression, zone), expression


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 0 * * *", "40 * * * *", "*/20 2 * * *", "5,35 1-3 * * *"])
def test_where_cronsim_knows_the_zone_it_agrees(zone, expression):
    from cronsim import CronSim

    start, end = (datetime.fromtimestamp(second, ZoneInfo(zone)) for second in YEAR)
    theirs = []
    for reading in CronSim(expression, start):
        if reading >= end:
            break
        theirs.append(reading.timestamp())
    ours = list(Cron(expression, zone).slots_between(YEAR[0], YEAR[1] - 1))
    assert ours == sorted(set(theirs))  # several skipped times are one slot here and equal ones there


# -- from any moment, in either direction -----------------------------------------------------------------------------

moments = st.floats(min_value=at("2000-01-01T00:00"), max_value=at("2037-01-01T00:00"), allow_nan=False)
crons = st.builds(
    Cron,
    st.sampled_from(
        [
            "* * * * *",
            "30 2 * * *",
            "0 0 1 * *",
            "*/7 3-5 * * MON#2",
            "0 12 L * *",
            "15 1 29 2 *",
            "0 5 13 * FRI",
            "59 23 * * 5L",
            "0 4 LW * *",
        ]
    ),
    st.sampled_from(ZONES),
)


@given(crons, moments)
def test_the_next_slot_is_later_and_the_latest_is_not(cron, moment):
    following = cron.next_after(moment)
    latest = cron.latest_at_or_before(moment)
    assert latest <= moment < following


@given(crons, moments)
def test_nothing_lies_between_two_neighbouring_slots(cron, moment):
    following = cron.next_after(moment)
    latest = cron.latest_at_or_before(moment)
    assert cron.next_after(latest) == following
    assert cron.latest_at_or_before(following) == following
    assert cron.latest_at_or_before(following - 0.001) == latest
    assert list(cron.slots_between(latest, following)) == [following]


@given(crons, moments)
def test_the_minute_and_the_day_of_a_slot_that_is_not_moved_are_those_of_the_expression(cron, moment):
    slot = cron.next_after(moment)
    reading = datetime.fromtimestamp(slot, ZoneInfo(cron.timezone))
    offsets = {(reading + timedelta(hours=hours)).utcoffset() for hours in (-3, 3)}
    assert slot % 60 == 0
    minute = normalised(cron.expression).split()[0]
    if minute.isdigit() and len(offsets) == 1:
        assert reading.minute == int(minute)


# -- cron expressions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "meaning"),
    [
        ("@daily", "0 0 * * *"),
        ("@Hourly", "0 * * * *"),
        ("0  22-1 * * *", "0 22,23,0,1 * * *"),
        ("0 22-4/2 * * *", "0 22,0,2,4 * * *"),
        ("0 0 * nov-feb *", "0 0 * 11,12,1,2 *"),
        ("0 0 * * fri-mon", "0 0 * * 5,6,0,1"),
        ("0 0 ? * mon", "0 0 * * MON"),
        ("0 0 * * L5", "0 0 * * 5L"),
        ("0 0 * * 5-7", "0 0 * * 5-7"),
    ],
)
def test_spellings_that_the_library_does_not_know(expression, meaning):
    assert normalised(expression) == meaning
    start = at("2026-01-01T00:00")
    assert following(expression, "UTC", start, 8) == following(meaning, "UTC", start, 8)


@pytest.mark.parametrize(
    ("expression", "slots"),
    [
        ("0 9 * * MON-FRI", ["2026-01-02T09:00", "2026-01-05T09:00"]),
        ("0 0 L * *", ["2026-01-31T00:00", "2026-02-28T00:00"]),
        ("0 0 * * MON#1", ["2026-01-05T00:00", "2026-02-02T00:00"]),
        ("0 0 * * 5L", ["2026-01-30T00:00", "2026-02-27T00:00"]),
        ("0 0 29 FEB *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("0 0 13 * FRI", ["2026-01-02T00:00", "2026-01-09T00:00"]),  # either day, as in every cron
        ("0 0 */2 * MON", ["2026-01-05T00:00", "2026-01-19T00:00"]),  # both, since one begins with a star
    ],
)
def test_days(expression, slots):
    assert following(expression, "UTC", at("2026-01-01T10:00"), 2) == [f"{slot}+00:00" for slot in slots]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "a * * * *",
        "*/0 * * * *",
        "* * * * 5#9",
        "5-1/0 * * * *",
    ],
)
def test_what_is_no_cron_expression_is_refused(expression):
    with pytest.raises(ValueError, match="Invalid cron format"):
        Cron(expression)


def test_an_unknown_zone_is_refused_and_named():
    for zone in ("Europe/Berlim", "", "../etc", "/etc/localtime", "a\0b"):
        with pytest.raises(ValueError, match="unknown timezone"):
            Cron("* * * * *", zone)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_day_that_no_month_has_never_comes(expression):
    cron = Cron(expression, "Europe/Berlin")
    assert cron.next_after(0.0) is None
    assert cron.latest_at_or_before(at("2026-01-01T00:00")) is None
    assert cron.passed(0.0, at("2026-01-01T00:00"), 3).count == 0


# -- counting what has passed -----------------------------------------------------------------------------------------


def test_the_newest_slots_that_passed_and_how_many_there_were():
    start = at("2026-01-01T00:00")
    passed = Cron("0 * * * *").passed(start, start + 10.5 * 3600, 2)
    assert passed.slots == (start + 9 * 3600, start + 10 * 3600)
    assert passed.count == 10


def test_ten_years_of_minutes_are_not_counted_one_by_one():
    start = at("2016-01-01T00:00")
    assert Cron("* * * * *").passed(start, at("2026-01-01T00:00"), 1).count == MAX_COUNTED
    assert Every(1).passed(start, at("2026-01-01T00:00"), 1).count == 3653 * 86400


@given(
    st.floats(min_value=0, max_value=2e9),
    st.floats(min_value=0.01, max_value=1e6),
    st.floats(min_value=0, max_value=1e4),
    st.integers(min_value=1, max_value=50),
)
def test_slots_of_an_interval_are_never_early_and_none_is_left_out(slot, seconds, steps, limit):
    until = slot + steps * seconds
    every = Every(seconds)
    passed = every.passed(slot, until, limit)
    assert len(passed.slots) == min(limit, passed.count)
    assert all(slot < one <= until for one in passed.slots)
    assert slot + (passed.count + 1) * seconds > until
    if passed.slots:
        assert passed.slots[-1] == slot + passed.count * seconds


def test_an_interval_keeps_its_beat_however_late_it_is_noticed():
    chance = random.Random(7)
    slot, now, slots = 1000.25, 1000.25, []
    while len(slots) < 600:
        now += chance.uniform(0.0, 3.0)
        passed = list(Every(1).slots_between(slot, now))
        slots += passed
        slot = passed[-1] if passed else slot
    assert slots[:600] == [1001.25 + number for number in range(600)]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_an_interval_is_positive(seconds):
    with pytest.raises(ValueError, match="positive"):
        Every(seconds)


def test_slots_are_lazy():
    start = at("2026-01-01T00:00")
    assert list(islice(Cron("0 0 * * *").slots_between(start, at("9000-01-01T00:00")), 1)) == [start + 86400]
    assert datetime.fromtimestamp(start, UTC).year == 2026

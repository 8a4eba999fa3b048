"""When to try again: delays stay inside their bounds, whatever is asked for."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_vtasks.jobs.errors import Retry, Snooze
from django_vtasks.jobs.retries import MAX_DELAY, NAMED, Exponential, Fixed, RetryRule, clamp_delay, named_backoff
from tests.support.naming import shown

chances = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, 10_000), chances)
def test_an_exponential_delay_lies_between_floor_and_cap(failures, chance):
    backoff = Exponential(base=15, factor=2, cap=3600, floor=1)
    assert 1 <= backoff.delay(failures, chance) <= 3600


@pytest.mark.parametrize(("failures", "ceiling"), [(1, 15), (2, 30), (3, 60), (8, 1920), (9, 3600), (5000, 3600)])
def test_the_ceiling_doubles_up_to_the_cap_and_chance_spreads_below_it(failures, ceiling):
    backoff = Exponential(base=15.0, factor=2.0, cap=3600.0, floor=0.0)
    assert backoff.delay(failures, 0.0) == 0.0
    assert backoff.delay(failures, 0.5) == ceiling / 2
    assert backoff.delay(failures, math.nextafter(1, 0)) == pytest.approx(ceiling)


def test_a_floor_above_the_cap_gives_the_cap():
    assert Exponential(base=1, cap=5, floor=60).delay(3, 0.5) == 5


def test_a_fixed_delay_is_always_the_same():
    assert {Fixed(seconds=7).delay(failures, chance) for failures in (1, 9) for chance in (0.0, 0.9)} == {7}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (5, 5.0),
        (0.25, 0.25),
        (-3, 0.0),
        (-math.inf, 0.0),
        (math.inf, MAX_DELAY),
        (1e300, MAX_DELAY),
        (10**400, MAX_DELAY),
        (-(10**400), 0.0),
    ],
)
def test_negative_and_absurd_delays_are_made_safe(value, expected):
    assert clamp_delay(value) == expected


@pytest.mark.parametrize("value", ["5", True, False, b"5", [5], {}, object(), 5j, math.nan], ids=shown)
def test_what_is_no_number_of_seconds_is_refused(value):
    with pytest.raises((TypeError, ValueError), match="a delay must be a number of seconds"):
        clamp_delay(value)


@given(st.one_of(st.integers(), st.floats(allow_nan=False)))
def test_a_clamped_delay_is_a_finite_float_within_a_year(value):
    delay = clamp_delay(value)
    assert isinstance(delay, float)
    assert 0 <= delay <= MAX_DELAY


class TestNamedBackoff:
    @pytest.mark.parametrize("name", NAMED)
    def test_a_policy_has_a_name(self, name):
        assert named_backoff(name) is NAMED[name]

    def test_a_number_of_seconds_is_a_fixed_delay(self):
        assert named_backoff(5) == Fixed(seconds=5.0)
        assert named_backoff(-5) == Fixed(seconds=0.0)

    def test_a_policy_or_a_callable_is_taken_as_it_is(self):
        def double(exception, result):
            return 2

        for backoff in (Exponential(base=1), Fixed(seconds=1), double):
            assert named_backoff(backoff) is backoff

    def test_an_unknown_name_is_told_the_known_ones(self):
        with pytest.raises(ValueError, match="use one of exponential, fast, slow"):
            named_backoff("linear")

    @pytest.mark.parametrize("value", [None, True, [], math.nan], ids=shown)
    def test_anything_else_is_refused(self, value):
        with pytest.raises((TypeError, ValueError)):
            named_backoff(value)


class TestRetryRule:
    def test_every_exception_is_retried_by_default(self):
        assert RetryRule().wants(ValueError())

    @pytest.mark.parametrize(
        "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(), GeneratorExit()], ids=shown
    )
    def test_what_is_no_error_of_the_task_is_not_retried(self, error):
        assert not RetryRule().wants(error)

    def test_only_the_named_exceptions_and_their_kin_are_retried(self):
        rule = RetryRule(retry_on=(OSError, KeyError))
        assert rule.wants(TimeoutError())
        assert rule.wants(KeyError())
        assert not rule.wants(ValueError())

    def test_giving_up_goes_before_retrying(self):
        rule = RetryRule(retry_on=(OSError,), give_up_on=(FileNotFoundError,))
        assert rule.wants(PermissionError())
        assert not rule.wants(FileNotFoundError())

    def test_one_attempt_is_the_default(self):
        assert RetryRule().max_attempts == 1

    def test_an_exception_group_is_an_exception(self):
        assert RetryRule().wants(ExceptionGroup("several", [ValueError()]))


@pytest.mark.parametrize("raised", [Retry(-5), Snooze(-5)], ids=shown)
def test_a_task_cannot_ask_for_the_past(raised):
    assert raised.delay == 0.0


@pytest.mark.parametrize("kind", [Retry, Snooze])
@pytest.mark.parametrize("delay", ["soon", True, math.nan], ids=shown)
def test_a_task_that_asks_for_nonsense_is_told_so_where_it_asks(kind, delay):
    with pytest.raises((TypeError, ValueError), match="a delay must be a number of seconds"):
        kind(delay)

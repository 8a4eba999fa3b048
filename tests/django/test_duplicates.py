"""Unique rules through every way of enqueuing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from django_vtasks import Unique
from django_vtasks.jobs.model import UniqueMode
from django_vtasks.jobs.uniqueness import derive_key
from tests.support import sample_tasks as sample


def enqueue(task, *args, **kwargs):
    return task.enqueue(*args, **kwargs)


def aenqueue(task, *args, **kwargs):
    return asyncio.run(task.aenqueue(*args, **kwargs))


def enqueue_many(task, *args, **kwargs):
    (result,) = task.get_backend().enqueue_many([(task, args, kwargs)])
    return result


def aenqueue_many(task, *args, **kwargs):
    (result,) = asyncio.run(task.get_backend().aenqueue_many([(task, args, kwargs)]))
    return result


WAYS = pytest.mark.parametrize("way", [enqueue, aenqueue, enqueue_many, aenqueue_many])


def unique_of(memory, result):
    return memory.get(result.id).job.unique


@WAYS
def test_a_duplicate_is_none_and_other_arguments_are_no_duplicate(way, memory):
    first = way(sample.mutex, 1)
    assert way(sample.mutex, 1) is None
    assert way(sample.mutex, 2) is not None
    unique = unique_of(memory, first)
    assert unique.key == derive_key("tests.support.sample_tasks.mutex", [1], {})
    assert (unique.mode, unique.window) == (UniqueMode.UNTIL_DONE, None)


@WAYS
def test_with_the_option_a_duplicate_gives_the_survivors_result(way, memory):
    first = way(sample.survivor, 1)
    again = way(sample.survivor, 1)
    assert again == first
    assert again is not first


@WAYS
def test_a_fixed_key_counts_for_all_arguments(way, memory):
    """A key alone makes the task unique."""
    first = way(sample.keyed, 1)
    assert way(sample.keyed, 2) is None
    assert unique_of(memory, first).key == "one"
    assert way(sample.keyed.using(unique_key="two"), 1) is not None
    assert way(sample.keyed.using(unique=False), 1) is not None


def test_a_key_given_to_using_makes_the_call_unique(memory):
    assert unique_of(memory, sample.bare.using(unique_key="k").enqueue()).key == "k"
    assert sample.bare.using(unique_key="k").enqueue() is None
    assert unique_of(memory, sample.of_order.using(unique_key="n:{note}").enqueue(1, note="x")).key == "n:x"


@WAYS
def test_a_key_can_be_a_format_of_the_arguments(way, memory):
    assert unique_of(memory, way(sample.of_order, 7)).key == "order:7"
    assert way(sample.of_order, order_id=7, note="again") is None
    assert unique_of(memory, way(sample.of_order, order_id=8)).key == "order:8"


def test_a_key_can_be_a_function_of_the_arguments(memory):
    keyed = sample.of_order.using(unique=Unique.until_started(lambda order_id, **_rest: f"f{order_id}"))
    unique = unique_of(memory, keyed.enqueue(7))
    assert (unique.key, unique.mode) == ("f7", UniqueMode.UNTIL_STARTED)
    wrong = sample.of_order.using(unique=Unique.until_done(lambda order_id: order_id))
    with pytest.raises(TypeError, match="must return text"):
        wrong.enqueue(7)


def test_a_throttle_has_its_window_under_both_spellings(memory):
    old = unique_of(memory, sample.throttled.enqueue(1))
    assert (old.mode, old.window) == (UniqueMode.WINDOW, 60.0)
    new = unique_of(memory, sample.bare.using(unique=Unique.once_per(timedelta(minutes=2), "x")).enqueue(1))
    assert (new.mode, new.window, new.key) == (UniqueMode.WINDOW, 120.0, "x")


def test_a_mutex_may_have_a_limit_of_its_own(memory):
    unique = unique_of(memory, sample.mutex.using(ttl=9).enqueue(1))
    assert (unique.mode, unique.window) == (UniqueMode.UNTIL_DONE, 9.0)


@WAYS
def test_with_debounce_the_last_call_wins(way, memory):
    first = way(sample.debounced, 1)
    second = way(sample.debounced, 2)
    assert second.id == first.id
    assert second.args == [2]
    job = memory.get(first.id).job
    assert job.args == [2]
    assert job.run_after == pytest.approx(job.enqueued_at + 30, abs=10)
    assert first.task.run_after is not None
    assert second == sample.debounced.get_result(second.id)


def test_a_long_key_is_shortened_to_what_every_store_keeps(memory):
    unique = unique_of(memory, sample.bare.using(unique_key="k" * 300).enqueue())
    assert len(unique.key) <= 255
    assert sample.bare.using(unique_key="k" * 300).enqueue() is None
    assert sample.bare.using(unique_key="k" * 301).enqueue() is not None


def test_braces_that_name_nothing_are_text(memory):
    for key in ('{"a": 1}', "{}", "{0}", "{", "{{a}}"):
        assert unique_of(memory, sample.bare.using(unique_key=key).enqueue()).key == key, key


def test_the_context_is_not_part_of_a_key(memory):
    task = sample.with_context.using(unique_key="a={a}")
    assert unique_of(memory, task.enqueue(5)).key == "a=5"

"""What a test sees of what waits, and how a failing assertion reads."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from unittest.mock import ANY

import pytest
from django.db import transaction

from django_vtasks.testing import TasksMixin, assert_enqueued, assert_not_enqueued, drain, enqueued
from tests.testing import tasks


def test_jobs_are_seen_as_they_were_enqueued(kit):
    result = tasks.welcome.using(queue_name="mail", priority=5).enqueue(17, kind="sms")
    tasks.note.using(run_after=timedelta(hours=1)).enqueue(1)
    first, second = enqueued()
    assert (first.id, first.task, first.args, first.kwargs) == (
        result.id,
        "tests.testing.tasks.welcome",
        (17,),
        {"kind": "sms"},
    )
    assert (first.queue, first.priority, first.alias, first.run_after) == ("mail", 5, "default", None)
    assert timedelta(minutes=59) < second.run_after - datetime.now(UTC) <= timedelta(hours=1)
    assert first.result().args == [17]
    assert str(first) == "tests.testing.tasks.welcome(17, kind='sms')  [queue mail, priority 5]"


def test_the_order_is_that_of_enqueuing(memory):
    for value in range(30):
        tasks.note.enqueue(value)
    assert [job.args[0] for job in enqueued()] == list(range(30))


def test_more_jobs_than_a_page_are_seen(memory):
    for value in range(250):
        tasks.note.enqueue(value)
    assert len(enqueued()) == 250


def test_jobs_that_ran_do_not_wait(kit):
    tasks.note.enqueue(1)
    drain()
    assert enqueued() == []
    assert_not_enqueued(tasks.note)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ([17], None),
        (None, {"user_id": 17}),
        (None, {"kind": "sms"}),
        ([17, "sms"], None),
        ([17], {"kind": "sms", "urgent": False}),
        ([ANY], {"kind": ANY}),
        (None, None),
    ],
)
def test_some_of_the_arguments_are_enough_however_they_were_passed(memory, args, kwargs):
    tasks.welcome.enqueue(17, kind="sms")
    tasks.note.enqueue(17)
    assert_enqueued(tasks.welcome, args=args, kwargs=kwargs)
    assert len(enqueued(tasks.welcome, args=args, kwargs=kwargs)) == 1


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [([18], None), (None, {"user_id": 18}), (None, {"urgent": True}), (None, {"nothing": 1}), ([17, "sms", 3], None)],
)
def test_other_arguments_are_told_from_these(memory, args, kwargs):
    tasks.welcome.enqueue(17, kind="sms")
    assert enqueued(tasks.welcome, args=args, kwargs=kwargs) == []
    assert_not_enqueued(tasks.welcome, args=args, kwargs=kwargs)
    with pytest.raises(AssertionError, match="No job of"):
        assert_enqueued(tasks.welcome, args=args, kwargs=kwargs)


def test_arguments_are_compared_as_they_arrive(memory):
    tasks.note.enqueue({"day": date(2026, 5, 1), "pair": (1, 2)})
    assert_enqueued(tasks.note, args=[{"day": date(2026, 5, 1), "pair": (1, 2)}])
    assert_enqueued(tasks.note, args=[{"day": "2026-05-01", "pair": [1, 2]}])


def test_the_context_is_no_argument(memory):
    tasks.with_context.enqueue(3)
    assert_enqueued(tasks.with_context, args=[3])
    assert_enqueued(tasks.with_context, kwargs={"amount": 3})


def test_a_task_may_be_named_by_its_path(memory):
    tasks.note.enqueue(1)
    assert assert_enqueued("tests.testing.tasks.note").args == (1,)
    with pytest.raises(TypeError, match="outermost"):
        assert_enqueued(tasks.note.func)


def test_a_failure_shows_what_is_enqueued_and_the_nearest_miss(memory):
    tasks.welcome.enqueue(16)
    tasks.welcome.using(queue_name="mail").enqueue(17, kind="sms")
    tasks.note.enqueue("other")
    with pytest.raises(AssertionError) as failed:
        assert_enqueued(tasks.welcome, args=[17], kwargs={"kind": "mail"}, queue="mail")
    assert str(failed.value).splitlines() == [
        "No job of tests.testing.tasks.welcome with args=[17] with kwargs={'kind': 'mail'} in the queue 'mail' is "
        "enqueued.",
        "Enqueued:",
        "  tests.testing.tasks.welcome(16)  [queue default]",
        "  tests.testing.tasks.welcome(17, kind='sms')  [queue mail]",
        "  tests.testing.tasks.note('other')  [queue default]",
        "Nearest: tests.testing.tasks.welcome(17, kind='sms')  [queue mail]",
        "  kind is 'sms', not 'mail'",
    ]


def test_a_failure_over_nothing_says_so(memory):
    with pytest.raises(AssertionError, match="Nothing is enqueued"):
        assert_enqueued(tasks.note)


def test_the_number_can_be_asked_for(memory):
    for value in (1, 1, 2):
        tasks.note.enqueue(value)
    assert_enqueued(tasks.note, args=[1], count=2)
    with pytest.raises(AssertionError, match=r"Not 1 times .*, but 2 times"):
        assert_enqueued(tasks.note, args=[1], count=1)
    with pytest.raises(ValueError, match="assert_not_enqueued"):
        assert_enqueued(tasks.note, count=0)


def test_what_must_not_be_enqueued_is_shown(memory):
    tasks.note.enqueue("oops")
    assert_not_enqueued(tasks.welcome)
    with pytest.raises(AssertionError, match=r"note\('oops'\)"):
        assert_not_enqueued(tasks.note)
    with pytest.raises(AssertionError, match=r"A job is enqueued\."):
        assert_not_enqueued()


@pytest.mark.django_db
def test_jobs_that_wait_for_a_commit_are_told_of(memory):
    with transaction.atomic():
        result = tasks.note.enqueue(1)
        assert enqueued() == []
        with pytest.raises(AssertionError, match="The job will be enqueued when the open transaction commits"):
            assert_enqueued(tasks.note)
        with pytest.raises(AssertionError, match="captureOnCommitCallbacks"):
            assert_enqueued(tasks.welcome)
        with pytest.raises(AssertionError, match=r"note\(1\)"):
            assert_not_enqueued(tasks.note)
        with pytest.warns(UserWarning, match="captureOnCommitCallbacks") as told:
            drained = TasksMixin().drain()
        assert told[0].filename == __file__
        assert drained.uncommitted == 1
        assert str(drained) == "1 waiting for a commit"
        from django_vtasks.testing import run_job

        with pytest.raises(LookupError, match="waits for the commit"):
            run_job(result)

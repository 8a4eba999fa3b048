"""Reading results: statements C 33 to 51, as far as they do not need a worker."""

from __future__ import annotations

import asyncio
import copy
import datetime
import pickle
from dataclasses import replace

import pytest
from asgiref.sync import async_to_sync

from django_vtasks import VTask, VTaskResult
from django_vtasks.framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
)
from django_vtasks.jobs.errors import TaskNotFound
from django_vtasks.jobs.model import Attempt, Failure, JobState, OutcomeKind
from django_vtasks.jobs.outcomes import Discarded, Raised, Snoozed, Succeeded
from django_vtasks.jobs.transitions import Policy, Settlement, decide
from django_vtasks.stores.base import CancelStatus, ClaimRequest, Want
from tests.django.conftest import MEMORY, entry
from tests.support import sample_tasks as sample
from tests.support.naming import shown

OWNER = "worker-1:abc"


def get(task, result_id):
    return task.get_result(result_id)


def aget(task, result_id):
    return async_to_sync(task.aget_result)(result_id)


READ = pytest.mark.parametrize("read", [get, aget])


def claim(store):
    """Take the only ready job."""
    store.extend(OWNER, 60)
    request = ClaimRequest(owner=OWNER, wants=(Want(queue="default", slots=1),), limit=1)
    (taken,) = asyncio.run(store.exchange((), request)).claims
    return taken


def settle(store, taken, outcome, **policy):
    values = {"max_attempts": 1, "result_ttl": 600.0} | policy
    decision = decide(taken, outcome, Policy(**values), taken.started_at + 1)
    asyncio.run(store.exchange([Settlement(claim=taken, decision=decision)], None))


def a_failure(kind="builtins.ValueError", text="boom"):
    return Failure(exception_class=kind, message=text, traceback=f"Traceback ...\n{kind}: {text}\n")


@READ
@pytest.mark.parametrize(
    "one",
    [
        sample.bare,
        sample.bare.using(priority=7, run_after=datetime.datetime(2031, 5, 6, 7, 8, 9, 123456, datetime.UTC)),
        sample.bare.using(run_after=datetime.timedelta(hours=1)),
        sample.mutex.using(unique_key="k", ttl=5),
        sample.expiring,
        sample.of_django,
    ],
    ids=range(6),
)
def test_what_is_read_equals_what_enqueue_returned(read, one, memory):
    """C 33, C 34, C 51."""
    result = one.enqueue()
    assert read(one, result.id) == result
    assert read(one, result.id) is not result
    assert type(result) is VTaskResult


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_what_is_read_equals_without_time_zones_too(zone, settings, memory):
    """C 51."""
    settings.USE_TZ, settings.TIME_ZONE = False, zone
    due = datetime.datetime(2031, 5, 6, 7, 8, 9, 123456)
    result = sample.bare.using(run_after=due).enqueue()
    assert result.enqueued_at.tzinfo is None
    read = sample.bare.get_result(result.id)
    assert read == result
    assert read.task.run_after == due


@READ
@pytest.mark.parametrize(
    "result_id", ["123", "", "x" * 5000, 5, None, b"x", "a\x00b", "é", "\ud800", [], {}], ids=shown
)
def test_unknown_and_malformed_ids_do_not_exist(read, result_id, memory):
    """C 35, C 36."""
    with pytest.raises(TaskResultDoesNotExist):
        read(sample.bare, result_id)
    assert task_backends["default"].cancel(result_id) is CancelStatus.UNKNOWN


@READ
def test_reading_through_another_task_is_a_mismatch(read, memory):
    """C 37."""
    result = sample.bare.enqueue()
    with pytest.raises(TaskResultMismatch):
        read(sample.abare, result.id)


@pytest.mark.parametrize("refresh", [VTaskResult.refresh, lambda result: async_to_sync(result.arefresh)()])
def test_a_held_result_changes_only_when_it_is_refreshed(refresh, memory):
    """C 38, C 41, C 42."""
    result = sample.bare.enqueue(1)
    taken = claim(memory)
    assert (result.status, result.attempts) == ("READY", 0)
    refresh(result)
    assert (result.status, result.attempts, result.state) == ("RUNNING", 1, JobState.LEASED)
    assert result.worker_ids == [OWNER]
    assert result.enqueued_at <= result.started_at == result.last_attempted_at
    assert result.finished_at is None
    settle(memory, taken, Succeeded(value=b'[1,{"x":null}]'))
    refresh(result)
    assert (result.status, result.return_value) == ("SUCCESSFUL", [1, {"x": None}])
    assert result.started_at < result.finished_at
    assert result.is_finished
    assert result == sample.bare.get_result(result.id)


def test_refreshing_a_result_that_is_gone(memory):
    """C 39."""
    result = sample.bare.enqueue(1)
    settle(memory, claim(memory), Succeeded(), result_ttl=0.0)
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_return_values_before_and_after_the_end(memory):
    """C 40."""
    result = sample.bare.enqueue(1)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    settle(memory, claim(memory), Succeeded(value=b"null"))
    result.refresh()
    assert result.return_value is None
    failing = sample.bare.enqueue(2)
    settle(memory, claim(memory), Raised(failure=a_failure()))
    failing.refresh()
    with pytest.raises(ValueError, match="failed"):
        _ = failing.return_value


def test_errors_are_kept_in_order_when_a_later_attempt_succeeds(memory):
    """C 41, C 43, C 44."""
    result = sample.bare.enqueue(1)
    settle(memory, claim(memory), Raised(failure=a_failure(text="one"), delay=0.0), max_attempts=3)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == ("READY", 1, 1)
    asyncio.run(memory.pulse(OWNER, 10))
    taken = claim(memory)
    settle(memory, taken, Succeeded(value=b"2"), max_attempts=3)
    result.refresh()
    assert (result.status, result.attempts, result.return_value) == ("SUCCESSFUL", 2, 2)
    assert [error.exception_class for error in result.errors] == [ValueError]
    assert result.errors[0].traceback.endswith("ValueError: one\n")
    assert result.started_at < result.last_attempted_at < result.finished_at


def test_a_lost_exception_class_fails_only_when_asked_for(memory):
    """C 45."""
    result = sample.bare.enqueue(1)
    settle(memory, claim(memory), Raised(failure=a_failure("gone.module.Error")))
    result.refresh()
    with pytest.raises(ImportError):
        _ = result.errors[0].exception_class
    other = sample.bare.enqueue(2)
    settle(memory, claim(memory), Raised(failure=a_failure("datetime.datetime")))
    other.refresh()
    with pytest.raises(ValueError, match="valid exception"):
        _ = other.errors[0].exception_class


@pytest.mark.parametrize(
    ("outcome", "status", "state"),
    [
        (Succeeded(), TaskResultStatus.SUCCESSFUL, JobState.SUCCEEDED),
        (Raised(failure=a_failure()), TaskResultStatus.FAILED, JobState.DEAD),
        (Discarded(failure=a_failure()), TaskResultStatus.FAILED, JobState.DISCARDED),
        (Snoozed(delay=50), TaskResultStatus.READY, JobState.SCHEDULED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_more_states_inside_are_shown_as_one_of_the_four(outcome, status, state, memory):
    """C 46."""
    result = sample.bare.enqueue(1)
    settle(memory, claim(memory), outcome)
    result.refresh()
    assert (result.status, result.state) == (status, state)


def test_a_cancelled_job_has_failed_with_an_error_of_ours(memory):
    """C 46."""
    result = sample.bare.enqueue(1)
    assert result.cancel() is CancelStatus.CANCELLED
    result.refresh()
    assert (result.status, result.attempts) == ("FAILED", 0)
    (error,) = result.errors
    assert error.exception_class.__name__ == "JobCancelled"
    assert async_to_sync(result.acancel)() is CancelStatus.FINISHED
    running = sample.bare.enqueue(2)
    claim(memory)
    assert async_to_sync(running.acancel)() is CancelStatus.REQUESTED


def test_a_job_the_settings_no_longer_allow_can_still_be_read(settings, memory):
    """C 47."""
    settings.VTASKS_QUEUES = ["old"]
    result = sample.bare.using(queue_name="old", priority=9).enqueue()
    settings.VTASKS_QUEUES = ["default"]
    with pytest.raises(InvalidTask):
        sample.bare.using(queue_name="old")
    read = sample.bare.get_result(result.id)
    assert (read.task.queue_name, read.task.priority) == ("old", 9)
    assert pickle.loads(pickle.dumps(read.id)) == result.id


def lost(memory, path):
    result = sample.bare.enqueue(1)
    memory._state.jobs[result.id].job = replace(memory.get(result.id).job, func=path)
    return result.id


@pytest.mark.parametrize("path", ["gone.module.task", "tests.support.sample_tasks.gone", "nodots", "os.path.join"])
def test_a_job_whose_function_is_gone_shows_its_name_and_cannot_run(path, memory):
    """C 48, C 49."""
    backend = task_backends["default"]
    result_id = lost(memory, path)
    read = backend.get_result(result_id)
    assert read.task.module_path.endswith(path)
    assert read.task.name == path.rpartition(".")[2]
    assert isinstance(read.task, VTask)
    assert read == backend.get_result(result_id)
    with pytest.raises(TaskNotFound):
        read.task.call()
    with pytest.raises(InvalidTask):
        read.task.enqueue()
    with pytest.raises(TaskResultMismatch):
        sample.bare.get_result(result_id)


@pytest.mark.parametrize("one", [sample.bare, sample.mutex.using(priority=5, unique_key="k"), sample.of_django])
def test_tasks_survive_pickling_and_copying(one, memory):
    """C 50."""
    back = pickle.loads(pickle.dumps(one))
    assert back == one
    for name in VTask.__dataclass_fields__:
        if name != "_prepared":
            assert getattr(back, name) == getattr(one, name), name
    assert copy.deepcopy(one) == one
    assert copy.copy(one) == one


def test_results_survive_pickling_and_copying(memory):
    """C 50."""
    result = sample.bare.using(priority=3).enqueue({"x": [1]})
    back = pickle.loads(pickle.dumps(result))
    assert back == result
    assert copy.deepcopy(result) == result
    back.refresh()


def test_options_that_cannot_be_pickled_stay_with_the_declared_task():
    declared = sample.flaky.using(priority=2)
    assert pickle.loads(pickle.dumps(declared)).max_attempts == 3


def test_a_pickle_of_what_is_no_task_is_refused(monkeypatch):
    """C 50."""
    data = pickle.dumps(sample.bare)
    with pytest.raises(ValueError, match="point to a Task"):
        pickle.loads(data.replace(b"sample_tasks.bare", b"sample_tasks.gone"))


def test_waiting_ends_with_the_job_and_with_the_timeout(memory):
    result = sample.bare.enqueue(1)
    with pytest.raises(TimeoutError, match=result.id):
        result.wait_sync(0.02)
    with pytest.raises(TimeoutError):
        asyncio.run(result.wait(0.02))

    async def finish_meanwhile():
        waiting = asyncio.create_task(result.wait(30))
        await asyncio.to_thread(lambda: settle(memory, claim(memory), Succeeded(value=b"5")))
        return await waiting

    assert asyncio.run(finish_meanwhile()).return_value == 5
    assert result.wait_sync(0).return_value == 5


def test_the_history_of_a_job_is_bounded_but_its_first_start_is_kept(memory):
    result = sample.bare.enqueue(1)
    job = memory.get(result.id).job
    past = tuple(
        Attempt(number=i, worker_id=f"w{i}", started_at=100.0 + i, ended_at=101.0 + i, outcome=OutcomeKind.RAISED)
        for i in (1, 2, 3)
    )
    memory._state.jobs[result.id].job = replace(job, attempts=past, starts=3)
    result.refresh()
    assert result.worker_ids == ["w1", "w2", "w3"]
    assert (result.started_at.timestamp(), result.last_attempted_at.timestamp()) == (101.0, 103.0)


def test_backends_say_truthfully_what_they_support(settings, memory):
    """L 132."""
    for path in (
        MEMORY,
        "django_vtasks.backends.db.DatabaseTaskBackend",
        "django_vtasks.backends.valkey.ValkeyTaskBackend",
    ):
        settings.TASKS = entry(path)
        backend = task_backends["default"]
        assert backend.supports_defer is backend.supports_priority is True
        assert backend.supports_async_task is backend.supports_get_result is True
        assert backend.supports_unique is backend.supports_throttle is True

"""`drain()` and its kin: every store, in the test's thread, connection and transaction."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from django_vtasks import testing
from django_vtasks.exceptions import JobTimedOut
from django_vtasks.jobs.model import JobState, OutcomeKind
from django_vtasks.signals import task_finished, task_started
from django_vtasks.testing import DrainLimit, adrain, drain, enqueued, flush_batches, run_job
from tests.testing import tasks


def values(attempts):
    return [ran.value for ran in attempts]


def test_due_jobs_run_and_are_settled(kit):
    first, second = tasks.note.enqueue(1), tasks.anote.enqueue(2)
    drained = drain()
    assert values(drained.succeeded) == [1, 2]
    assert [ran.id for ran in drained.attempts] == [first.id, second.id]
    first.refresh()
    assert (first.status.name, first.return_value) == ("SUCCESSFUL", 1)
    assert enqueued() == []
    assert not drained.failed


def test_an_empty_alias_is_drained_at_once(kit):
    drained = drain()
    assert drained.attempts == ()
    assert str(drained) == "nothing was due"


def test_priority_and_order_are_those_of_a_worker(kit, ran):
    for value, priority in ((1, 0), (2, 50), (3, 0), (4, -5)):
        tasks.note.using(priority=priority).enqueue(value)
    drain()
    assert ran == [2, 1, 3, 4]


@pytest.mark.parametrize("task", [tasks.chain, tasks.achain], ids=["sync", "async"])
def test_jobs_that_a_job_enqueues_run_too(kit, ran, task):
    task.enqueue(3)
    drain()
    assert ran == [3, 2, 1, 0]


def test_without_recursion_only_what_waits_now_runs(kit, ran):
    tasks.chain.enqueue(3)
    tasks.note.enqueue("other")
    drain(recursive=False)
    assert ran == [3, "other"]
    assert [job.args for job in enqueued()] == [(2,)]


def test_jobs_that_are_handed_back_keep_their_place(kit, ran):
    tasks.chain.using(priority=10).enqueue(1)
    tasks.note.using(priority=0).enqueue("low")
    drain(recursive=False)
    assert ran == [1, "low"]
    drain()
    assert ran == [1, "low", 0]


def test_a_failure_is_in_the_result_with_its_exception(kit):
    result = tasks.boom.enqueue("no")
    drained = drain()
    (failed,) = drained.failed
    assert failed.outcome is OutcomeKind.RAISED
    assert isinstance(failed.error, ValueError)
    assert str(failed).startswith("tests.testing.tasks.boom('no'): raised (")
    result.refresh()
    assert result.state is JobState.DEAD


@pytest.mark.parametrize("task", [tasks.boom, tasks.aboom], ids=["sync", "async"])
def test_failures_can_be_raised(kit, ran, task):
    task.enqueue("no")
    tasks.note.enqueue("later")
    with pytest.raises(ValueError, match="no"):
        drain(raise_failures=True)
    assert ran == []
    assert [job.args for job in enqueued()] == [("later",)]


def test_a_retry_is_no_failure_and_waits_for_its_delay(kit, ran):
    tasks.flaky.enqueue()
    drained = drain(raise_failures=True)
    assert [round(attempt.retry_in) for attempt in drained.retried] == [60]
    assert ran == ["flaky"]
    (waiting,) = enqueued(tasks.flaky)
    assert waiting.run_after is not None


def test_delayed_jobs_run_when_asked_for_the_earliest_first(kit, ran):
    for value, hours in ((1, 3), (2, 1), (3, 2)):
        tasks.note.using(run_after=timedelta(hours=hours)).enqueue(value)
    assert drain().attempts == ()
    drain(delayed=True)
    assert ran == [2, 3, 1]


def test_delayed_retries_run_to_the_end(kit, ran):
    tasks.flaky.enqueue()
    drained = drain(delayed=True)
    assert ran == ["flaky"] * 3
    assert (len(drained.retried), len(drained.failed)) == (2, 1)
    assert [attempt.attempt for attempt in drained.attempts] == [1, 2, 3]


def test_retries_without_a_delay_run_in_one_go(kit, ran):
    tasks.flaky_at_once.enqueue()
    drained = drain()
    assert (len(drained.retried), len(drained.succeeded)) == (2, 1)


def test_snoozes_and_discards_are_told(kit, ran):
    tasks.sleepy.enqueue()
    tasks.pointless.enqueue()
    drained = drain(delayed=True)
    assert (len(drained.snoozed), len(drained.discarded), len(drained.succeeded)) == (1, 1, 1)
    assert drained.failed == []


@pytest.mark.parametrize("task", [tasks.too_slow, tasks.too_slow_in_thread], ids=["async", "sync"])
def test_timeouts_hold(memory, task):
    task.enqueue()
    (failed,) = drain().failed
    assert failed.outcome is OutcomeKind.TIMED_OUT
    assert failed.failure.exception_class.endswith(JobTimedOut.__name__)
    task.enqueue()
    with pytest.raises(testing.JobFailed, match="ran longer than its timeout"):
        drain(raise_failures=True)


def test_a_job_that_enqueues_itself_is_named(kit):
    tasks.endless.enqueue()
    with pytest.raises(DrainLimit, match=r"ran 20 attempts.*tests\.testing\.tasks\.endless ran 20 times"):
        drain(limit=20)
    assert len(enqueued(tasks.endless)) == 1


def test_only_the_queues_asked_for(kit, ran):
    tasks.note.using(queue_name="mail").enqueue("mail")
    tasks.note.enqueue("default")
    drain(queues=["mail"])
    assert ran == ["mail"]
    with pytest.raises(TypeError, match=r"\['mail'\]"):
        drain(queues="mail")


def test_a_queue_that_no_setting_names_is_drained(kit, ran, settings):
    settings.VTASKS_QUEUES = {"default": {}}
    tasks.note.using(queue_name="somewhere").enqueue("else")
    drain()
    assert ran == ["else"]


def test_a_paused_queue_is_left_alone(kit, ran):
    tasks.note.enqueue("paused")
    kit.backend.admin_store.pause("default")
    drain(delayed=True)
    assert ran == []
    kit.backend.admin_store.resume("default")
    drain()
    assert ran == ["paused"]


def test_batches_are_flushed(kit, ran, settings):
    settings.VTASKS_QUEUES = {"default": {}, "bulk": {"batch": {"count": 3, "timeout": 60}}}
    for value in range(5):
        tasks.store.using(queue_name="bulk").enqueue(value)
    tasks.note.enqueue("single")
    drained = drain()
    assert sorted(ran, key=str) == [[0, 1, 2], [3, 4], "single"]
    assert len(drained.succeeded) == 6


def test_members_of_a_batch_end_each_for_itself(kit, settings):
    settings.VTASKS_QUEUES = {"default": {}, "bulk": {"batch": {"count": 10, "timeout": 60}}}
    for value in (1, -1, 2):
        tasks.store_some.using(queue_name="bulk").enqueue(value)
    drained = flush_batches("bulk")
    assert [ran.args for ran in drained.failed] == [(-1,)]
    assert len(drained.succeeded) == 2
    with pytest.raises(testing.JobFailed, match="negative"):
        drained.raise_failures()


def test_only_batch_queues_are_flushed(memory, ran, settings):
    settings.VTASKS_QUEUES = {"default": {}, "bulk": {"batch": {"count": 3, "timeout": 60}}}
    tasks.note.enqueue("single")
    tasks.store.using(queue_name="bulk").enqueue(1)
    flush_batches()
    assert ran == [[1]]
    with pytest.raises(ValueError, match="'default' is no batch queue"):
        flush_batches("default")


def test_one_job_is_run_whatever_waits_beside_it(kit, ran):
    for value in (1, 2, 3):
        tasks.note.using(priority=value).enqueue(value)
    later = tasks.note.using(run_after=timedelta(hours=1)).enqueue("later")
    (first,) = enqueued(tasks.note, args=[1])
    assert run_job(first).value == 1
    assert run_job(later).value == "later"
    assert ran == [1, "later"]
    assert {job.args for job in enqueued()} == {(2,), (3,)}
    drain()
    assert ran == [1, "later", 3, 2]


def test_a_job_that_does_not_wait_is_not_run(kit):
    result = tasks.note.enqueue(1)
    assert run_job(result.id).value == 1
    with pytest.raises(LookupError, match="is succeeded"):
        run_job(result)
    with pytest.raises(LookupError, match="No job"):
        run_job("0" * 32)


def test_one_attempt_of_a_job_that_fails(kit):
    result = tasks.flaky.enqueue()
    assert round(run_job(result, raise_failures=True).retry_in) == 60
    assert run_job(result).attempt == 2
    with pytest.raises(ConnectionError):
        run_job(result, raise_failures=True)


def test_tasks_run_in_the_thread_of_the_test(kit):
    tasks.where.enqueue()
    tasks.awhere.enqueue()
    assert values(drain().succeeded) == [threading.get_ident()] * 2


def test_a_sync_task_may_call_async_code(kit, ran):
    tasks.calls_async.enqueue()
    drain(raise_failures=True)
    assert ran == ["from sync"]


def test_context_progress_and_metadata_are_saved(kit):
    result = tasks.with_context.enqueue(3)
    assert values(drain(raise_failures=True).succeeded) == [1]
    result.refresh()
    assert (result.progress.done, result.progress.total) == (3, 10)
    assert result.metadata == {"seen": 1}


def test_signals_are_sent_in_the_thread_of_the_test(memory):
    heard = []

    def receiver(signal, name, **details):
        heard.append((signal is task_started, threading.get_ident()))

    async def areceiver(signal, name, **details):
        heard.append("async")

    task_started.connect(receiver)
    task_finished.connect(receiver)
    task_finished.connect(areceiver)
    try:
        tasks.note.enqueue()
        tasks.anote.enqueue()
        drain()
    finally:
        task_started.disconnect(receiver)
        task_finished.disconnect(receiver)
        task_finished.disconnect(areceiver)
    here = threading.get_ident()
    assert heard == [(True, here), (False, here), "async"] * 2


def test_an_unknown_task_fails_and_says_why(memory):
    memory.client_store.inject("default", b'{"id": "1", "func": "no.such.task", "args": [], "kwargs": {}}')
    (failed,) = drain().failed
    assert failed.outcome is OutcomeKind.UNRUNNABLE
    with pytest.raises(testing.JobFailed, match=r"no\.such"):
        drain_again(memory)


def drain_again(memory):
    memory.client_store.inject("default", b'{"id": "2", "func": "no.such.task", "args": [], "kwargs": {}}')
    drain(raise_failures=True)


def test_bytes_that_are_no_job_fail(memory):
    memory.client_store.inject("default", b"garbage")
    (failed,) = drain().failed
    assert failed.task == "(undecodable)"


def test_an_interrupted_test_ends(memory):
    tasks.interrupted.enqueue()
    with pytest.raises(KeyboardInterrupt):
        drain()


def test_jobs_of_a_drain_that_was_interrupted_are_free_again(kit, ran):
    tasks.chain.enqueue(5)
    with pytest.raises(DrainLimit):
        drain(limit=2)
    drain()
    assert ran == [5, 4, 3, 2, 1, 0]


async def test_an_async_test_drains_on_its_own_loop(memory, ran):
    await tasks.anote.aenqueue(1)
    tasks.chain.enqueue(1)
    drained = await adrain()
    assert len(drained.succeeded) == 3
    result = await tasks.note.aenqueue(2)
    assert (await testing.arun_job(result)).value == 2
    with pytest.raises(RuntimeError, match=r"await adrain\(\)"):
        drain()


def test_large_jobs_in_memory_need_no_library(memory, monkeypatch):
    def missing():
        raise ImportError("no zstd")

    monkeypatch.setattr("django_vtasks.jobs.zstd._provider", missing)
    tasks.note.enqueue("x" * 5000)
    tasks.boom.enqueue("x" * 5000)
    drained = drain()
    assert (len(drained.succeeded), len(drained.failed)) == (1, 1)


def test_a_backend_that_keeps_nothing_is_refused(settings):
    settings.TASKS = {"default": {"BACKEND": "django_vtasks.backends.immediate.ImmediateBackend"}}
    with pytest.raises(TypeError, match="keeps no jobs"):
        drain()

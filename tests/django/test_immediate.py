"""The immediate backend: tasks run where they are enqueued."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

from django_vtasks import Discard, Retry, Snooze, signals, task
from django_vtasks.backends.immediate import ImmediateBackend
from django_vtasks.framework import LOGGER_NAME, InvalidTask, TaskResultStatus, task_finished, task_started
from django_vtasks.jobs.model import JobState
from tests.django.conftest import IMMEDIATE, entry
from tests.support import sample_tasks as sample


def enqueue(one, *args, **kwargs):
    return one.enqueue(*args, **kwargs)


def aenqueue(one, *args, **kwargs):
    return asyncio.run(one.aenqueue(*args, **kwargs))


WAYS = pytest.mark.parametrize("way", [enqueue, aenqueue])


@task
def misbehave(how):
    raise {
        "error": ValueError("broken"),
        "exit": SystemExit(3),
        "cancelled": asyncio.CancelledError(),
        "discard": Discard("not worth it"),
        "snooze": Snooze(60),
    }[how]


@task
async def amisbehave(how):
    misbehave.func(how)


@task
def interrupt():
    raise KeyboardInterrupt


@task
def unserialisable():
    return {1, 2}


@task(takes_context=True)
def talkative(context, total):
    context.progress(1, total, "half")
    context.metadata["seen"] = context.attempt
    return [context.cancelled, context.shutdown_requested, context.task_result.id, context.check()]


@task(max_attempts=3, backoff=0, give_up_on=KeyError)
def stubborn(error=None):
    seen.append(1)
    if error == "key":
        raise KeyError(error)
    if error == "retry":
        raise Retry(3600)
    if len(seen) < 3:
        raise ValueError(f"attempt {len(seen)}")
    return len(seen)


@task(queue_name="default")
def ingest(events):
    batches.append(events)
    if any(event["args"] == ["bad"] for event in events):
        raise ValueError("bad batch")


@task
async def aingest(events):
    batches.append(events)


seen: list[int] = []
batches: list[object] = []


@pytest.fixture(autouse=True)
def _forget():
    seen.clear()
    batches.clear()


@WAYS
@pytest.mark.parametrize("one", [sample.bare, sample.abare, sample.of_django])
def test_a_task_has_run_when_enqueue_returns(way, one, immediate):
    result = way(one, 1)
    assert (result.status, result.attempts) == (TaskResultStatus.SUCCESSFUL, 1)
    assert result.return_value in (1, [1, None])
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert result.worker_ids == [immediate.worker_id]


@WAYS
@pytest.mark.parametrize("one", [misbehave, amisbehave])
@pytest.mark.parametrize(("how", "kind"), [("error", ValueError), ("exit", SystemExit)])
def test_what_a_task_raises_is_in_its_result(way, one, how, kind, immediate):
    result = way(one, how)
    assert (result.status, result.state) == (TaskResultStatus.FAILED, JobState.DEAD)
    (error,) = result.errors
    assert error.exception_class is kind
    assert "misbehave" in error.traceback


@WAYS
def test_a_cancelled_error_of_the_task_itself_is_a_failure(way, immediate):
    assert way(misbehave, "cancelled").status == TaskResultStatus.FAILED


def test_cancelling_the_caller_cancels_the_call(immediate):
    async def main():
        sleeper_started["event"] = asyncio.Event()
        call = asyncio.create_task(sleeper.aenqueue())
        await sleeper_started["event"].wait()
        call.cancel()
        await call

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


sleeper_started: dict[str, asyncio.Event] = {}


@task
async def sleeper():
    sleeper_started["event"].set()
    await asyncio.Event().wait()


def test_a_keyboard_interrupt_is_the_users(immediate):
    with pytest.raises(KeyboardInterrupt):
        interrupt.enqueue()


@WAYS
def test_a_return_value_that_is_not_json_is_a_failure(way, immediate):
    result = way(unserialisable)
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class is TypeError


@WAYS
def test_retries_happen_at_once(way, immediate):
    result = way(stubborn)
    assert (result.return_value, result.attempts, len(result.errors)) == (3, 3, 2)


@pytest.mark.parametrize(("error", "attempts"), [("key", 1), ("retry", 3)])
def test_retries_end_as_the_tasks_rule_says(error, attempts, immediate):
    result = stubborn.enqueue(error)
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, attempts)


def test_discard_and_snooze_decide_what_becomes_of_the_job(immediate):
    assert misbehave.enqueue("discard").state is JobState.DISCARDED
    snoozed = misbehave.enqueue("snooze")
    assert (snoozed.status, snoozed.attempts) == (TaskResultStatus.READY, 1)


@WAYS
def test_a_context_task_gets_its_context(way, immediate):
    result = way(talkative, 2)
    assert result.return_value == [False, False, result.id, None]
    assert (result.progress.done, result.progress.total, result.progress.message) == (1, 2, "half")
    assert result.metadata == {"seen": 1}
    assert way(sample.with_context, 1).return_value == 1


@WAYS
def test_delays_and_unique_rules_have_no_effect(way, immediate):
    assert way(sample.bare.using(run_after=timedelta(days=1)), 1).return_value == [1, None]
    assert way(sample.mutex, 1).return_value == way(sample.mutex, 1).return_value == 1


@WAYS
def test_calls_are_validated_as_everywhere(way, immediate, settings):
    settings.VTASKS_QUEUES = ["mail"]
    mail = sample.bare.using(queue_name="mail")
    settings.VTASKS_QUEUES = ["default"]
    with pytest.raises(InvalidTask):
        way(mail)
    with pytest.raises(TypeError, match="argument a"):
        way(sample.bare, {1})
    with pytest.raises(TypeError, match="too many"):
        way(sample.bare, 1, 2, 3)


def test_results_are_not_kept(immediate):
    result = sample.bare.enqueue()
    with pytest.raises(NotImplementedError):
        result.refresh()
    assert immediate.supports_get_result is False
    assert asyncio.run(immediate.acquire_lock("key", 5)) is False


def test_many_calls_run_in_order(immediate):
    calls = [(sample.bare, (i,), {}) for i in range(3)]
    assert [result.args for result in immediate.enqueue_many(calls)] == [[0], [1], [2]]
    assert [result.args for result in async_to_sync(immediate.aenqueue_many)(calls)] == [[0], [1], [2]]
    assert immediate.enqueue_many([]) == []


@pytest.fixture
def heard():
    """Every signal of both lines in order: (name, sender, keywords)."""
    told, receivers = [], []
    of_line = [
        (name, getattr(signals, name)) for name in ("task_started", "task_finished", "task_failure", "task_retried")
    ]
    for name, signal in [*of_line, ("django_started", task_started), ("django_finished", task_finished)]:

        def note(sender, signal, *, _name=name, **named):
            result = named.get("task_result")
            told.append((_name, sender, named, result and (result.status, result.attempts)))

        signal.connect(note)
        receivers.append((signal, note))
    yield told
    for signal, note in receivers:
        signal.disconnect(note)


@WAYS
def test_signals_of_both_lines_are_sent_around_the_call(way, immediate, heard):
    result = way(sample.bare, 1, b=2)
    assert [name for name, *_ in heard] == ["task_started", "django_started", "task_finished", "django_finished"]
    assert {sender for _, sender, *_ in heard} == {ImmediateBackend}
    started, django_started, finished, django_finished = heard
    path = "tests.support.sample_tasks.bare"
    assert started[2] == {"task_id": None, "task_ids": None, "name": path, "args": [1], "kwargs": {"b": 2}}
    assert finished[2].pop("duration") >= 0
    assert finished[2] == {"task_id": None, "task_ids": None, "name": path}
    assert (django_started[3], django_finished[3]) == (("RUNNING", 1), ("SUCCESSFUL", 1))
    assert django_finished[2]["task_result"] is result


@WAYS
def test_a_failing_task_is_finished_too(way, immediate, heard):
    way(misbehave, "error")
    assert [name for name, *_ in heard] == ["task_started", "django_started", "task_finished", "django_finished"]
    assert heard[-1][3] == ("FAILED", 1)


def test_a_retry_has_a_signal_of_its_own(immediate, heard):
    stubborn.enqueue()
    names = [name for name, *_ in heard if name in ("task_retried", "task_finished", "django_finished")]
    assert names == ["task_retried", "task_retried", "task_finished", "django_finished"]
    retried = next(named for name, _, named, _ in heard if name == "task_retried")
    assert (str(retried["exception"]), retried["attempt"]) == ("attempt 1", 1)


@WAYS
def test_raising_receivers_change_nothing(way, immediate):
    def raising(**_kwargs):
        raise RuntimeError

    every = [signals.task_started, signals.task_finished, task_started, task_finished]
    for signal in every:
        signal.connect(raising)
    try:
        assert way(sample.bare, 1).return_value == [1, None]
    finally:
        for signal in every:
            signal.disconnect(raising)


@WAYS
def test_failures_are_logged_with_their_traceback(way, immediate, caplog):
    with caplog.at_level(logging.INFO, logger=LOGGER_NAME):
        way(misbehave, "error")
        way(sample.bare)
    failed, finished = [record for record in caplog.records if "state=" in record.getMessage()][1::2]
    assert failed.levelno == logging.ERROR
    assert failed.exc_info[0] is ValueError
    assert (finished.levelno, finished.exc_info) == (logging.INFO, None)


@WAYS
def test_a_discarded_job_is_no_alarm(way, immediate, caplog):
    with caplog.at_level(logging.INFO, logger=LOGGER_NAME):
        assert way(misbehave, "discard").state is JobState.DISCARDED
    _, finished = [record for record in caplog.records if "state=" in record.getMessage()]
    assert (finished.levelno, finished.exc_info) == (logging.INFO, None)


# --- batches ----------------------------------------------------------------------------------------------------


@pytest.fixture
def batching(settings):
    settings.TASKS = entry(IMMEDIATE)
    settings.VTASKS_QUEUES = {"default": {}, "ingest": {"batch": {"count": 2, "timeout": 1}}}
    return sample.bare.get_backend()


def flush(backend, queue=None):
    return backend.flush_batches() if queue is None else backend.flush_batch(queue)


def aflush(backend, queue=None):
    return async_to_sync(backend.aflush_batches)() if queue is None else async_to_sync(backend.aflush_batch)(queue)


FLUSH = pytest.mark.parametrize("flushing", [flush, aflush])


@WAYS
@FLUSH
def test_calls_to_a_batch_queue_are_collected_until_a_flush(way, flushing, batching):
    assert way(ingest.using(queue_name="ingest"), {"n": 1}) is None
    assert way(ingest.using(queue_name="ingest"), n=2) is None
    assert way(aingest.using(queue_name="ingest"), 3) is None
    path = f"{__name__}.ingest"
    assert batching.pending_batches == {
        "ingest": [
            {"func": path, "args": [{"n": 1}], "kwargs": {}},
            {"func": path, "args": [], "kwargs": {"n": 2}},
            {"func": f"{__name__}.aingest", "args": [3], "kwargs": {}},
        ]
    }
    flushing(batching, "ingest")
    assert [[call["args"] for call in batch] for batch in batches] == [[[{"n": 1}], []], [[3]]]
    assert batching.pending_batches == {}
    flushing(batching, "ingest")
    assert len(batches) == 2


@FLUSH
def test_flushing_everything_and_what_is_no_batch_queue(flushing, batching):
    with pytest.raises(ValueError, match="not a batch queue"):
        flushing(batching, "default")
    ingest.using(queue_name="ingest").enqueue(1)
    flushing(batching)
    assert len(batches) == 1
    ingest.using(queue_name="ingest").enqueue(1)
    batching.pending_batches.clear()
    flushing(batching)
    assert len(batches) == 1


@FLUSH
def test_a_failing_batch_is_logged_and_signalled(flushing, batching, heard, caplog):
    ingest.using(queue_name="ingest").enqueue("bad")
    ingest.using(queue_name="ingest").enqueue("good", x=1)
    flushing(batching)
    assert "bad batch" in caplog.text
    (_, _, started, _), (_, _, finished, _) = heard
    assert (started["args"], started["kwargs"]) == ([["bad"], ["good"]], [{}, {"x": 1}])
    assert finished["task_id"] is None
    assert finished["task_ids"] == []

"""What others hear of an attempt: signals, events, the context around it, the report of a running job."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
from contextlib import contextmanager

import pytest

from django_vtasks import framework, signals
from django_vtasks.events import AttemptEnded
from django_vtasks.exceptions import Discard, Retry, Snooze
from django_vtasks.jobs.model import JobState, Progress
from django_vtasks.jobs.outcomes import Raised, Succeeded, Untouched
from django_vtasks.jobs.transitions import Requeue
from tests.support.waiting import aeventually
from tests.worker.executing import OWNER, STARTED_AT, Backend, SomeWorker, bench, twins

MARK = contextvars.ContextVar("mark", default="nothing")
OLD = ("task_started", "task_finished", "task_failure", "task_retried")


@pytest.fixture
async def on():
    async with bench() as made:
        yield made


class Ear:
    """Hears signals: `heard` are (name, sender, keywords), in order."""

    def __init__(self):
        self.heard = []
        self._connected = []

    def listen(self, signal, name, *, is_async=False, tell=lambda: None):
        async def hear_async(sender, signal, **kwargs):
            self.heard.append((name, sender, kwargs | {"told": tell()}))

        def hear(sender, signal, **kwargs):
            self.heard.append((name, sender, kwargs | {"told": tell()}))

        receiver = hear_async if is_async else hear
        signal.connect(receiver, weak=False)
        self._connected.append((signal, receiver))

    def names(self):
        return [name for name, _, _ in self.heard]

    def stop(self):
        for signal, receiver in self._connected:
            signal.disconnect(receiver)


@pytest.fixture
def ear():
    made = Ear()
    yield made
    made.stop()


@pytest.fixture
def connected():
    """Connect receivers for the time of a test."""
    kept = []

    def connect(signal, receiver):
        signal.connect(receiver, weak=False)
        kept.append((signal, receiver))

    yield connect
    for signal, receiver in kept:
        signal.disconnect(receiver)


def succeed(value=1):
    return value


def fail():
    raise ValueError("no")


# -- the framework's signals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["receiver", "async receiver"])
async def test_start_and_finish_are_sent_once_with_the_backend_class(on, ear, is_async):
    ear.listen(framework.task_started, "started", is_async=is_async)
    ear.listen(framework.task_finished, "finished", is_async=is_async)
    for function in twins(succeed):
        ear.heard.clear()
        await on.outcome(function)
        assert ear.names() == ["started", "finished"]
        (_, sender, start), (_, sender_of_end, end) = ear.heard
        assert sender is sender_of_end is Backend
        assert start["task_result"].record.state is JobState.LEASED
        assert start["task_result"].record.worker_ids == (OWNER,)
        record = end["task_result"].record
        assert record.state is JobState.SUCCEEDED
        assert record.value == b"1"
        assert record.worker_ids == (OWNER,)
        assert record.finished_at >= STARTED_AT


async def test_a_failure_is_finished_inside_its_except_block(on, ear):
    ear.listen(framework.task_finished, "finished", tell=sys.exception)
    for function in twins(fail):
        ear.heard.clear()
        await on.outcome(function)
        ((_, _, kwargs),) = ear.heard
        assert isinstance(kwargs["told"], ValueError)
        record = kwargs["task_result"].record
        assert record.state is JobState.DEAD
        assert record.letter.failure.message == "no"
        assert record.worker_ids == (OWNER,)


async def test_the_framework_logs_a_failure_once_with_its_traceback(on, caplog):
    with caplog.at_level(logging.ERROR):
        for function in twins(fail):
            caplog.clear()
            await on.outcome(function)
            (record,) = caplog.records
            assert record.name == framework.LOGGER_NAME
            assert record.levelno == logging.ERROR
            assert "ValueError: no" in caplog.text


@pytest.mark.parametrize("listens", [False, True], ids=["only logged", "with a receiver"])
async def test_a_discarded_job_is_no_alarm_in_the_frameworks_log(on, ear, caplog, listens):
    if listens:
        ear.listen(framework.task_finished, "finished", is_async=True)

    def discard():
        raise Discard("superseded")

    with caplog.at_level(logging.DEBUG, framework.LOGGER_NAME):
        for function in twins(discard):
            caplog.clear()
            await on.outcome(function)
            finished = [record for record in caplog.records if "state=FAILED" in record.getMessage()]
            assert [(record.levelno, record.levelname) for record in finished] == [(logging.INFO, "INFO")]
            assert "Traceback" not in caplog.text
            await on.outcome(twins(fail)[0])
            assert caplog.records[-1].levelno == logging.ERROR
    with caplog.at_level(logging.WARNING, framework.LOGGER_NAME):
        caplog.clear()
        await on.outcome(discard)
        assert caplog.records == []


async def test_only_a_final_failure_is_finished(ear):
    ear.listen(framework.task_finished, "finished")
    ear.listen(signals.task_retried, "retried")
    async with bench(max_attempts=2) as on:
        for function in twins(fail):
            ear.heard.clear()
            again = await on.run(function)
            assert isinstance(again.decision, Requeue)
            assert ear.names() == ["retried"]
            ear.heard.clear()
            await on.run(function, failures=1)
            assert ear.names() == ["finished"]


async def test_a_job_whose_task_is_gone_is_finished_as_failed(on, ear):
    ear.listen(framework.task_started, "started")
    ear.listen(framework.task_finished, "finished", tell=sys.exception)
    ear.listen(signals.task_failure, "failure")
    await on.run("bench.gone")
    assert ear.names() == ["finished"]
    assert "names no task" in str(ear.heard[0][2]["told"])


async def test_nothing_is_built_when_nobody_hears(monkeypatch):
    monkeypatch.setattr(logging.getLogger(framework.LOGGER_NAME), "level", logging.CRITICAL)
    logging.getLogger(framework.LOGGER_NAME).manager._clear_cache()
    built = []
    async with bench(result_from=built.append) as on:
        for function in (*twins(succeed), *twins(fail)):
            await on.outcome(function)
    assert built == []
    monkeypatch.undo()
    logging.getLogger(framework.LOGGER_NAME).manager._clear_cache()


async def test_a_receiver_may_use_blocking_code(on, connected):
    """Receivers without `async` run off the event loop, where the ORM works; stock ones do not wait at all."""
    threads = []
    connected(framework.task_started, lambda **_: threads.append(threading.get_ident()))
    for function in twins(succeed):
        await on.outcome(function)
    assert threading.get_ident() not in threads
    assert len(threads) == 2


# -- the signals of the 3.2 line --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True], ids=["receiver", "async receiver"])
async def test_the_old_signals_carry_what_they_carried(on, ear, is_async):
    for name in OLD:
        ear.listen(getattr(signals, name), name, is_async=is_async)
    for function in twins(succeed):
        ear.heard.clear()
        task = on.task(function)
        claim = on.claim(task, 5, kwargs={"unique": True})
        on.start(claim)
        await on.end_of(claim)
        (_, sender, start), (_, _, end) = ear.heard
        assert ear.names() == ["task_started", "task_finished"]
        assert sender is SomeWorker
        same = {"task_id": claim.job.id, "task_ids": None, "name": task, "told": None}
        assert start == same | {"args": [5], "kwargs": {"unique": True}}
        assert end == same | {"duration": end["duration"]}
        assert 0 <= end["duration"] < 60


async def test_a_failure_carries_exception_and_traceback(on, ear):
    ear.listen(signals.task_failure, "failure")
    for function in twins(fail):
        ear.heard.clear()
        await on.outcome(function)
        ((_, _, kwargs),) = ear.heard
        assert isinstance(kwargs["exception"], ValueError)
        assert kwargs["traceback"].endswith("ValueError: no\n")


async def test_each_execution_has_exactly_one_end(ear):
    asked = [Retry(3), Snooze(4), Discard("x"), ValueError("again"), ValueError("last"), SystemExit(1)]

    def ask(number):
        raise asked[number]

    for name in OLD[1:]:
        ear.listen(getattr(signals, name), name)
    async with bench(max_attempts=2) as on:
        for function in twins(ask):
            ear.heard.clear()
            for number in range(len(asked)):
                await on.run(function, number, failures=1 if number > 3 else 0)
            assert ear.names() == [
                *("task_retried", "task_retried", "task_finished"),
                *("task_retried", "task_failure", "task_failure"),
            ]
            assert ear.heard[0][2]["delay"] == 3.0
            assert ear.heard[3][2]["attempt"] == 1


@pytest.mark.parametrize("stop", ["cancel", "interrupt"])
async def test_a_cancelled_execution_sends_exactly_one_failure(on, ear, stop):
    for name in OLD:
        ear.listen(getattr(signals, name), name, is_async=True)

    async def wait_for_ever():
        await asyncio.Event().wait()

    claim = on.claim(wait_for_ever)
    attempt = on.start(claim)
    await aeventually(lambda: ear.names() == ["task_started"])
    getattr(attempt, stop)()
    await on.end_of(claim)
    assert ear.names() == ["task_started", "task_failure"]


async def test_an_attempt_that_never_began_sends_none(on, ear):
    for name in OLD:
        ear.listen(getattr(signals, name), name)
    claims = [on.claim(succeed), on.claim(twins(succeed)[1])]
    for claim in claims:
        on.start(claim).interrupt()
    ended = await on.end_of(*claims)
    assert isinstance(ended[1].outcome, Untouched)
    assert len(ear.heard) == (0 if isinstance(ended[0].outcome, Untouched) else 2)


@pytest.mark.parametrize("is_async", [False, True], ids=["receiver", "async receiver"])
async def test_receivers_see_the_context_of_the_body(on, ear, is_async):
    def set_mark():
        MARK.set("by the body")

    for name in ("task_started", "task_finished"):
        ear.listen(getattr(signals, name), name, is_async=is_async, tell=MARK.get)
    for function in twins(set_mark):
        ear.heard.clear()
        await on.outcome(function)
        assert [kwargs["told"] for _, _, kwargs in ear.heard] == ["nothing", "by the body"]


async def test_the_body_sees_what_a_receiver_set(on, connected):
    async def receiver(**_kwargs):
        MARK.set("by the receiver")

    connected(signals.task_started, receiver)
    assert (await on.outcome(twins(MARK.get)[1])).value == b'"by the receiver"'


async def test_async_receivers_of_a_function_in_a_thread_run_on_the_workers_loop(on, connected):
    loops = []

    async def receiver(**_kwargs):
        loops.append(asyncio.get_running_loop())

    called_in = []
    connected(signals.task_finished, receiver)
    connected(signals.task_finished, lambda **_: called_in.append(threading.get_ident()))
    outcome = await on.outcome(threading.get_ident)
    assert loops == [asyncio.get_running_loop()]
    assert called_in == [int(outcome.value)], "the other receivers run in the function's own thread"


@pytest.mark.parametrize("error", [RuntimeError("receiver"), SystemExit(1), asyncio.CancelledError("own")])
@pytest.mark.parametrize("is_async", [False, True], ids=["receiver", "async receiver"])
async def test_a_raising_receiver_changes_nothing_and_is_logged(on, connected, caplog, error, is_async):
    def receiver(**_kwargs):
        raise error

    async def areceiver(**_kwargs):
        raise error

    for signal in (signals.task_started, signals.task_finished, framework.task_started, framework.task_finished):
        connected(signal, areceiver if is_async else receiver)
    for function in twins(succeed):
        caplog.clear()
        assert isinstance(await on.outcome(function), Succeeded)
        assert "receiver" in caplog.text
    assert isinstance(await on.outcome(fail), Raised)


async def test_a_receiver_that_never_ends_does_not_keep_the_worker(on, connected):
    stuck = asyncio.Event()

    async def receiver(**_kwargs):
        stuck.set()
        await asyncio.Event().wait()

    connected(signals.task_finished, receiver)
    claim = on.claim(twins(succeed)[1])
    attempt = on.start(claim)
    await aeventually(stuck.is_set)
    attempt.cancel()
    assert on.ended == []
    attempt.interrupt()
    (ended,) = await on.end_of(claim)
    assert isinstance(ended.outcome, Succeeded), "its outcome was made before"


# -- events -----------------------------------------------------------------------------------------------------------


async def test_the_end_of_an_attempt_is_an_event_with_its_decision(on):
    seen = []
    on.emitter.subscribe(AttemptEnded, seen.append)
    for function in twins(succeed):
        ended = await on.run(function)
        event = seen.pop()
        assert (event.claim, event.outcome, event.decision) == (ended.claim, ended.outcome, ended.decision)
        assert event.worker_id == OWNER
        assert 0 <= event.duration < 60
        assert seen == []


async def test_a_claim_that_went_back_untouched_is_no_event(on):
    on.emitter.subscribe(AttemptEnded, lambda _: pytest.fail("nothing ended"))
    claim = on.claim(twins(succeed)[1])
    on.start(claim).interrupt()
    await on.end_of(claim)


# -- the context around an attempt ------------------------------------------------------------------------------------


def recording_context(log):
    @contextmanager
    def factory(**kwargs):
        token = MARK.set("inside")
        log.append(("enter", kwargs))
        try:
            yield
        except BaseException as error:
            log.append(("raised", type(error)))
            raise
        finally:
            MARK.reset(token)
            log.append(("exit", MARK.get()))

    return factory


async def test_the_context_is_entered_around_the_function_and_what_is_said_of_it():
    log, seen = [], []
    async with bench(task_context=recording_context(log)) as on:
        on.emitter.subscribe(AttemptEnded, lambda _: seen.append(MARK.get()))
        for function in twins(MARK.get):
            log.clear()
            task = on.task(function)
            claim = on.claim(task)
            on.start(claim)
            (ended,) = await on.end_of(claim)
            assert ended.outcome.value == b'"inside"'
            assert log == [
                ("enter", {"task_id": claim.job.id, "task_ids": None, "name": task, "queue": "default"}),
                ("exit", "nothing"),
            ]
    assert seen == ["inside", "inside"]


async def test_the_context_sees_the_exception_and_cannot_swallow_it():
    class Swallow:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            seen.append(kind)
            return True

    seen = []
    async with bench(task_context=lambda **_: Swallow()) as on:
        for function in twins(fail):
            assert isinstance(await on.outcome(function), Raised)
    assert seen == [ValueError, ValueError]


@pytest.mark.parametrize("broken", ["factory", "enter", "exit"])
async def test_a_broken_context_is_logged_and_the_task_runs(broken, caplog):
    class Context:
        def __init__(self, **_):
            if broken == "factory":
                raise OSError("broken context")

        def __enter__(self):
            if broken == "enter":
                raise OSError("broken context")

        def __exit__(self, *_):
            if broken == "exit":
                raise OSError("broken context")

    async with bench(task_context=Context) as on:
        for function in twins(succeed):
            caplog.clear()
            assert isinstance(await on.outcome(function), Succeeded)
            assert "broken context" in caplog.text


async def test_a_span_gets_the_claims_and_the_worker():
    seen = []

    @contextmanager
    def span(claims, worker_id):
        seen.append((claims, worker_id))
        yield

    async with bench(span=span) as on:
        claim = on.claim(succeed)
        on.start(claim)
        await on.end_of(claim)
    assert seen == [((claim,), OWNER)]


# -- the job context --------------------------------------------------------------------------------------------------


async def test_a_function_with_a_context_learns_its_attempt(on):
    def attempt(context, extra):
        return [context.attempt, context.task_result.id, extra]

    for function in twins(attempt):
        claim = on.claim(on.task(function, takes_context=True), "x")
        on.start(claim)
        (ended,) = await on.end_of(claim)
        assert ended.outcome.value == f'[1,"{claim.job.id}","x"]'.encode()


async def test_progress_and_metadata_are_reported():
    reports = []

    def work(context):
        context.progress(1, 4, "first")
        context.metadata["rows"] = [1]
        context.metadata["gone"] = True
        del context.metadata["gone"]
        return dict(context.metadata)

    async with bench(report=lambda *report: reports.append(report)) as on:
        for function in twins(work):
            reports.clear()
            claim = on.claim(on.task(function, takes_context=True), metadata={"old": 1})
            on.start(claim)
            (ended,) = await on.end_of(claim)
            assert ended.outcome.value == b'{"old":1,"rows":[1]}'
            assert ended.decision.job.metadata == {"old": 1, "rows": [1]}
            first, *rest = reports
            assert first[0] is claim
            assert (first[1].done, first[1].total, first[1].message) == (1, 4, "first")
            assert isinstance(first[1], Progress)
            assert first[1].updated_at >= STARTED_AT
            assert [metadata for _, _, metadata in rest][-1] == {"old": 1, "rows": [1]}


async def test_what_a_function_left_in_its_metadata_is_there_in_the_next_attempt():
    def work(context):
        context.metadata["seen"] = context.metadata.get("seen", 0) + 1
        raise ValueError

    async with bench(max_attempts=2) as on:
        for function in twins(work):
            ended = await on.run(on.task(function, takes_context=True))
            assert ended.decision.job.metadata == {"seen": 1}
            assert ended.claim.job.metadata == {}


@pytest.mark.parametrize("bad", ["many", float("nan"), True, None])
async def test_progress_that_is_no_number_is_refused_where_it_is_said(on, bad):
    def work(context):
        context.progress(bad)

    outcome = await on.outcome(on.task(work, takes_context=True))
    assert outcome.failure.exception_class in ("builtins.TypeError", "builtins.ValueError")


async def test_metadata_that_is_not_json_is_refused_where_it_is_set(on):
    def work(context):
        context.metadata["bad"] = object()

    outcome = await on.outcome(on.task(work, takes_context=True))
    assert outcome.failure.exception_class.endswith(("TypeError", "JSONEncodeError"))


async def test_a_redacted_failure_ends_nothing_that_still_waits(on, connected, caplog):
    """Until Python 3.13 emptying the frame of a generator or coroutine that waits closes it."""
    kept = []

    def numbers():
        try:
            raise ValueError("first")
        except ValueError as error:
            kept.append(error)
        yield 1
        yield 2

    async def pay(secret):
        raise RuntimeError(f"{secret} was refused") from kept[0]

    going = numbers()
    assert next(going) == 1
    connected(framework.task_finished, lambda **_: None)
    with caplog.at_level(logging.ERROR):
        outcome = await on.outcome(on.task(pay, redact=("secret",)), "4242")
    assert isinstance(outcome, Raised)
    assert [record.name for record in caplog.records] == [framework.LOGGER_NAME]
    assert "4242" not in caplog.text
    assert next(going) == 2

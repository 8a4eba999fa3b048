"""What a function does, and the outcome of its attempt."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import datetime
import gc
import json
import sys

import pytest

from django_vtasks import signals
from django_vtasks.exceptions import Discard, Retry, Snooze
from django_vtasks.jobs.model import DeadReason, JobState
from django_vtasks.jobs.outcomes import (
    Discarded,
    Expired,
    Raised,
    RetryRequested,
    Snoozed,
    Succeeded,
    Unrunnable,
    Untouched,
)
from django_vtasks.jobs.retries import Fixed
from django_vtasks.jobs.transitions import Bury, Finish, Requeue
from tests.support.naming import shown
from tests.support.waiting import let_others_run
from tests.worker.executing import STARTED_AT, Bench, bench, twins


@pytest.fixture
async def on():
    async with bench() as made:
        yield made


@dataclasses.dataclass
class Point:
    x: int
    at: datetime.date


def echo(value):
    return value


async def aecho(value):
    await asyncio.sleep(0)
    return value


@pytest.mark.parametrize("function", [echo, aecho])
@pytest.mark.parametrize("value", [None, 0, "ä", [1, {"a": None}], {"deep": [[]]}, True, 1.5])
async def test_the_return_value_is_kept_as_json(on, function, value):
    ended = await on.run(function, value)
    assert isinstance(ended.outcome, Succeeded)
    assert json.loads(ended.outcome.value) == value
    assert isinstance(ended.decision, Finish)
    assert ended.decision.state is JobState.SUCCEEDED
    assert ended.decision.value == ended.outcome.value
    assert STARTED_AT <= ended.at < STARTED_AT + 60


async def test_dataclasses_and_dates_are_return_values(on):
    outcome = await on.outcome(lambda: Point(1, datetime.date(2026, 1, 2)))
    assert outcome.value == b'{"x":1,"at":"2026-01-02"}'


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        float("nan"),
        [float("inf")],
        {"a": {"b": float("-inf")}},
        "\ud800",
        {1: 2},
        Point(float("nan"), 0),
    ],
    ids=shown,
)
async def test_a_return_value_that_is_not_json_fails_the_attempt(on, value):
    for function in twins(lambda: value):
        ended = await on.run(function)
        assert isinstance(ended.outcome, Raised)
        assert ended.outcome.failure.exception_class == "builtins.TypeError"
        assert "return value" in ended.outcome.failure.message
        assert isinstance(ended.decision, Bury)


async def test_a_function_that_returns_a_coroutine_is_told_to_be_async(on):
    outcome = await on.outcome(lambda: aecho(1))
    assert "async def" in outcome.failure.message


async def test_arguments_arrive_and_are_the_functions_own(on):
    """A function that changes its arguments does not change those of its next attempt (invariant 8)."""

    def mutate(rows, *, options):
        rows.append(4)
        options["more"] = True
        raise ValueError(json.dumps([rows, options]))

    for function in twins(mutate):
        claim = on.claim(function, [1, 2], kwargs={"options": {}})
        on.start(claim)
        (ended,) = await on.end_of(claim)
        assert ended.outcome.failure.message == '[[1, 2, 4], {"more": true}]'
        assert ended.decision.letter.job.args == [[1, 2]]
        assert ended.decision.letter.job.kwargs == {"options": {}}


async def test_numbers_beyond_64_bit_arrive(on):
    claim = on.claim(lambda rows: str(rows[0]), [2**70])
    on.start(claim)
    (ended,) = await on.end_of(claim)
    assert ended.outcome.value == b'"1180591620717411303424"'


async def test_wrong_arguments_are_a_failure_of_the_task(on):
    outcome = await on.outcome(echo)
    assert outcome.failure.exception_class == "builtins.TypeError"
    assert "missing 1 required positional argument" in outcome.failure.message


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError("own"),
        StopIteration(1),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_task_raises_is_its_failure_and_the_next_job_runs(on, error):
    def fail():
        raise error

    for function in twins(fail):
        outcome = await on.outcome(function)
        assert isinstance(outcome, Raised)
        if not isinstance(error, StopIteration):  # which Python itself turns into a RuntimeError in a coroutine
            assert outcome.failure.exception_class.endswith(f".{type(error).__name__}")
        assert isinstance(await on.outcome(echo, 1), Succeeded)
        assert isinstance(await on.outcome(aecho, 1), Succeeded)


async def test_endless_recursion_is_a_failure(on):
    def dig():
        dig()

    for function in twins(dig):
        outcome = await on.outcome(function)
        assert outcome.failure.exception_class == "builtins.RecursionError"
        assert "dig" in outcome.failure.traceback


async def test_the_traceback_begins_in_the_task(on):
    def outer():
        raise LookupError("here")

    for function in twins(outer):
        text = (await on.outcome(function)).failure.traceback
        assert "conduct.py" not in text
        assert "in outer" in text
        assert text.endswith("LookupError: here\n")


# -- what a task asks for ---------------------------------------------------------------------------------------------


async def test_a_task_may_ask_for_a_retry_a_snooze_or_to_be_discarded():
    def ask(what):
        raise {"retry": Retry(7), "snooze": Snooze(8, "later"), "discard": Discard("no use")}[what]

    async with bench(max_attempts=2) as on:
        for function in twins(ask):
            retry = await on.run(function, "retry")
            assert isinstance(retry.outcome, RetryRequested)
            assert isinstance(retry.decision, Requeue)
            assert retry.decision.delay == 7

            snooze = await on.run(function, "snooze")
            assert snooze.outcome == Snoozed(delay=8, reason="later")
            assert snooze.decision.job.failures == 0

            discard = await on.run(function, "discard")
            assert isinstance(discard.outcome, Discarded)
            assert discard.outcome.failure.message == "no use"
            assert discard.decision.state is JobState.DISCARDED


async def test_a_retry_without_a_delay_waits_as_the_backoff_says():
    def ask():
        raise Retry

    async with bench(max_attempts=2) as on:
        outcome = await on.outcome(on.task(ask, backoff=Fixed(seconds=11.0)))
        assert outcome.delay == 11.0


@pytest.mark.parametrize("delay", ["soon", float("nan"), True, []])
async def test_a_nonsense_delay_is_an_error_of_the_task(delay):
    def ask():
        raise Snooze(delay)

    async with bench(max_attempts=2) as on:
        outcome = await on.outcome(ask)
        assert isinstance(outcome, Raised)
        assert outcome.failure.exception_class in ("builtins.TypeError", "builtins.ValueError")


# -- retries ----------------------------------------------------------------------------------------------------------


def fail():
    raise ValueError("no")


async def test_no_retry_is_asked_for_when_the_attempts_are_used_up():
    asked = []
    async with bench(max_attempts=3) as on:
        task = on.task(fail, backoff=lambda error, result: asked.append(1) or 5)
        assert (await on.run(task, failures=1)).decision.delay == 5
        assert isinstance((await on.run(task, failures=2)).decision, Bury)
    assert asked == [1]


async def test_the_rule_of_the_task_decides_which_exceptions_are_retried():
    async with bench(max_attempts=3) as on:
        assert (await on.outcome(on.task(fail, retry_on=(OSError,)))).delay is None
        assert (await on.outcome(on.task(fail, give_up_on=(ValueError,)))).delay is None
        assert (await on.outcome(on.task(fail, retry_on=(LookupError, ValueError)))).delay is not None


async def test_a_callable_backoff_sees_the_exception_and_the_running_result():
    seen = []

    def backoff(error, result):
        seen.append((type(error), str(error), result.attempts, result.record.state))
        return 3

    async with bench(max_attempts=3) as on:
        ended = await on.run(on.task(fail, backoff=backoff))
        assert ended.decision.delay == 3.0
        assert seen == [(ValueError, "no", 1, JobState.LEASED)]
        assert (await on.outcome(on.task(fail, backoff=lambda *_: None))).delay is None


@pytest.mark.parametrize("answer", ["soon", float("nan"), True, {}])
async def test_a_backoff_that_answers_nonsense_is_noted_and_means_no_retry(answer, caplog):
    async with bench(max_attempts=3) as on:
        ended = await on.run(on.task(fail, backoff=lambda *_: answer))
    assert isinstance(ended.decision, Bury)
    assert ended.outcome.failure.message.startswith("no [not retried, its backoff raised")
    assert "backoff" in caplog.text


@pytest.mark.parametrize("error", [RuntimeError("broken rule"), SystemExit(1)])
async def test_a_backoff_that_raises_is_noted_and_means_no_retry(error, caplog):
    def backoff(*_):
        raise error

    async with bench(max_attempts=3) as on:
        ended = await on.run(on.task(fail, backoff=backoff))
    assert isinstance(ended.decision, Bury)
    assert type(error).__name__ in ended.outcome.failure.message
    assert "backoff" in caplog.text


@pytest.mark.parametrize(("answer", "delay"), [(-5, 0.0), (1e30, 365 * 24 * 3600.0), (0, 0.0)])
async def test_absurd_delays_are_clamped(answer, delay):
    async with bench(max_attempts=3) as on:
        assert (await on.outcome(on.task(fail, backoff=lambda *_: answer))).delay == delay


# -- what cannot be run -----------------------------------------------------------------------------------------------


async def test_a_path_without_a_task_is_never_called(on):
    ended = await on.run("bench.nothing")
    assert isinstance(ended.outcome, Unrunnable)
    assert ended.outcome.reason is DeadReason.UNKNOWN_TASK
    assert ended.decision.letter.reason is DeadReason.UNKNOWN_TASK
    assert "names no task" in ended.outcome.failure.message


async def test_bytes_that_do_not_decode_become_a_dead_letter(on):
    claim = dataclasses.replace(on.claim(echo, 1), job=None, defect="not JSON: x")
    on.start(claim)
    (ended,) = await on.end_of(claim)
    assert ended.outcome.reason is DeadReason.UNDECODABLE
    assert ended.outcome.failure.message == "not JSON: x"
    assert ended.decision.letter.raw == claim.raw


async def test_a_job_past_its_expiry_is_not_started(on):
    called = []
    ended = await on.run(called.append, 1, expires_at=STARTED_AT - 1)
    assert isinstance(ended.outcome, Expired)
    assert ended.decision.letter.reason is DeadReason.EXPIRED
    assert "1970-01-12 13:46:39" in ended.outcome.failure.message
    assert called == []
    assert isinstance(await on.outcome(called.append, 1, expires_at=STARTED_AT + 1), Succeeded)


def generator():
    yield 1


async def agenerator():
    yield 1


@pytest.mark.parametrize("function", [generator, agenerator])
async def test_a_generator_function_is_refused_with_the_reason(on, function):
    ended = await on.run(function)
    assert isinstance(ended.outcome, Unrunnable)
    assert "generator function" in ended.outcome.failure.message
    assert isinstance(ended.decision, Bury)


async def test_options_of_the_old_line_are_dropped_unless_the_function_takes_them(on):
    old = {"queue_name": "q", "unique": True, "unique_key": "k", "ttl": 5, "remove_unique_on_complete": False}

    def plain(a):
        return a

    def takes_one(a, ttl):
        return [a, ttl]

    def takes_all(**kwargs):
        return sorted(kwargs)

    assert (await on.outcome(plain, kwargs={"a": 1, **old})).value == b"1"
    assert (await on.outcome(takes_one, kwargs={"a": 1, **old})).value == b"[1,5]"
    assert json.loads((await on.outcome(takes_all, kwargs=old)).value) == sorted(old)
    assert "unexpected keyword" in (await on.outcome(plain, kwargs={"a": 1, "b": 2})).failure.message


# -- telling the end --------------------------------------------------------------------------------------------------


async def test_the_end_is_told_once_and_never_before_start_returns(on):
    for task in (echo, aecho, "bench.nothing"):
        claim = on.claim(task, 1)
        on.start(claim)
        assert on.ended == []
        await on.end_of(claim)
        assert len(on.ended) == 1
        on.ended.clear()


async def test_an_end_that_cannot_be_taken_is_logged_and_harms_nobody(on, caplog):
    def refuse(*_):
        raise RuntimeError("not now")

    claims = [on.claim(echo, 1), on.claim(aecho, 1)]
    for claim in claims:
        on.executor.start(claim, refuse)
    assert isinstance(await on.outcome(aecho, 1), Succeeded)
    assert isinstance(await on.outcome(echo, 1), Succeeded)
    assert caplog.text.count("not now") >= 1


async def test_the_end_is_told_in_the_context_of_the_worker():
    mark = contextvars.ContextVar("mark")
    mark.set("of the worker")
    seen = []

    def task():
        mark.set("of the task")

    async with bench() as on:
        for function in twins(task):
            claim = on.claim(function)
            on.executor.start(claim, lambda *ended: (seen.append(mark.get()), on.done(*ended)))
            await on.end_of(claim)
    assert seen == ["of the worker"] * 2


def test_a_loop_that_is_torn_down_tells_every_end(caplog):
    """A claim whose attempt never began goes back untouched; a cancelled function is a failure, not a silence."""
    kept = []

    async def leave():
        made = Bench()
        kept.append(made)
        running = asyncio.Event()

        async def wait_for_ever():
            running.set()
            await asyncio.Event().wait()

        made.start(made.claim(wait_for_ever))
        await running.wait()
        asyncio.get_running_loop().call_soon(lambda: made.start(made.claim(wait_for_ever)))

    asyncio.run(leave())
    outcomes = [type(ended.outcome) for ended in kept[0].ended]
    assert sorted(outcomes, key=lambda kind: kind.__name__) == [Raised, Untouched]


def test_a_loop_that_is_closed_under_a_coroutine_breaks_nothing():
    """The interpreter closes the coroutine when it is collected; nothing can be awaited then."""
    running = []

    async def wait_for_ever():
        running.append(True)
        await asyncio.Event().wait()

    async def receiver(**_kwargs):
        await asyncio.sleep(0)

    async def leave():
        signals.task_failure.connect(receiver)
        made = Bench()
        attempt = made.start(made.claim(wait_for_ever))
        await let_others_run()
        attempt.task._log_destroy_pending = False

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave())
    loop.close()
    with catch_unraisable() as raised:
        gc.collect()
    assert running == [True]
    assert raised == []


@contextlib.contextmanager
def catch_unraisable():
    raised = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda what: raised.append(what.exc_value)
    try:
        yield raised
    finally:
        sys.unraisablehook = hook

"""A batch function: called once with a list, its members' outcomes told apart or not."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest

from django_vtasks import BatchResult, MemberFailed, framework, signals
from django_vtasks.events import AttemptEnded
from django_vtasks.exceptions import Discard, Retry, Snooze
from django_vtasks.jobs.model import DeadReason
from django_vtasks.jobs.outcomes import (
    Cancelled,
    Discarded,
    Expired,
    Interrupted,
    Raised,
    RetryRequested,
    Snoozed,
    Succeeded,
    TimedOut,
    Unrunnable,
)
from django_vtasks.jobs.transitions import Bury, Requeue
from tests.support.waiting import happens
from tests.worker.executing import STARTED_AT, Backend, bench, twins


@pytest.fixture
async def on():
    async with bench() as made:
        yield made


async def run_batch(on, function, count=3, **more):
    task = on.task(function)
    claims = [on.claim(task, number, kwargs={"n": number}, **more) for number in range(count)]
    on.executor.start_batch(claims, on.done)
    return await on.end_of(*claims)


def outcomes(ended):
    return [type(end.outcome) for end in ended]


async def test_the_function_gets_one_list_of_payloads(on):
    got = []

    def batch(members):
        got.append(members)

    for function in twins(batch):
        got.clear()
        ended = await run_batch(on, function, priority=4)
        assert outcomes(ended) == [Succeeded] * 3
        ((first, *others),) = got
        assert len(others) == 2
        assert first["id"] == ended[0].claim.job.id
        assert first["_raw"] == ended[0].claim.raw
        assert first["args"] == [0]
        assert first["kwargs"] == {"n": 0}
        fields = {
            "func",
            "queue",
            "priority",
            "ts",
            "retries",
            "unique",
            "unique_key",
            "ttl",
            "max_rescues",
            "run_after",
        }
        assert fields | {"remove_unique_on_complete", "_rescue_count"} <= first.keys()
        assert first["priority"] == 4


async def test_members_may_be_changed_by_the_function(on):
    def batch(members):
        members[0]["args"].append("mine")
        members[0]["kwargs"].clear()
        raise ValueError

    ended = await run_batch(on, batch)
    assert ended[0].decision.letter.job.args == [0]
    assert ended[0].decision.letter.job.kwargs == {"n": 0}


async def test_a_failing_group_fails_whole(on):
    def batch(members):
        raise ValueError("no")

    for function in twins(batch):
        ended = await run_batch(on, function)
        assert outcomes(ended) == [Raised] * 3
        assert all(isinstance(end.decision, Bury) for end in ended)
        assert {end.outcome.failure.message for end in ended} == {"no"}


async def test_each_member_of_a_failing_group_is_retried_by_its_own_count():
    def batch(members):
        raise ValueError("no")

    async with bench(max_attempts=2) as on:
        task = on.task(batch)
        claims = [on.claim(task), on.claim(task, failures=1)]
        on.executor.start_batch(claims, on.done)
        ended = await on.end_of(*claims)
        assert [type(end.decision) for end in ended] == [Requeue, Bury]


async def test_the_function_may_tell_its_members_apart():
    def batch(members):
        result = BatchResult(values={members[0]["id"]: {"rows": 5}})
        result.fail(members[1], ValueError("bad row"))
        result.fail(members[2]["id"], Retry(6))
        result.fail(members[3], Snooze(7))
        result.fail(members[4], Discard("old"))
        return result

    async with bench(max_attempts=2) as on:
        for function in twins(batch):
            ended = await run_batch(on, function, 6)
            assert outcomes(ended) == [Succeeded, Raised, RetryRequested, Snoozed, Discarded, Succeeded]
            assert json.loads(ended[0].outcome.value) == {"rows": 5}
            assert ended[1].outcome.failure.message == "bad row"
            assert ended[2].decision.delay == 6.0
            assert ended[5].outcome.value == b"null"


async def test_a_function_may_raise_which_members_failed(on):
    def batch(members):
        raise MemberFailed({members[1]["id"]: LookupError("gone")})

    for function in twins(batch):
        ended = await run_batch(on, function)
        assert outcomes(ended) == [Succeeded, Raised, Succeeded]
        assert ended[1].outcome.failure.exception_class == "builtins.LookupError"


async def test_a_value_of_a_member_that_is_not_json_fails_that_member(on):
    ended = await run_batch(on, lambda members: BatchResult(values={members[0]["id"]: {1, 2}}))
    assert outcomes(ended) == [Raised, Succeeded, Succeeded]


async def test_members_that_are_not_in_the_batch_are_pointed_out(on, caplog):
    ended = await run_batch(on, lambda members: BatchResult(failed={"no such id": ValueError()}))
    assert outcomes(ended) == [Succeeded] * 3
    assert "no such id" in caplog.text


def test_a_member_fails_with_an_exception_only():
    with pytest.raises(TypeError, match="with an exception"):
        BatchResult().fail("id", "a text")


async def test_a_failing_group_may_be_run_again_member_by_member():
    calls = []

    def batch(members):
        calls.append(len(members))
        if any(member["args"] == [1] for member in members):
            raise ValueError("bad member")

    async with bench(one_by_one=frozenset({"default"})) as on:
        for function in twins(batch):
            calls.clear()
            ended = await run_batch(on, function)
            assert outcomes(ended) == [Succeeded, Raised, Succeeded]
            assert calls == [3, 1, 1, 1]


async def test_a_stop_while_members_run_alone_keeps_what_is_done():
    second = asyncio.Event()
    attempts = []

    async def batch(members):
        if len(members) > 1:
            raise ValueError("all together")
        if members[0]["args"] == [1]:
            second.set()
            await asyncio.Event().wait()

    async with bench(one_by_one=frozenset({"default"})) as on:
        task = on.task(batch)
        claims = [on.claim(task, number) for number in range(3)]
        attempts.append(on.executor.start_batch(claims, on.done))
        await happens(second)
        attempts[0].interrupt()
        assert outcomes(await on.end_of(*claims)) == [Succeeded, Interrupted, Interrupted]


async def test_a_member_that_cannot_be_run_does_not_stop_the_others(on):
    got = []
    task = on.task(lambda members: got.extend(members))
    good, late = on.claim(task, 1), on.claim(task, 2, expires_at=STARTED_AT - 5)
    broken = dataclasses.replace(on.claim(task, 3), job=None, defect="cut off")
    on.executor.start_batch([broken, good, late], on.done)
    assert outcomes(await on.end_of(broken, good, late)) == [Unrunnable, Succeeded, Expired]
    assert [member["args"] for member in got] == [[1]]


async def test_a_group_without_a_task_becomes_dead_letters(on):
    claims = [on.claim("bench.gone"), on.claim("bench.gone")]
    on.executor.start_batch(claims, on.done)
    ended = await on.end_of(*claims)
    assert [end.decision.letter.reason for end in ended] == [DeadReason.UNKNOWN_TASK] * 2


async def test_a_batch_function_cannot_take_a_context(on):
    claim = on.claim(on.task(lambda context, members: None, takes_context=True))
    on.executor.start_batch([claim], on.done)
    (ended,) = await on.end_of(claim)
    assert "takes a context" in ended.outcome.failure.message


async def test_a_group_times_out_and_is_interrupted_as_one(on):
    async def batch(members):
        await asyncio.Event().wait()

    task = on.task(batch, timeout=0.02)
    claims = [on.claim(task), on.claim(task)]
    on.executor.start_batch(claims, on.done)
    assert outcomes(await on.end_of(*claims)) == [TimedOut] * 2
    task = on.task(batch)
    claims = [on.claim(task), on.claim(task)]
    on.executor.start_batch(claims, on.done).interrupt()
    await on.end_of(*claims)


async def test_one_member_of_several_cannot_be_cancelled_but_a_group_of_one_can(on):
    running = asyncio.Event()
    release = asyncio.Event()

    async def batch(members):
        running.set()
        await release.wait()

    task = on.task(batch)
    several, one = [on.claim(task), on.claim(task)], [on.claim(task)]
    on.executor.start_batch(several, on.done).cancel()
    attempt = on.executor.start_batch(one, on.done)
    await happens(running)
    attempt.cancel()
    assert outcomes(await on.end_of(*one)) == [Cancelled]
    release.set()
    assert outcomes(await on.end_of(*several)) == [Succeeded] * 2


# -- signals ----------------------------------------------------------------------------------------------------------


async def test_the_signals_of_a_group_have_lists(on):
    heard = []

    def receiver(signal, sender, **kwargs):
        heard.append((names[signal], kwargs))

    names = {getattr(signals, name): name for name in ("task_started", "task_finished", "task_failure")}
    for signal in names:
        signal.connect(receiver)
    try:
        for function in (*twins(lambda members: None), fail):
            heard.clear()
            ended = await run_batch(on, function, 2)
            ids = [end.claim.job.id for end in ended]
            start, end = heard
            assert start[0] == "task_started"
            assert start[1]["task_id"] is None
            assert start[1]["task_ids"] == end[1]["task_ids"] == ids
            assert start[1]["args"] == [[0], [1]]
            assert start[1]["kwargs"] == [{"n": 0}, {"n": 1}]
            assert end[0] == ("task_failure" if function is fail else "task_finished")
    finally:
        for signal in names:
            signal.disconnect(receiver)


def fail(members):
    raise ValueError("no")


async def test_the_framework_hears_of_every_member(on):
    heard = []

    def receiver(sender, task_result, **_):
        heard.append((sender, task_result.id, str(task_result.status)))

    framework.task_finished.connect(receiver)
    try:
        ended = await run_batch(on, lambda members: BatchResult(failed={members[0]["id"]: ValueError()}), 2)
        first, second = (end.claim.job.id for end in ended)
        assert heard == [(Backend, first, "FAILED"), (Backend, second, "SUCCESSFUL")]
    finally:
        framework.task_finished.disconnect(receiver)


async def test_every_member_is_an_event(on):
    seen = []
    on.emitter.subscribe(AttemptEnded, seen.append)
    ended = await run_batch(on, fail, 2)
    assert [event.claim for event in seen] == [end.claim for end in ended]

"""Calls of many coroutines that go to the server as one: each gets what is its own."""

from __future__ import annotations

import asyncio
import gc

import pytest

from django_vtasks.jobs.errors import StoreRefused, StoreUnavailable
from django_vtasks.stores.base import Added
from django_vtasks.stores.valkey.admission import Gate
from django_vtasks.stores.valkey.store import ValkeyClientStore
from tests.stores.valkey_help import job, options, raw_client
from tests.support.builders import a_key
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.valkey

QUEUE = "{vt}:q:default"


@pytest.fixture
def raw(clean_valkey):
    with raw_client(clean_valkey) as client:
        yield client


@pytest.fixture
def store(clean_valkey):
    store = ValkeyClientStore(options(clean_valkey))
    yield store
    store.close()


def arguments(jobs):
    gate = Gate(60.0)
    return gate.args([gate.entry(item) for item in jobs])


@pytest.mark.parametrize("values", [{}, {"result_ttl": 0.0}, {"priority": 5}, {"run_after": 9e9}], ids=str)
def test_jobs_that_are_alike_go_as_the_group_they_are_among_others(values):
    alike = [job(**values) for _ in range(3)]
    alone, among = map(arguments, (alike, [*alike, job(queue="other")]))
    assert alone[0] == 1
    assert among[0] == 2
    assert among[1 : len(alone)] == alone[1:]


async def gathered(store, *calls):
    """The answers or errors of calls that wait for each other, behind one that is sent alone."""
    _, *answers = await asyncio.gather(
        store.aadd([job()]), *[store.aadd(jobs) for jobs in calls], return_exceptions=True
    )
    return answers


def shapes(queue):
    """Jobs of every way into a queue that a script knows, in that queue."""
    return [
        job(queue=queue, result_ttl=0.0),
        job(queue=queue, result_ttl=60.0),
        job(queue=queue, priority=5),
        job(queue=queue, run_after=4e9),
        job(queue=queue, unique=a_key(f"of-{queue}")),
        job(queue=queue, unique=a_key(f"later-{queue}"), run_after=4e9, priority=5),
    ]


async def test_a_job_that_the_server_refuses_hurts_no_other(store, raw):
    raw.set("{vt}:q:bad", "something else")
    good = [item for pair in zip(shapes("a"), shapes("b"), strict=True) for item in pair]
    bad = [item for item in shapes("bad") if item.run_after is None and not item.priority]
    mixed = [*good[:4], *bad, *good[4:]]
    answers = await gathered(store, *[[item] for item in mixed])
    for item, answer in zip(mixed, answers, strict=True):
        if item in bad:
            assert isinstance(answer, StoreRefused)
            assert "holds something else" in str(answer)
            assert (await store.aget(item.id)) is None
        else:
            assert answer == [Added(status="added", job_id=item.id)]
    assert len({id(answer) for answer in answers}) == len(mixed)
    assert raw.llen("{vt}:q:a") == raw.llen("{vt}:q:b") == 3
    assert raw.exists("{vt}:unique:of-bad") == 0


async def test_jobs_that_cannot_be_examined_leave_those_behind_them_alone(store, raw):
    raw.hset("{vt}:unique:broken", "something", "else")
    bad = [job(queue="c", unique=a_key(key), run_after=4e9) for key in ("broken", "whole")]
    *refused, answer = await gathered(store, *[[item] for item in bad], [job(queue="d")])
    assert {type(error) for error in refused} == {StoreRefused}
    assert [await store.aget(item.id) for item in bad] == [None, None]
    assert answer[0].status == "added"
    assert raw.llen("{vt}:q:d") == 1


async def test_of_one_call_all_is_told_by_its_first_error(store, raw):
    raw.set("{vt}:q:bad", "something else")
    ours, theirs = await gathered(store, [job(queue="a"), job(queue="bad"), job(queue="b")], [job(queue="b")])
    assert isinstance(ours, StoreRefused)
    assert [answer.status for answer in theirs] == ["added"]
    with pytest.raises(StoreRefused, match="holds something else"):
        store.add([job(queue="a"), job(queue="bad"), job(queue="b")])
    assert (raw.llen("{vt}:q:a"), raw.llen("{vt}:q:b")) == (2, 3)


async def test_a_lost_reply_tells_the_refusals_again(store, raw):
    raw.set("{vt}:q:bad", "something else")
    plans = store._plans
    entries = [plans.entry(item) for item in (job(queue="a", result_ttl=0.0), job(queue="bad"))]

    class SameTurn:
        def next(self):
            return "a-caller", 7

    for _ in range(2):
        first, second = store._sync.run(plans.add(entries, SameTurn()))
        assert first.status == "added"
        assert isinstance(second, StoreRefused)
    assert raw.llen("{vt}:q:a") == 1


async def test_a_call_cancelled_while_it_waits_is_not_sent_and_hurts_no_other(store, raw, clean_valkey):
    await store.aadd([job()])
    clean_valkey.pause()
    jobs = [job(result_ttl=60.0) for _ in range(4)]
    calls = [asyncio.create_task(store.aadd([item])) for item in jobs]
    await asyncio.sleep(0)
    calls[2].cancel()
    await asyncio.sleep(0)
    clean_valkey.resume()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[2], asyncio.CancelledError)
    assert [answer[0].job_id for answer in answers[:2] + answers[3:]] == [jobs[i].id for i in (0, 1, 3)]
    assert raw.llen(QUEUE) == 4


async def test_a_call_cancelled_while_it_is_sent_hurts_none_that_waits(store, raw, clean_valkey):
    await store.aadd([job()])
    clean_valkey.pause()
    calls = [asyncio.create_task(store.aadd([job()])) for _ in range(4)]
    await asyncio.sleep(0)
    calls[0].cancel()
    await asyncio.sleep(0)
    clean_valkey.resume()
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert [answer[0].status for answer in answers[1:]] == ["added"] * 3
    assert raw.llen(QUEUE) in (4, 5)


async def test_while_the_server_is_away_each_gets_an_error_of_its_own(start_server):
    server = start_server(ValkeyServer())
    store = ValkeyClientStore(options(server))
    await store.aadd([job()])
    server.stop()
    errors = await gathered(store, *[[job()] for _ in range(5)])
    assert {type(error) for error in errors} == {StoreUnavailable}
    assert len({id(error) for error in errors}) == 5
    again = await gathered(store, [job()])
    assert isinstance(again[0], StoreUnavailable)
    store.close()


async def test_who_waits_is_told_when_the_loop_drops_what_sends_for_them(store):
    """As a test runner or a framework does that cancels all tasks of a loop that goes on."""
    first = asyncio.create_task(store.aadd([job()]))
    second = asyncio.create_task(store.aadd([job()]))
    known = asyncio.all_tasks()
    await first
    for task in asyncio.all_tasks() - known:
        task.cancel()
    with pytest.raises(StoreUnavailable, match="may be stored or not"):
        await second
    assert [answer[0].status for answer in await gathered(store, [job()], [job()])] == ["added"] * 2


def test_a_loop_that_ends_in_the_midst_of_calls_leaves_the_store_usable(store, raw, clean_valkey):
    complaints = []

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        await store.aadd([job()])
        clean_valkey.pause()
        tasks = [asyncio.create_task(store.aadd([job()])) for _ in range(5)]
        await asyncio.sleep(0)
        return tasks

    tasks = asyncio.run(main())
    clean_valkey.resume()
    assert all(task.cancelled() for task in tasks)
    gc.collect()
    assert complaints == []
    before = raw.llen(QUEUE)
    asyncio.run(store.aadd([job()]))
    assert raw.llen(QUEUE) == before + 1

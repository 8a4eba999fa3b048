"""What attempts share and what they must not share: threads, connections, contexts."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.cache import caches
from django.db import connections, transaction
from django.db.backends.signals import connection_created
from django.utils import timezone, translation

from django_vtasks.execution import connections as hygiene
from django_vtasks.framework import task_backends
from django_vtasks.jobs.outcomes import Succeeded
from tests.project.models import Effect
from tests.support.waiting import DEADLINE, aeventually, happens
from tests.worker.executing import bench, twins

MARK = contextvars.ContextVar("mark", default="clean")


@pytest.fixture
async def on():
    async with bench() as made:
        yield made


async def value_of(on, function, *args):
    outcome = await on.outcome(function, *args)
    assert isinstance(outcome, Succeeded), outcome
    return outcome.value


# -- contexts ---------------------------------------------------------------------------------------------------------


async def test_nothing_of_a_context_leaks_to_the_next_attempt(on):
    def look():
        found = [MARK.get(), translation.get_language(), timezone.get_current_timezone_name()]
        MARK.set("dirty")
        translation.activate("de")
        timezone.activate("Asia/Tokyo")
        return found

    MARK.set("of the worker")
    for function in twins(look):
        first, second = await value_of(on, function), await value_of(on, function)
        assert first == second == b'["clean","en-us","UTC"]'


async def test_what_a_coroutine_sets_is_seen_by_all_that_it_calls(on):
    async def task():
        MARK.set("mine")
        return [await sync_to_async(MARK.get)(), await asyncio.create_task(aget())]

    async def aget():
        return MARK.get()

    assert await value_of(on, task) == b'["mine","mine"]'


async def test_caches_and_backends_are_made_once_for_a_slot(on):
    """A cache made anew for every attempt would open new connections for every attempt."""
    seen = []

    def look():
        seen.append((caches["default"], task_backends["default"]))

    for function in twins(look):
        seen.clear()
        await on.outcome(function)
        await on.outcome(function)
        assert seen[0][0] is seen[1][0]
        assert seen[0][1] is seen[1][1]


# -- threads ----------------------------------------------------------------------------------------------------------


async def test_as_many_sync_functions_run_at_once_as_the_concurrency_says():
    async with bench(concurrency=40) as on:
        together = threading.Barrier(40)
        claims = [on.claim(on.task(together.wait), DEADLINE) for _ in range(40)]
        for claim in claims:
            on.start(claim)
        assert all(isinstance(ended.outcome, Succeeded) for ended in await on.end_of(*claims))


async def test_no_more_threads_are_made_than_the_concurrency_says():
    async with bench(concurrency=3) as on:
        claims = [on.claim(lambda: threading.get_ident()) for _ in range(2000)]
        for claim in claims:
            on.start(claim)
        ended = await on.end_of(*claims)
        assert len({end.outcome.value for end in ended}) <= 3
        assert on.executor._env.threads.size <= 3


async def test_calls_in_a_row_share_threads(on):
    threads = {await value_of(on, threading.get_ident) for _ in range(50)}
    # A thread has told its outcome a moment before it can be given the next call.
    assert len(threads) <= 5


async def test_a_sync_function_runs_off_the_loop_and_may_call_coroutines(on):
    async def coroutine():
        return [threading.get_ident(), await sync_to_async(threading.get_ident)()]

    def task():
        loop_thread, orm_thread = async_to_sync(coroutine)()
        return [loop_thread != orm_thread, orm_thread == threading.get_ident()]

    assert await value_of(on, task) == b"[true,true]"


async def test_each_running_coroutine_has_a_thread_of_its_own_and_keeps_it(on):
    gate = asyncio.Event()
    waiting = []

    async def task():
        first = await sync_to_async(threading.get_ident)()
        waiting.append(first)
        if len(waiting) == 5:
            gate.set()
        await happens(gate)
        return [first, await sync_to_async(threading.get_ident)(), await asyncio.create_task(child())]

    async def child():
        return await sync_to_async(threading.get_ident)()

    claims = [on.claim(task) for _ in range(5)]
    for claim in claims:
        on.start(claim)
    ended = await on.end_of(*claims)
    assert len(set(waiting)) == 5
    for end in ended:
        first, second, third = end.outcome.value.strip(b"[]").split(b",")
        assert first == second == third


async def test_attempts_one_after_the_other_use_one_thread_for_their_orm_calls(on):
    async def task():
        return await sync_to_async(threading.get_ident)()

    assert len({await value_of(on, task) for _ in range(5)}) == 1


async def test_an_executor_inside_async_to_sync_still_separates_its_attempts():
    """Embedded in a sync caller, ORM calls would otherwise all go to the caller's thread."""

    def call():
        return async_to_sync(inside)()

    async def inside():
        async with bench() as on:
            gate = asyncio.Event()
            seen = []

            async def task():
                seen.append(await sync_to_async(threading.get_ident)())
                if len(seen) == 2:
                    gate.set()
                await happens(gate)

            claims = [on.claim(task), on.claim(task)]
            for claim in claims:
                on.start(claim)
            await on.end_of(*claims)
            return seen

    seen = await asyncio.to_thread(call)
    assert len(set(seen)) == 2


async def test_closing_ends_every_thread():
    before = set(threading.enumerate())
    async with bench() as on:
        await on.outcome(lambda: None)

        async def task():
            await sync_to_async(threading.get_ident)()

        await on.outcome(task)
        assert len(set(threading.enumerate()) - before) >= 2
    left = [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("asyncio_")]
    for thread in left:
        thread.join(DEADLINE)
    assert not [thread for thread in left if thread.is_alive()]


# -- connections ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["kept", "closed"])
def alias(request, database_alias):
    """A database whose connections are kept between attempts, and one whose are not."""
    settings = connections[database_alias].settings_dict
    before = settings["CONN_MAX_AGE"]
    settings["CONN_MAX_AGE"] = None if request.param == "kept" else 0
    yield database_alias
    settings["CONN_MAX_AGE"] = before


async def labels(alias):
    """The labels of all rows, read on a connection that is gone afterwards."""

    def read():
        try:
            return list(Effect.objects.using(alias).order_by("label").values_list("label", flat=True))
        finally:
            connections[alias].close()

    return await asyncio.to_thread(read)


def spoil_atomic(alias):
    transaction.atomic(alias).__enter__()
    Effect.objects.using(alias).create(label="left open", pid=0)


def spoil_autocommit(alias):
    transaction.set_autocommit(False, alias)
    Effect.objects.using(alias).create(label="left open", pid=0)


def spoil_raw(alias):
    with connections[alias].cursor() as cursor:
        cursor.execute("BEGIN")
    Effect.objects.using(alias).create(label="left open", pid=0)


def spoil_closed(alias):
    Effect.objects.using(alias).count()
    connections[alias].connection.close()


def spoil_closed_in_atomic(alias):
    transaction.atomic(alias).__enter__()
    Effect.objects.using(alias).count()
    connections[alias].close()


def spoil_broken(alias):
    with transaction.atomic(alias), connections[alias].cursor() as cursor:
        cursor.execute("SELECT nothing FROM nowhere")


SPOILERS = [spoil_atomic, spoil_autocommit, spoil_raw, spoil_closed, spoil_closed_in_atomic, spoil_broken]


@pytest.mark.parametrize("spoil", SPOILERS)
async def test_no_task_spoils_the_connection_of_the_next(alias, spoil):
    def use():
        connection = connections[alias]
        Effect.objects.using(alias).create(label="next", pid=0)
        return [connection.in_atomic_block, connection.get_autocommit(), list(connection.savepoint_ids)]

    async def aspoil():
        await sync_to_async(spoil)(alias)

    async def ause():
        return await sync_to_async(use)()

    async with bench() as on:
        await on.outcome(spoil, alias)
        assert await value_of(on, use) == b"[false,true,[]]"
        await on.outcome(aspoil)
        assert await value_of(on, ause) == b"[false,true,[]]"
    assert await labels(alias) == ["next", "next"]


async def test_on_commit_fires_inside_a_task_and_not_from_a_task_that_left_a_transaction(alias):
    fired = []

    def leave():
        transaction.atomic(alias).__enter__()
        transaction.on_commit(lambda: fired.append("lost"), using=alias)

    def commit():
        transaction.on_commit(lambda: fired.append("at once"), using=alias)
        with transaction.atomic(alias):
            transaction.on_commit(lambda: fired.append("later"), using=alias)
            assert fired == ["at once"]

    async with bench() as on:
        await on.outcome(leave)
        assert isinstance(await on.outcome(commit), Succeeded)
    assert fired == ["at once", "later"]


async def test_the_query_log_does_not_grow(alias):
    def query():
        connections[alias].force_debug_cursor = True
        Effect.objects.using(alias).count()
        return len(connections[alias].queries_log)

    async def aquery():
        return await sync_to_async(query)()

    async with bench() as on:
        counts = [int(await value_of(on, function)) for function in (query, aquery) for _ in range(6)]
    # The first use of a connection asks most, whichever thread has it.
    assert max(counts) == counts[0]


async def test_a_connection_that_died_while_it_rested_is_not_given_to_a_task(alias, monkeypatch):
    monkeypatch.setattr(hygiene, "IDLE_SECONDS", -1.0)

    def use():
        return Effect.objects.using(alias).count()

    def kill_later():
        use()
        kept = connections[alias]
        raw = kept.connection
        killers.append(raw.close)

    killers = []

    async def akill_later():
        await sync_to_async(kill_later)()

    async def ause():
        return await sync_to_async(use)()

    async with bench() as on:
        for spoiler, user in ((kill_later, use), (akill_later, ause)):
            await on.outcome(spoiler)
            slots = [*on.executor._env.threads._slots, *on.executor._env.contexts._free]
            if any(slot.connected for slot in slots) and connections[alias].vendor != "sqlite":
                killers.pop()()
            assert await value_of(on, user) == b"0"


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_after_one_attempt_lost_its_connection_no_other_meets_a_dead_one(alias, asynchronous):
    if connections[alias].vendor == "sqlite" or connections[alias].settings_dict["CONN_MAX_AGE"] == 0:
        pytest.skip("there is no server that could end a connection, or none is kept")
    both = threading.Barrier(2, timeout=30)
    opened = []

    def together():
        Effect.objects.using(alias).count()
        opened.append(connections[alias].connection)
        both.wait()

    def use():
        return Effect.objects.using(alias).count()

    def in_a_slot(function):
        async def run():
            return await sync_to_async(function)()

        return run if asynchronous else function

    async with bench() as on:
        await asyncio.gather(on.outcome(in_a_slot(together)), on.outcome(in_a_slot(together)))
        assert len(set(opened)) == 2
        for raw in opened:
            raw.close()
        assert not isinstance(await on.outcome(in_a_slot(use)), Succeeded)
        again = await asyncio.gather(on.outcome(in_a_slot(together)), on.outcome(in_a_slot(together)))
        assert all(isinstance(outcome, Succeeded) for outcome in again), again


@pytest.fixture
def opened():
    """Every connection that is opened while the test runs."""
    found = []

    def notice(connection, **_):
        found.append(connection)

    connection_created.connect(notice)
    yield found
    connection_created.disconnect(notice)


def alive(found):
    return sum(connection.connection is not None for connection in {id(made): made for made in found}.values())


async def test_connections_rest_in_as_many_slots_as_may_run_at_once_and_none_is_left_in_the_end(alias, opened):
    async with bench(concurrency=4) as on:
        for _ in range(3):
            for function in (count, acount):
                claims = [on.claim(function, alias) for _ in range(8)]
                for claim in claims:
                    on.start(claim)
                assert all(isinstance(ended.outcome, Succeeded) for ended in await on.end_of(*claims))
                await aeventually(lambda: alive(opened) == on.executor.connections <= 4)
    assert alive(opened) == 0


async def test_resting_connections_make_room_for_those_of_running_attempts(database_alias, opened):
    """First threads, then coroutines: what rests in the one kind of slots is not kept beside the other kind."""
    connections[database_alias].settings_dict["CONN_MAX_AGE"] = None
    async with bench(concurrency=3) as on:
        together = threading.Barrier(3)

        def use():
            together.wait(DEADLINE)
            return count(database_alias)

        gate = asyncio.Event()
        running = []

        async def ause():
            await acount(database_alias)
            running.append(1)
            if len(running) == 3:
                gate.set()
            await happens(gate)
            await aeventually(lambda: alive(opened) == 3)

        for function in (use, ause, use):
            claims = [on.claim(function) for _ in range(3)]
            for claim in claims:
                on.start(claim)
            ended = await on.end_of(*claims)
            assert all(isinstance(end.outcome, Succeeded) for end in ended), ended
            await aeventually(lambda: alive(opened) == on.executor.connections == 3)
    connections[database_alias].settings_dict["CONN_MAX_AGE"] = 0
    assert alive(opened) == 0


def count(alias):
    return Effect.objects.using(alias).count()


async def acount(alias):
    return await Effect.objects.using(alias).acount()


async def test_transactions_of_attempts_that_run_together_never_mix(database_alias):
    """Half of the attempts roll back, half commit, all at the same time."""
    if connections[database_alias].vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    ready = asyncio.Event()
    inside = []

    def work(label, fail):
        with transaction.atomic(database_alias):
            Effect.objects.using(database_alias).create(label=label, pid=0)
            async_to_sync(wait)()
            mine = set(Effect.objects.using(database_alias).values_list("label", flat=True))
            assert label in mine
            if fail:
                raise ValueError(label)

    async def wait():
        inside.append(1)
        if len(inside) == 8:
            ready.set()
        await happens(ready)

    async def task(label, fail):
        await sync_to_async(work)(label, fail)

    async with bench() as on:
        claims = [on.claim(task, f"row {number}", number % 2 == 1) for number in range(8)]
        for claim in claims:
            on.start(claim)
        await on.end_of(*claims)
    assert await labels(database_alias) == ["row 0", "row 2", "row 4", "row 6"]

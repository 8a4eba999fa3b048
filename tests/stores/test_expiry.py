"""Timeouts for answers: a late event loop is no silent server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.stores.base.expiry import GRACE, LATE, Deadline, Expiry
from django_vtasks.stores.database import threads
from django_vtasks.stores.database.threads import DatabaseThread
from django_vtasks.stores.valkey.async_client import AsyncClient
from django_vtasks.stores.valkey.connection import link_of
from django_vtasks.stores.valkey.requests import Command
from tests.stores.valkey_help import options
from tests.support.waiting import let_others_run


def uvloops_loop():
    return pytest.importorskip("uvloop").new_event_loop()


LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloops_loop], ids=["asyncio", "uvloop"])


class FakeLoop:
    """An event loop that turns when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[FakeTimer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(when, call))
        return self.timers[-1]

    def turns_at(self, now: float) -> None:
        """Run what is due; before that nothing ran since the last turn."""
        self.now = now
        due = [timer for timer in self.timers if timer.when <= now and not timer.cancelled]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            timer.call()


class FakeTimer:
    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def loop() -> FakeLoop:
    return FakeLoop()


@pytest.fixture
def expired() -> list[str]:
    return []


@pytest.fixture
def expiry(loop: Any, expired: list[str]) -> Expiry:
    """An answer is awaited from the second 100 on, for five seconds."""
    return Expiry(loop, 5.0, lambda: expired.append("expired"))


def test_in_a_loop_that_turns_the_time_is_over_a_moment_later(loop, expiry, expired):
    loop.turns_at(105.0)
    assert not expired
    loop.turns_at(105.0 + GRACE)
    assert expired


def test_a_loop_that_was_blocked_has_a_moment_to_see_what_came(loop, expiry, expired):
    loop.turns_at(130.0)
    expiry.cancel()
    loop.turns_at(131.0)
    assert not expired


def test_a_loop_that_is_blocked_again_has_another_moment(loop, expiry, expired):
    loop.turns_at(130.0)
    loop.turns_at(140.0)
    assert not expired
    loop.turns_at(140.0 + GRACE + LATE / 2)
    assert expired


async def test_a_silence_ends_in_a_timeout_that_says_how_long_it_was():
    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"), Deadline(asyncio.get_running_loop(), 0.01):
        await asyncio.Event().wait()


async def test_what_is_cancelled_from_outside_stays_cancelled():
    async def wait() -> None:
        with Deadline(asyncio.get_running_loop(), 30):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await let_others_run()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_is_cancelled_from_outside_when_the_time_is_over_stays_cancelled(loop):
    async def wait() -> None:
        with Deadline(loop, 5.0):
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await let_others_run()
    task.cancel()
    loop.turns_at(105.0)
    loop.turns_at(105.0 + GRACE)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1


async def test_the_timer_of_a_call_that_is_over_ends_no_later_one(loop):
    deadline = Deadline(loop, 5.0)

    async def turn(*moments: float) -> None:
        with deadline:
            for now in moments:
                loop.turns_at(now)
                await asyncio.sleep(0)

    await turn(103.0)
    await turn(105.0, 105.0 + GRACE, 107.9)
    with pytest.raises(TimeoutError):
        await turn(112.9, 112.9 + GRACE)
    assert not asyncio.current_task().cancelling()
    await turn(114.0)


async def test_the_timer_of_a_deadline_rests_when_no_call_does_not(loop):
    deadline = Deadline(loop, 5.0)
    for start in (100.0, 200.0):
        loop.now = start
        for _ in range(3):
            with deadline:
                assert len(loop.timers) == 1
        loop.turns_at(start + 5.0)
        assert not loop.timers


async def test_a_deadline_gives_a_loop_that_was_blocked_a_moment_to_see_what_came(loop):
    with Deadline(loop, 5.0):
        loop.turns_at(130.0)
        loop.turns_at(140.0)
        await asyncio.sleep(0)


def block_the_loop(seconds: float) -> None:
    """What user code does that computes, or waits in a blocking call."""
    threading.Event().wait(seconds)


@LOOPS
def test_a_reply_that_came_while_the_loop_was_blocked_is_no_outage(clean_valkey, new_loop):
    async def send() -> Any:
        client = AsyncClient(link_of(options(clean_valkey, read_timeout=0.3)))
        try:
            await client.send(Command(("PING",)))
            reply = asyncio.create_task(client.send(Command(("BLPOP", "nothing", 0.1), again=False)))
            await let_others_run()
            assert not reply.done()
            block_the_loop(0.6)
            return await reply
        finally:
            await client.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(send()) is None


@LOOPS
def test_a_database_that_answered_while_the_loop_was_blocked_is_not_given_up(new_loop):
    async def call() -> Any:
        thread = DatabaseThread("default", "test")
        try:
            answer = asyncio.create_task(thread.call(lambda _: threading.Event().wait(0.1) or "answer", 0.3))
            await let_others_run()
            block_the_loop(0.6)
            return await answer
        finally:
            await asyncio.to_thread(thread.close)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(call()) == "answer"


class Frozen(SimpleQueue):
    """A queue whose reader is frozen the first time that it waits with a limit, and wakes up after it."""

    now = 0.0
    answer: object = None

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if timeout is not None and Frozen.now == 0.0:
            Frozen.now = timeout + 60
            raise Empty
        return Frozen.answer if timeout is not None and Frozen.answer else super().get(block, timeout)


def test_a_renewal_of_a_process_that_was_frozen_sees_the_answer(monkeypatch):
    monkeypatch.setattr(Frozen, "now", 0.0)
    monkeypatch.setattr(Frozen, "answer", ("answer", None))
    monkeypatch.setattr(threads, "SimpleQueue", Frozen)
    monkeypatch.setattr(threads, "time", SimpleNamespace(monotonic=lambda: Frozen.now))
    thread = DatabaseThread("default", "test")
    try:
        assert thread.call_blocking(lambda _: "answer", 1.0) == "answer"
    finally:
        thread.close()


def test_a_renewal_without_an_answer_is_given_up():
    thread, released = DatabaseThread("default", "test"), threading.Event()
    try:
        with pytest.raises(StoreUnavailable, match=r"within 0\.05 s"):
            thread.call_blocking(lambda _: released.wait(30), 0.05)
    finally:
        released.set()
        thread.close()

"""A blocked event loop is seen from outside, with what blocks it, and the lease is kept meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time

from django_vtasks.events import Emitter, LoopBlocked
from django_vtasks.worker.diagnostics import DumpOnSignal, dump
from django_vtasks.worker.flight import Flight
from django_vtasks.worker.loopwatch import LoopWatch
from tests.support.waiting import aeventually, eventually
from tests.worker.support import Bench


def block_the_loop(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


async def test_a_block_is_reported_once_with_the_stack_of_what_blocks():
    emitter = Emitter()
    heard: list[LoopBlocked] = []
    emitter.subscribe(LoopBlocked, heard.append)
    watch = LoopWatch(0.1, emitter)
    watch.start()
    try:
        block_the_loop(1.0)
        await aeventually(lambda: heard)
        assert "block_the_loop" in heard[0].stack
        assert heard[0].seconds >= 0.1
        assert len(heard) == watch.blocks == 1
    finally:
        watch.stop()


async def test_a_loop_that_turns_is_not_reported():
    emitter = Emitter()
    heard: list[LoopBlocked] = []
    emitter.subscribe(LoopBlocked, heard.append)
    watch = LoopWatch(5.0, emitter)
    watch.start()
    await aeventually(lambda: any(thread.name == "vtasks-loop-watch" for thread in threading.enumerate()))
    watch.stop()
    assert heard == []


async def test_the_lease_is_kept_while_the_loop_is_blocked():
    """Invariant 4."""
    bench = Bench(lease_seconds=0.6, heartbeat_interval=0.1)
    bench.add()
    async with bench.run():
        await bench.until_running(1)
        block_the_loop(1.5)
        assert bench.runtime.keeper.held
        assert bench.runtime.keeper.losses == 0


async def test_the_signal_shows_threads_tasks_and_jobs(caplog):
    bench = Bench()
    [job] = bench.add(func="app.tasks.slow")
    async with bench.run():
        await bench.until_running(1)
        with DumpOnSignal(lambda: dump(bench.runtime.attempts.flight)):
            os.kill(os.getpid(), signal.SIGUSR1)
            eventually(lambda: "What this worker does" in caplog.text)
    assert job in caplog.text
    assert "app.tasks.slow" in caplog.text
    assert "thread vtasks-lease" in caplog.text
    assert "task vtasks consumer" in caplog.text


def test_the_former_handler_is_put_back():
    before = signal.getsignal(signal.SIGUSR1)
    with DumpOnSignal(lambda: dump(Flight())):
        assert signal.getsignal(signal.SIGUSR1) != before
    assert signal.getsignal(signal.SIGUSR1) == before

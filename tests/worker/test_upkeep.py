"""What is due becomes ready, what is old goes, what is paused stays out."""

from __future__ import annotations

import time
from types import SimpleNamespace

from django_vtasks.events import Emitter, LettersEvicted
from django_vtasks.stores.base import Pulse, Purged, Retention
from django_vtasks.worker import promoter as module
from django_vtasks.worker.cleaner import LARGEST_BATCH, Cleaner
from django_vtasks.worker.promoter import IDLE_AFTER, IDLE_INTERVAL, INTERVAL, LARGEST_PROMOTION, Promoter
from django_vtasks.worker.service import Pace
from tests.worker.support import Bench, FakeExecutor


async def test_a_job_is_run_when_it_is_due_and_never_earlier():
    bench = Bench(executor=FakeExecutor(instant=True))
    due = time.time() + 0.4
    [job] = bench.add(run_after=due)
    async with bench.run():
        await bench.until_state(job, "succeeded")
    assert bench.executor.attempts[0].claim.started_at >= due


async def test_a_job_that_is_put_off_while_the_worker_idles_is_run():
    bench = Bench(executor=FakeExecutor(instant=True))
    async with bench.run():
        [first] = bench.add()
        await bench.until_state(first, "succeeded")
        [later] = bench.add(run_after=time.time() + 0.2)
        await bench.until_state(later, "succeeded")


class Pulsing:
    """A store of which only the pulse is asked."""

    def __init__(self, pulse):
        self.answer = pulse

    async def pulse(self, owner, limit):
        return self.answer


async def next_pulse_in(pulse, *, running=0):
    bench = Bench()
    bench.add(running)
    async with bench.run():
        if running:
            await bench.until_running(running)
        promoter = Promoter(
            Pulsing(pulse), "w:1", bench.runtime.attempts, bench.runtime.demand, Pace("promoter", Emitter())
        )
        return await promoter.tick()


async def test_the_next_pulse_comes_when_the_next_job_is_due():
    assert await next_pulse_in(Pulse(next_due_in=0.3)) == 0.3


async def test_a_running_job_is_asked_about_every_second():
    assert await next_pulse_in(Pulse(), running=1) == INTERVAL <= 1.0
    assert await next_pulse_in(Pulse(next_due_in=60), running=1) == INTERVAL


async def test_an_idle_worker_asks_less_often():
    assert await next_pulse_in(Pulse()) == IDLE_INTERVAL


async def test_a_worker_is_idle_when_it_has_begun_nothing_for_a_while(monkeypatch):
    """What it tries again, it tries again soon."""
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    attempts = SimpleNamespace(begun=0, flight=())
    demand = SimpleNamespace(pause=lambda paused: False)
    promoter = Promoter(Pulsing(Pulse()), "w:1", attempts, demand, Pace("promoter", Emitter()))
    assert await promoter.tick() == IDLE_INTERVAL
    attempts.begun = 1
    assert await promoter.tick() == INTERVAL
    now[0] += IDLE_AFTER - 0.5
    assert await promoter.tick() == INTERVAL
    now[0] += 0.5
    assert await promoter.tick() == IDLE_INTERVAL
    attempts.flight = ("one",)
    assert await promoter.tick() == INTERVAL


async def test_a_full_promotion_is_followed_by_the_next_at_once():
    assert await next_pulse_in(Pulse(promoted=LARGEST_PROMOTION)) == 0.0


class Purging:
    """A store of which only the purge is asked."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def purge(self, retention, limit):
        return self.answers.pop(0)


async def test_a_full_batch_of_old_things_is_followed_by_the_next_soon():
    store = Purging(Purged(results=LARGEST_BATCH), Purged(results=3))
    cleaner = Cleaner(store, Retention(), Emitter(), Pace("cleaner", Emitter()))
    assert await cleaner.tick() < 1.0
    assert await cleaner.tick() is None


async def test_dead_letters_that_go_are_told():
    emitter = Emitter()
    heard: list[LettersEvicted] = []
    emitter.subscribe(LettersEvicted, heard.append)
    await Cleaner(Purging(Purged(dead_letters=7)), Retention(), emitter, Pace("cleaner", Emitter())).tick()
    assert [event.count for event in heard] == [7]

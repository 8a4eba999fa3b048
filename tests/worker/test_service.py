"""Services: pauses, crashes, restarts, signals."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_vtasks.conf import QueueOrder, WorkerConfig
from django_vtasks.events import Emitter, StoreOutage, StoreRecovered
from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.worker import standalone
from django_vtasks.worker.service import Pace, PeriodicService, Supervisor, WhenCrashed, unless_stopped
from django_vtasks.worker.settler import Settler
from django_vtasks.worker.shutdown import LastResort, SignalHandlers
from django_vtasks.worker.slots import Slots, StrictTurns, Turns, turns_of
from django_vtasks.worker.wakeup import Wakeup
from tests.support.waiting import aeventually, eventually, let_others_run


class Ticking(PeriodicService):
    """Does what the test lists: None ticks, an exception is raised, a number is when the next tick is due."""

    def __init__(self, *script, emitter=None, interval=3600.0):
        super().__init__(Pace("ticking", emitter or Emitter()), interval)
        self.script = list(script)
        self.ticks = 0

    async def tick(self):
        self.ticks += 1
        step = self.script.pop(0) if self.script else None
        if isinstance(step, BaseException):
            raise step
        return step


async def test_a_tick_that_finds_the_store_away_is_tried_again_and_both_ends_are_told():
    emitter = Emitter()
    heard: list[object] = []
    emitter.subscribe(StoreOutage, heard.append)
    emitter.subscribe(StoreRecovered, heard.append)
    service = Ticking(StoreUnavailable("away"), StoreUnavailable("away"), emitter=emitter, interval=3600)
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(stop))
    await aeventually(lambda: service.ticks == 3)
    stop.set()
    await asyncio.wait_for(running, 10)
    assert [type(event).__name__ for event in heard] == ["StoreOutage", "StoreOutage", "StoreRecovered"]
    assert [event.attempt for event in heard[:2]] == [1, 2]


async def test_a_stop_ends_a_long_pause():
    service = Ticking(interval=3600)
    stop = asyncio.Event()
    running = asyncio.create_task(service.run(stop))
    await aeventually(lambda: service.ticks == 1)
    stop.set()
    await asyncio.wait_for(running, 10)


async def test_pauses_grow_to_a_limit_and_start_over_after_a_success():
    pace = Pace("x", Emitter())
    pauses = [pace.failed(StoreUnavailable("away")) for _ in range(12)]
    assert max(pauses) <= 5.0
    assert pauses[-1] > pauses[0]
    pace.turned()
    assert pace.failed(StoreUnavailable("away")) <= 0.2


async def test_a_crash_ends_the_worker_and_its_error_is_kept(caplog):
    crashed = asyncio.Event()
    supervisor = Supervisor(crashed.set)
    service = Ticking(ZeroDivisionError("a defect"))
    supervisor.start(service, service.pace, asyncio.Event())
    await asyncio.wait_for(crashed.wait(), 10)
    assert isinstance(supervisor.crash, ZeroDivisionError)
    assert caplog.text.count("a defect") == 1
    assert service.pace.crashed is supervisor.crash


async def test_an_embedded_worker_starts_a_crashed_service_again(monkeypatch, caplog):
    monkeypatch.setattr("django_vtasks.worker.service.random.uniform", lambda *_: 0.01)
    supervisor = Supervisor(lambda: None)
    supervisor.when_crashed = WhenCrashed.RESTART
    service = Ticking(ZeroDivisionError("a defect"), interval=3600)
    stop = asyncio.Event()
    supervisor.start(service, service.pace, stop)
    await aeventually(lambda: service.ticks == 2)
    assert supervisor.crash is None
    assert service.pace.crashed is None
    stop.set()
    await supervisor.join(10)


async def test_a_service_that_ends_unasked_is_a_crash():
    class Quitting:
        name = "quitting"

        async def run(self, stop):
            return

    crashed = asyncio.Event()
    supervisor = Supervisor(crashed.set)
    supervisor.start(Quitting(), Pace("quitting", Emitter()), asyncio.Event())
    await asyncio.wait_for(crashed.wait(), 10)
    assert "nobody asked" in str(supervisor.crash)


async def test_a_service_that_does_not_end_is_cancelled():
    class Deaf:
        name = "deaf"

        async def run(self, stop):
            await asyncio.Event().wait()

    supervisor = Supervisor(lambda: None)
    task = supervisor.start(Deaf(), Pace("deaf", Emitter()), asyncio.Event())
    await let_others_run()
    await supervisor.join(0.01)
    assert task.cancelled()


async def test_waiting_ends_with_the_stop_or_with_the_time():
    stop = asyncio.Event()
    await unless_stopped(stop, 0.001)
    waiting = asyncio.create_task(unless_stopped(stop, 3600))
    await let_others_run()
    stop.set()
    await asyncio.wait_for(waiting, 10)


def test_signals_are_counted_and_handlers_put_back():
    counts: list[int] = []
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with SignalHandlers(counts.append):
        os.kill(os.getpid(), signal.SIGTERM)
        eventually(lambda: counts == [1])
        os.kill(os.getpid(), signal.SIGINT)
        eventually(lambda: counts == [1, 2])
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_outside_the_main_thread_no_handler_is_installed():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def enter():
        with SignalHandlers(lambda count: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(10)
    assert seen == [before]


def test_the_last_resort_hands_back_and_ends_the_process(monkeypatch):
    done: list[object] = []
    monkeypatch.setattr("django_vtasks.worker.shutdown.os._exit", done.append)
    monkeypatch.setattr("django_vtasks.worker.shutdown.logging.shutdown", lambda: None)
    resort = LastResort(lambda: done.append("handed back"))
    resort.arm(0.01)
    eventually(lambda: done == ["handed back", 1])


def test_the_last_resort_ends_the_process_also_when_handing_back_fails(monkeypatch):
    done: list[object] = []
    monkeypatch.setattr("django_vtasks.worker.shutdown.os._exit", done.append)
    monkeypatch.setattr("django_vtasks.worker.shutdown.logging.shutdown", lambda: None)
    LastResort(lambda: 1 / 0).arm(0.01)
    eventually(lambda: done == [1])


def test_the_last_resort_is_not_taken_after_a_graceful_end(monkeypatch):
    done: list[object] = []
    monkeypatch.setattr("django_vtasks.worker.shutdown.os._exit", done.append)
    resort = LastResort(lambda: done.append("handed back"))
    resort.arm(3600)
    resort.disarm()
    eventually(lambda: not any(thread.name == "vtasks-last-resort" for thread in threading.enumerate()))
    assert done == []


def test_the_last_resort_ends_a_process_that_has_nothing_to_hand_back_any_more(monkeypatch, caplog):
    done: list[object] = []
    monkeypatch.setattr("django_vtasks.worker.shutdown.os._exit", done.append)
    monkeypatch.setattr("django_vtasks.worker.shutdown.logging.shutdown", lambda: None)
    monkeypatch.setattr("django_vtasks.worker.shutdown.END_SECONDS", 0.01)
    resort = LastResort(lambda: done.append("handed back"))
    resort.arm(3600)
    resort.settled(lambda: 3)
    eventually(lambda: done == [3])
    assert "tasks left something behind" in caplog.text


def test_slots_respect_the_total_and_the_limits_of_queues():
    slots = Slots(3, {"slow": 1})
    assert (slots.free_for("slow"), slots.free_for("other")) == (1, 3)
    slots.take("slow")
    assert (slots.free_for("slow"), slots.free_for("other")) == (0, 2)
    slots.take("other")
    slots.take("other")
    assert slots.free_for("other") == 0
    slots.give_back("slow")
    assert (slots.free_for("slow"), slots.taken_by("other")) == (1, 2)


@pytest.mark.parametrize(("weights", "expected"), [({"a": 1, "b": 1}, 50), ({"a": 3, "b": 1}, 75), ({"a": 1}, 100)])
def test_a_queue_is_first_as_often_as_its_weight_says(weights, expected):
    turns = Turns(weights)
    assert [turns.next_order()[0] for _ in range(100)].count("a") == expected


def test_every_turn_names_every_queue_once():
    turns = Turns({"a": 1, "b": 2, "c": 5})
    assert all(sorted(turns.next_order()) == ["a", "b", "c"] for _ in range(20))


def test_strict_turns_keep_the_order():
    assert [tuple(StrictTurns(["b", "a"]).next_order()) for _ in range(2)] == [("b", "a")] * 2


async def test_a_wakeup_before_the_sleep_ends_it_at_once():
    wakeup = Wakeup()
    wakeup.ring()
    await asyncio.wait_for(wakeup.sleep(3600), 10)
    wakeup.clear()
    sleeping = asyncio.create_task(wakeup.sleep(3600))
    await let_others_run()
    assert not sleeping.done()
    wakeup.ring()
    await asyncio.wait_for(sleeping, 10)


def test_a_settler_gives_the_oldest_first_and_takes_back_what_failed():
    settler = Settler("w:1", Emitter())
    for number in range(5):
        settler.add(number)
    assert settler.take(2) == [0, 1]
    assert len(settler) == 5
    settler._unsure = set()
    assert settler.take_all() == [0, 1, 2, 3, 4]
    assert len(settler) == 0


def test_the_setting_chooses_the_order_of_the_queues(settings):
    settings.VTASKS_QUEUES = ["urgent", "rest"]
    assert isinstance(turns_of(WorkerConfig.from_settings()), Turns)
    settings.VTASKS_QUEUE_ORDER = "strict"
    turns = turns_of(WorkerConfig.from_settings())
    assert [tuple(turns.next_order()) for _ in range(3)] == [("urgent", "rest")] * 3


def test_an_unknown_order_of_the_queues_is_refused(settings):
    settings.VTASKS_QUEUE_ORDER = "random"
    with pytest.raises(ImproperlyConfigured, match=r"VTASKS_QUEUE_ORDER.*fair.*strict.*random"):
        WorkerConfig.from_settings()
    assert WorkerConfig.from_settings(queue_order=QueueOrder.STRICT).queue_order is QueueOrder.STRICT


def test_a_thread_that_is_still_used_at_the_end_leaves_no_line_in_the_log(caplog):
    """One of `asyncio.to_thread`, which may end after the loop stopped waiting for it."""
    ends = threading.Event()

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(None, ends.wait, 30)

    def over() -> None:
        threading.Timer(0.3, ends.set).start()

    standalone.run_in_loop(main(), over)
    ends.wait(30)
    assert caplog.messages == []

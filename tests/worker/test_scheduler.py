"""The scheduler over the memory store: once per slot, whoever schedules, whatever fails, whichever clock steps."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from django_vtasks.events import Emitter, SlotFired, SlotSkipped, SlotsMissed, StoreOutage
from django_vtasks.jobs.errors import StoreRefused, StoreUnavailable
from django_vtasks.jobs.model import Job, Unique, UniqueMode
from django_vtasks.jobs.transitions import Finish, Settlement
from django_vtasks.scheduling.clock import StoreClock
from django_vtasks.scheduling.entries import Entries, Problem, ScheduleEntry, parse
from django_vtasks.scheduling.firing import job_id
from django_vtasks.scheduling.options import Overlap
from django_vtasks.scheduling.schedules import Cron, Every
from django_vtasks.scheduling.service import INTERVAL, SchedulerService
from django_vtasks.scheduling.sharing import OWNER, ROLE
from django_vtasks.stores.base import ClaimRequest, Want
from django_vtasks.stores.memory import MemoryStore
from django_vtasks.worker.service import Pace
from tests.support.flaky import FlakyStore
from tests.support.waiting import aeventually

START = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


class Entered:
    """A source whose entries the test sets."""

    def __init__(self) -> None:
        self.usable: list[ScheduleEntry] = []
        self.problems: list[Problem] = []

    async def entries(self) -> Entries:
        return Entries(usable=tuple(self.usable), problems=tuple(self.problems))

    def close(self) -> None:
        self.closed = True


class World:
    """A store with a clock of its own, and the schedulers of several hosts in front of it."""

    def __init__(self) -> None:
        self.now = START
        self.elapsed = 0.0
        self.store = MemoryStore(clock=lambda: self.now)
        self.source = Entered()
        self.emitter = Emitter()
        self.fired: list[SlotFired] = self._seen(SlotFired)
        self.missed: list[SlotsMissed] = self._seen(SlotsMissed)
        self.skipped: list[SlotSkipped] = self._seen(SlotSkipped)

    def _seen(self, kind):
        seen = []
        self.emitter.subscribe(kind, seen.append)
        return seen

    def add(self, schedule, name="entry", **options):
        entry = ScheduleEntry(name=name, task="tests.project.tasks.echo", schedule=schedule, **options)
        self.source.usable.append(entry)
        return entry

    def scheduler(self, store=None, make_job=None):
        store = store or self.store
        pace = Pace("scheduler", self.emitter)
        clock = StoreClock(store, every=5.0, monotonic=lambda: self.elapsed)
        return SchedulerService(store, self.source, make_job or plain_job, self.emitter, pace, clock)

    def slots(self, entry="entry"):
        return [event.slot - START for event in self.fired if event.entry == entry]

    async def recorded(self, entry="entry"):
        return (await self.store.last_slots([entry])).get(entry)

    async def run(self, *schedulers, seconds, step=0.5):
        for _ in range(round(seconds / step)):
            for scheduler in schedulers:
                await scheduler.tick()
            self.passes(step)

    def passes(self, seconds):
        self.now += seconds
        self.elapsed += seconds

    async def jobs(self):
        """Claim everything there is, as a worker would; the number of times each slot's job is there."""
        self.store.extend("worker", 1000.0)
        request = ClaimRequest(owner="worker", wants=(Want(queue="default", slots=10_000),), limit=10_000)
        exchange = await self.store.exchange((), request)
        return list(exchange.claims)


def plain_job(entry, slot, now):
    """As `JobMaker`, without a task."""
    unique = None
    if entry.overlap is not Overlap.ALLOW:
        unique = Unique(key=f"schedule:{entry.name}", mode=UniqueMode.UNTIL_DONE)
    return Job(id=job_id(entry.name, slot, like="x"), func=entry.task, enqueued_at=now, unique=unique)


@pytest.fixture
def world():
    return World()


# -- when -------------------------------------------------------------------------------------------------------------


async def test_an_interval_is_fired_at_once_and_then_at_every_slot(world):
    world.add(Every(10))
    await world.run(world.scheduler(), seconds=60)
    assert world.slots() == [0, 10, 20, 30, 40, 50]
    assert len(await world.jobs()) == 6


async def test_a_cron_entry_waits_for_its_next_slot(world):
    world.add(Cron("*/5 * * * *"))
    await world.run(world.scheduler(), seconds=620)
    assert world.slots() == [300, 600]


async def test_run_on_start_fires_a_cron_entry_once_when_it_is_new(world):
    world.add(Cron("*/5 * * * *"), run_on_start=True)
    await world.run(world.scheduler(), world.scheduler(), seconds=200)
    await world.run(world.scheduler(), seconds=200)  # a restart is not a new entry
    assert world.slots() == [0, 300]


async def test_the_lag_and_the_slot_of_a_firing_are_told(world):
    world.add(Every(10))
    scheduler = world.scheduler()
    await scheduler.tick()
    world.passes(10.25)
    await scheduler.tick()
    assert [(event.slot - START, event.lag) for event in world.fired] == [(0, 0.0), (10, 0.25)]


async def test_what_operators_read_is_the_slot_as_a_number(world):
    world.add(Every(10))
    await world.run(world.scheduler(), seconds=25)
    assert await world.recorded() == START + 20


async def test_a_tick_says_when_the_next_slot_is_due(world):
    world.add(Every(0.5))
    scheduler = world.scheduler()
    assert await scheduler.tick() == pytest.approx(0.5)
    world.passes(0.2)
    assert await scheduler.tick() == pytest.approx(0.3)
    world.source.usable.clear()
    assert await scheduler.tick() == INTERVAL


async def test_while_nothing_is_due_the_store_is_hardly_asked(world):
    world.add(Cron("0 5 * * *"))
    store = FlakyStore(world.store)
    await world.run(world.scheduler(store), seconds=60, step=1.0)
    calls = Counter(store.calls)
    assert calls.pop("now") <= 13
    assert calls.pop("hold", 0) <= 2  # by the real clock, of which hardly any passed
    assert calls == {"last_slots": 1, "fire": 1}


async def test_without_entries_the_store_is_not_asked_at_all(world):
    store = FlakyStore(world.store)
    await world.run(world.scheduler(store), seconds=60, step=1.0)
    assert store.calls == []


async def test_an_entry_that_is_disabled_is_neither_fired_nor_recorded(world):
    world.add(Every(1), enabled=False)
    await world.run(world.scheduler(), seconds=5)
    assert world.slots() == []
    assert await world.recorded() is None


async def test_an_entry_that_was_changed_does_not_owe_the_slots_before_the_change(world):
    world.add(Cron("0 * * * *"))
    await world.run(world.scheduler(), seconds=2)
    world.passes(10 * 3600)
    world.source.usable.clear()
    world.add(Cron("30 * * * *"), since=world.now)
    await world.run(world.scheduler(), seconds=1900)
    assert world.slots() == [10 * 3600 + 1800]


async def test_a_change_of_the_entries_is_followed_at_the_next_look(world):
    scheduler = world.scheduler()
    world.add(Cron("0 5 * * *"))
    await scheduler.tick()
    world.source.usable.clear()
    world.add(Every(1))
    world.add(Every(1), name="new")
    await world.run(scheduler, seconds=3)
    assert (world.slots(), world.slots("new")) == ([1, 2], [0, 1, 2])


# -- once, whoever schedules ------------------------------------------------------------------------------------------


async def test_five_schedulers_that_pause_die_and_restart_fire_each_slot_once(world):
    chance = random.Random(5)
    world.add(Every(1))
    schedulers = [world.scheduler() for _ in range(5)]
    for _ in range(6000):
        alive = chance.sample(schedulers, chance.randint(1, 5))  # the others are stopped, or slow
        if chance.random() < 0.02:
            schedulers[chance.randrange(5)] = world.scheduler()
        await asyncio.gather(*(scheduler.tick() for scheduler in alive))
        world.passes(0.1)
    assert sorted(world.slots()) == list(range(600))
    assert len(await world.jobs()) == 600


async def test_schedulers_that_race_for_a_slot_enqueue_it_once(world):
    world.add(Every(1))
    schedulers = [world.scheduler(SlowStore(world.store)) for _ in range(5)]
    for _ in range(50):
        await asyncio.gather(*(scheduler.tick() for scheduler in schedulers))
        world.passes(0.5)
    assert sorted(world.slots()) == list(range(25))
    assert len(await world.jobs()) == 25


class SlowStore(FlakyStore):
    """Lets others run between a call and its effect."""

    def _awaited(self, name, real):
        async def call(*args, **kwargs):
            for _ in range(random.randint(1, 4)):
                await asyncio.sleep(0)
            return await real(*args, **kwargs)

        return call


async def test_a_scheduler_takes_over_where_another_stopped(world):
    world.add(Every(1))
    await world.run(world.scheduler(), seconds=5)
    await world.run(world.scheduler(), seconds=5)
    assert world.slots() == list(range(10))


# -- clocks -----------------------------------------------------------------------------------------------------------


async def test_a_clock_put_back_by_hours_fires_no_cron_slot_twice(world, caplog):
    world.add(Cron("*/10 * * * *"))
    scheduler = world.scheduler()
    await world.run(scheduler, seconds=7300)
    fired = world.slots()
    world.now -= 7200
    await world.run(scheduler, world.scheduler(), seconds=7200)
    assert world.slots() == fired
    assert "ahead of time" in caplog.text
    await world.run(scheduler, seconds=600)
    assert world.slots() == [*fired, 7800]


async def test_a_clock_put_back_by_hours_does_not_silence_an_interval(world):
    world.add(Every(1))
    scheduler = world.scheduler()
    await world.run(scheduler, seconds=10)
    world.now -= 7200
    await world.run(scheduler, seconds=20)
    assert len(world.slots()) >= 10 + 14  # the clock is compared every five seconds
    assert len(await world.jobs()) == len(world.slots())


async def test_a_clock_put_forward_by_hours_costs_what_the_catch_up_rule_says(world):
    world.add(Cron("*/10 * * * *"))
    scheduler = world.scheduler()
    await world.run(scheduler, seconds=1300)
    world.now += 7200
    await world.run(scheduler, seconds=10)
    assert world.slots() == [600, 1200, 8400]
    assert [event.count for event in world.missed] == [11]


# -- outages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("catch_up", "slots", "missed"),
    [(0, [0, 100], 9), (1, [0, 100], 9), (4, [0, 70, 80, 90, 100], 6), (1000, [*range(0, 101, 10)], 0)],
)
async def test_after_an_outage_the_catch_up_rule_decides(world, catch_up, slots, missed):
    world.add(Every(10), catch_up=catch_up)
    store = FlakyStore(world.store)
    scheduler = world.scheduler(store)
    await scheduler.tick()
    store.down = True
    for _ in range(20):
        world.passes(5.25)
        with pytest.raises(StoreUnavailable):
            await scheduler.tick()
    store.down = False
    await scheduler.tick()
    assert world.slots() == slots
    assert sum(event.count for event in world.missed) == missed


async def test_a_slot_whose_enqueue_failed_is_fired_by_the_next_look(world):
    world.add(Every(10))
    store = FlakyStore(world.store)
    scheduler = world.scheduler(store)
    store.fail_before("fire")
    with pytest.raises(StoreUnavailable):
        await scheduler.tick()
    assert await world.recorded() is None
    await scheduler.tick()
    assert world.slots() == [0]


async def test_a_slot_whose_enqueue_was_not_answered_is_not_fired_again(world):
    world.add(Every(10))
    store = FlakyStore(world.store)
    scheduler = world.scheduler(store)
    store.fail_after("fire")
    with pytest.raises(StoreUnavailable):
        await scheduler.tick()
    await world.run(scheduler, seconds=15)
    assert len(await world.jobs()) == 2


async def test_the_service_lives_through_an_outage(world):
    world.add(Every(0.01))
    store = FlakyStore(world.store)
    scheduler = world.scheduler(store)
    stop = asyncio.Event()
    outages = []
    world.emitter.subscribe(StoreOutage, outages.append)
    running = asyncio.create_task(scheduler.run(stop))
    await aeventually(lambda: world.fired)
    store.down = True
    world.passes(20)
    await aeventually(lambda: outages)
    store.down = False
    before = len(world.fired)
    await aeventually(lambda: len(world.fired) > before)
    stop.set()
    await running
    assert world.source.closed


async def test_what_the_store_refuses_of_one_entry_does_not_stop_the_others(world, caplog):
    world.add(Every(10), name="bad")
    world.add(Every(10), name="good")
    store = FlakyStore(world.store)
    scheduler = world.scheduler(store)
    store.fail_before("fire", StoreRefused("value too long"))
    await scheduler.tick()
    assert (world.slots("bad"), world.slots("good")) == ([], [0])
    assert "value too long" in caplog.text
    await scheduler.tick()
    assert world.slots("bad") == [0]


async def test_a_store_that_refuses_everything_is_an_outage(world):
    world.add(Every(10), name="a")
    store = FlakyStore(world.store)
    store.fail_before("fire", StoreRefused("read-only"))
    with pytest.raises(StoreRefused):
        await world.scheduler(store).tick()


# -- bad entries ------------------------------------------------------------------------------------------------------


async def test_an_entry_whose_job_cannot_be_made_stops_no_other_and_is_made_up_for(world, caplog):
    world.add(Every(10), name="bad")
    world.add(Every(10), name="good")
    broken = True

    def make(entry, slot, now):
        if entry.name == "bad" and broken:
            raise TypeError("Decimal is not JSON")
        return plain_job(entry, slot, now)

    scheduler = world.scheduler(make_job=make)
    await world.run(scheduler, seconds=35)
    assert (world.slots("bad"), world.slots("good")) == ([], [0, 10, 20, 30])
    assert caplog.text.count("Decimal is not JSON") == 3  # in a line and its traceback, once for all tries
    broken = False
    await world.run(scheduler, seconds=10)
    assert world.slots("bad")[0] == 40


async def test_problems_of_the_setting_are_logged_once_an_hour(world, caplog):
    parsed = parse({"odd": {"task": "x", "schedule": True}})
    world.source.problems.extend(parsed.problems)
    world.add(Every(1))
    await world.run(world.scheduler(), seconds=10)
    lines = [record for record in caplog.records if "'odd'" in record.getMessage()]
    assert [record.levelno for record in lines] == [logging.ERROR, logging.ERROR]  # W003 and W007
    assert len(world.slots()) == 10


# -- overlap ----------------------------------------------------------------------------------------------------------


async def test_a_slot_is_skipped_while_the_job_before_is_not_done(world):
    world.add(Every(10), overlap=Overlap.SKIP)
    scheduler = world.scheduler()
    await world.run(scheduler, seconds=25)
    assert world.slots() == [0]
    assert [(event.slot - START, event.job_id) for event in world.skipped] == [
        (10, job_id("entry", START, like="x")),
        (20, job_id("entry", START, like="x")),
    ]
    assert await world.recorded() == START + 20
    (claim,) = await world.jobs()
    await world.store.exchange((Settlement(claim=claim, decision=finish(claim, world.now)),), None)
    await world.run(scheduler, seconds=10)
    assert world.slots() == [0, 30]


def finish(claim, now):
    return Finish(job=claim.job, state="succeeded", value=b"null", result_ttl=0.0, finished_at=now)


# -- mixed fleets -----------------------------------------------------------------------------------------------------


async def test_while_a_scheduler_of_the_old_line_leads_ours_stand_by_and_then_take_over(world):
    world.add(Every(1))
    assert await world.store.hold(ROLE, "host-123", 15.0)
    scheduler = world.scheduler()
    await world.run(scheduler, seconds=5)
    assert world.slots() == []
    world.passes(11)
    successor = world.scheduler()
    await world.run(successor, seconds=2)
    assert world.slots() == [16, 17]


async def test_while_ours_run_a_scheduler_of_the_old_line_does_not_lead(world):
    world.add(Every(1))
    await world.run(world.scheduler(), world.scheduler(), seconds=3)
    assert not await world.store.hold(ROLE, "host-123", 15.0)
    assert await world.store.hold(ROLE, OWNER, 15.0)

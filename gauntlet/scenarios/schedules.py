"""Schedulers in trouble: what must be true of the slots of each entry."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from gauntlet.homes import DATABASE_APPS
from gauntlet.ledger import Run
from gauntlet.scenarios.registry import SERVED, scenario
from gauntlet.stage import LEASE, Stage
from gauntlet.trouble import PAST_THE_LEASE, Trouble
from gauntlet.waiting import PATIENCE, until

if TYPE_CHECKING:
    from django_vtasks.scheduling.entries import ScheduleEntry

TICK = "gauntlet.tasks.tick"
SCHEDULE = {
    "second": {"task": TICK, "args": ["second"], "schedule": 1.0},
    "minute": {"task": TICK, "args": ["minute"], "schedule": "* * * * *"},
}
#: In the database, and caught up with to the last slot.
ROW = {"name": "row", "task": TICK, "args": ["row"], "schedule": "2", "catch_up": "all"}
NAMES = ("second", "minute", "row")
SCHEDULERS = ("sun", "moon", "mars", "venus", "pluto")
#: Nobody fires for so long that slots of `second` are late, and passed over as its rule says.
SILENCE = 7.5
#: Of those that are frozen one by one, so that somebody can fire at all other times.
MOST_FROZEN = 2


@dataclass(frozen=True, slots=True)
class Silence:
    """Nobody could fire, by the epoch clock."""

    since: float
    until: float

    def explains(self, slot: float) -> bool:
        """Whether a slot may have passed without a job because of it."""
        return self.since - 1 <= slot <= self.until + 1


@scenario("schedule", stores=SERVED, settings={"VTASKS_SCHEDULE": SCHEDULE, "INSTALLED_APPS": DATABASE_APPS})
def schedulers_in_trouble(stage: Stage) -> None:
    """Five schedulers (short: three) frozen, killed, ended, restarted: a slot fires once, or is told of as missed.

    A slot may only be missed while all stand still, and by an entry that does not catch up. Nothing drifts.

    Caught: unguarded-slot, forgets-the-late, drifting-interval.
    """
    _add_the_row(stage)
    stage.judged_apart |= set(NAMES)
    stage.start_workers("ada")
    trouble = Trouble(stage, SCHEDULERS[: 3 if stage.short else 5], flags=("--scheduler", "--queue", "nothing"))
    first = until(lambda: recorded(stage, NAMES), "every entry to be recorded")
    silences = list(_bother(stage, trouble))
    kinds = trouble.done
    stage.exercised(all(kinds[what] for what in ("frozen", "killed", "ended")), f"not all was done: {dict(kinds)}")
    stage.exercised(silences, "there was no time at which all schedulers stood still")
    began = len(stage.ledger.runs())
    until(lambda: len(stage.ledger.runs()) >= began + 8, "the schedulers to go on")
    trouble.stop()
    stage.facts |= {**kinds, "silences": len(silences)}
    until(lambda: not [c for c in stage.counts() if c.ready or c.scheduled or c.leased], "all ticks to run")
    last = recorded(stage, NAMES) or {}
    for name, entry in entries_of(SCHEDULE, NAMES).items():
        judge = Judge(stage, entry, first[name], last[name])
        stage.problems += [f"{name}: {problem}" for problem in judge.problems(silences)]
        stage.facts |= judge.facts()


def _bother(stage: Stage, trouble: Trouble) -> Iterator[Silence]:
    """One thing after the other until the time is up; yields when all schedulers stood still."""
    ends = time.monotonic() + stage.length
    yield from _round(stage, trouble, ["freeze", "kill", "end", "silence"])
    while time.monotonic() < ends - SILENCE:
        yield from _round(stage, trouble, [stage.rng.choice(["freeze", "kill", "end"] * 4 + ["silence"])])
    trouble.thaw(all_of_them=True)


def _round(stage: Stage, trouble: Trouble, actions: list[str]) -> Iterator[Silence]:
    for action in actions:
        trouble.thaw(all_of_them=trouble.frozen > MOST_FROZEN)
        victim = trouble.pick()
        if action == "silence" or victim is None:
            yield _silence(stage, trouble)
        elif action == "freeze":
            seconds = stage.rng.choice([0.5, PAST_THE_LEASE, 3 * LEASE, 9 * LEASE])
            trouble.freeze(victim, PAST_THE_LEASE if stage.length < 60 else seconds)
        elif action == "kill":
            trouble.kill(victim)
        else:
            trouble.end(victim)
        time.sleep(stage.rng.uniform(0.2, 1.0))


def _silence(stage: Stage, trouble: Trouble) -> Silence:
    """All stand still until slots are late; those that wake up find them."""
    trouble.thaw(all_of_them=True)
    since = time.time()
    for worker in trouble.workers.values():
        trouble.freeze(worker, SILENCE)
    time.sleep(SILENCE)
    trouble.thaw(all_of_them=True)
    woken, ran = time.time(), len(stage.ledger.runs())
    until(lambda: len(stage.ledger.runs()) > ran, "somebody to fire again")
    return Silence(since, max(woken, time.time()))


class Judge:
    """Judges the slots of one entry from the first one known to be recorded to the last."""

    def __init__(self, stage: Stage, entry: ScheduleEntry, first: float, last: float) -> None:
        from django_vtasks.scheduling.firing import job_id
        from django_vtasks.scheduling.overview import past_slots

        self.entry = entry
        self.name = name = entry.name
        self.last = last
        like = stage.backend.client_store.new_id()
        slots = list(takewhile(lambda slot: slot >= first - 60, past_slots(self.entry, last)))[::-1]
        self.ids = {job_id(name, slot, like=like): slot for slot in slots}
        self.slots = [slot for slot in slots if slot > first or (slot == first and name != "minute")]
        self.runs: dict[str, list[Run]] = {
            job: runs for job, runs in stage.ledger.by_job().items() if runs[0].label == name
        }
        ran = {self.ids[job] for job in self.runs if job in self.ids}
        self.unfired = [slot for slot in self.slots if slot not in ran]
        pattern = rf"(\d+) slots of the schedule entry {name} passed without a job"
        self.told = sum(int(found) for worker in stage.workers for found in re.findall(pattern, worker.log_text()))
        self.skew = time.time() - time.monotonic()

    def problems(self, silences: list[Silence]) -> Iterator[str]:
        """What is wrong with them."""
        if doubled := [job for job, runs in self.runs.items() if len(runs) > 1]:
            yield f"{len(doubled)} slots ran more than once, such as the job {doubled[0]}"
        if strange := [job for job in self.runs if job not in self.ids]:
            yield f"{len(strange)} jobs are of no slot, such as {strange[0]}"
        if len(self.unfired) != self.told:
            yield f"{len(self.unfired)} slots passed without a job, the log tells of {self.told}: {self.unfired[:5]}"
        if self.name != "second" and self.unfired:
            yield f"{len(self.unfired)} slots passed without a job although it catches up"
        if unexplained := [slot for slot in self.unfired if not any(silence.explains(slot) for silence in silences)]:
            yield f"{len(unexplained)} slots passed without a job while somebody could fire, such as {unexplained[0]}"
        if early := [slot for slot, late in self.lateness() if late < -0.05]:
            yield f"{len(early)} slots ran early, such as {early[0]}"
        if self.last > time.time():
            yield "its last slot is in the future"
        if self.name != "minute" and abs(self.drift()) >= min(1.0 * PATIENCE, self.entry.schedule.seconds):
            yield f"drifted by {self.drift():.2f} s"

    def lateness(self) -> list[tuple[float, float]]:
        """Each slot that ran, and how many seconds after it its job began, in the order of the slots."""
        found = [(self.ids[job], runs[0].began + self.skew) for job, runs in self.runs.items() if job in self.ids]
        return [(slot, began - slot) for slot, began in sorted(found)]

    def drift(self) -> float:
        """By how much the last runs are later than the slots counted since the first ones say, in seconds."""
        late = self.lateness()
        (first, early), (last, lately) = (min(part, key=lambda pair: pair[1]) for part in (late[:4], late[-4:]))
        counted = sum(first < slot <= last for slot, _ in late) + sum(first < slot <= last for slot in self.unfired)
        return last + lately - first - early - counted * self.entry.schedule.seconds

    def facts(self) -> dict[str, float | int]:
        """Numbers for the report."""
        found: dict[str, float | int] = {f"slots_of_{self.name}": len(self.slots), f"missed_{self.name}": self.told}
        if self.name != "minute":
            found[f"drift_{self.name}"] = round(self.drift(), 3)
        return found


def entries_of(schedule: Mapping[str, Any], names: Collection[str]) -> dict[str, ScheduleEntry]:
    """The entries of a setting and of the database, by name."""
    from django_vtasks.scheduling.entries import Entries, parse
    from django_vtasks.scheduling.rows import from_rows, has_rows

    found = parse(schedule) + (from_rows() if has_rows() else Entries())
    return {entry.name: entry for entry in found.usable if entry.name in names}


def recorded(stage: Stage, names: Collection[str]) -> dict[str, float] | None:
    """The last slot of each entry, None until all have one."""
    slots = stage.backend.admin_store.recorded_slots(list(names))
    return dict(slots) if len(slots) == len(names) else None


def _add_the_row(stage: Stage) -> None:
    """The model is in the project's database, which on Valkey is another one."""
    from django.apps import apps
    from django.core.management import call_command

    if stage.home.name == "valkey":
        call_command("migrate", verbosity=0)
    apps.get_model("db", "ScheduleEntry").objects.create(**ROW)

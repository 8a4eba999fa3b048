"""The feed: enqueues jobs of every kind from a thread, and remembers which were accepted.

What is enqueued follows from the seed alone. A call that raised may or may not have been accepted: its job may run,
but need not.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass

from gauntlet.waiting import PATIENCE, until


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of job: its task, how often it may be rescued, its share in the mix, its queue if not the task's."""

    task: str
    rescues: int = 5
    share: int = 0
    queue: str | None = None


KINDS = {
    "async": Kind("work", share=35),
    "thread": Kind("work_in_thread", share=20),
    "alone": Kind("work_alone", share=10),
    "once": Kind("work_once", rescues=0, share=10),
    "retried": Kind("fail_once", share=5),
    "bulk": Kind("work_together", share=20),
    "heap": Kind("work_together", share=20, queue="heap"),
    "side": Kind("work", share=20, queue="side"),
    "block": Kind("block_the_loop"),
    "poison": Kind("kill_the_process", rescues=2),
    "segfault": Kind("segfault", rescues=2),
    "glutton": Kind("eat_memory", rescues=2),
    "keyed": Kind("work_keyed", rescues=20),
    "paced": Kind("work_paced", rescues=20),
    "narrow": Kind("work_in_queue", rescues=20),
    "slow": Kind("work_in_queue", rescues=20),
}
MIX = tuple(name for name, kind in KINDS.items() if kind.share and not kind.queue)
BATCHED = frozenset(name for name, kind in KINDS.items() if kind.task == "work_together")
SHORT, LONG = (0.0, 0.03), (0.3, 0.6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a task; the label is unique."""

    label: str
    kind: str
    seconds: float


def calls(rng: random.Random, kinds: tuple[str, ...], long_share: float):
    """Calls without an end."""
    weights = [KINDS[kind].share for kind in kinds]
    number = 0
    while True:
        number += 1
        kind = rng.choices(kinds, weights)[0]
        seconds = rng.uniform(*(LONG if rng.random() < long_share else SHORT))
        yield Call(label=f"{kind}-{number}", kind=kind, seconds=round(seconds, 3))


class Feed:
    """Enqueues up to `rate` jobs per second from `start` until told that it is `enough`, but at least `least`."""

    def __init__(
        self,
        rng: random.Random,
        *,
        least: int,
        rate: float,
        kinds: tuple[str, ...] = MIX,
        long_share: float = 0.1,
    ) -> None:
        self.accepted: dict[str, Call] = {}
        self.unsure: list[Call] = []
        #: What was said of each of those.
        self.refusals: list[str] = []
        #: When which kind was accepted (monotonic clock).
        self.moments: list[tuple[float, str]] = []
        self._calls = calls(random.Random(rng.random()), kinds, long_share)
        self._least = least
        self._rate = rate
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._crash: BaseException | None = None

    def start(self) -> None:
        """Start enqueueing."""
        self._thread.start()

    def enough(self) -> None:
        """End it as soon as the least number is accepted, and wait for that."""
        self._enough.set()
        self._thread.join(120 * PATIENCE)
        if self._thread.is_alive():
            raise AssertionError("the feed was not through when the deadline passed")
        if self._crash is not None:
            raise self._crash

    def until_accepted(self, count: int) -> None:
        """Wait until so many jobs are accepted."""
        until(lambda: len(self.accepted) >= count or self._crash, f"{count} accepted jobs")

    def _run(self) -> None:
        from django.db import connections

        try:
            began, sent = time.monotonic(), 0
            while not self._enough.is_set() or len(self.accepted) < self._least:
                self._enqueue(next(self._calls))
                sent += 1
                time.sleep(max(0.0, began + sent / self._rate - time.monotonic()))
        except BaseException as error:
            self._crash = error
        finally:
            connections.close_all()

    def _enqueue(self, call: Call) -> None:
        from django.db import Error, close_old_connections

        from django_vtasks.jobs.errors import StoreRefused, StoreUnavailable
        from gauntlet import tasks

        try:
            kind = KINDS[call.kind]
            task = getattr(tasks, kind.task)
            result = (task.using(queue_name=kind.queue) if kind.queue else task).enqueue(call.label, call.seconds)
        except (StoreUnavailable, StoreRefused, Error) as error:
            self.unsure.append(call)
            self.refusals.append(str(error))
            close_old_connections()
            time.sleep(0.1)
        else:
            assert result is not None, f"{call.label} was taken for a duplicate"
            self.accepted[str(result.id)] = call
            self.moments.append((time.monotonic(), call.kind))

"""Ready jobs that wait for their limit, and who has permits. The caller holds the store's lock.

A limited job waits in its queue's line like any other. When it gets to the front and its limit is reached, it is
parked with those of the same keys, so that it is in nobody's way; they are looked at again once they may go on.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...jobs.limits import JobLimit, admit
from .order import Order
from .stored import Stored


@dataclass(slots=True)
class Group:
    """Parked jobs of one queue with the same keys, and from when on they are worth a look (never = for a permit)."""

    key: str | None
    line: Order = field(default_factory=Order)
    look_at: float = 0.0


class Limits:
    """Owns the parked lines, the permits and the rates. `wake` is told a queue whose parked jobs may go on."""

    def __init__(self, now: Callable[[], float], wake: Callable[[str], None]) -> None:
        self._now = now
        self._wake = wake
        self._groups: defaultdict[str, dict[str, Group]] = defaultdict(dict)
        self._holders: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._arrivals: dict[str, float] = {}

    # --- in and out of line --------------------------------------------------------------------------------------

    def take_first(self, queue: str, line: Order, jobs: Mapping[str, Stored]) -> Stored | None:
        """Take the first ready job that may start out of the queue's line or its group; those before it are parked."""
        while stored := self._first(queue, line, jobs):
            limit = stored.job.limit
            waits = limit and not stored.parked and self._precedes(queue, limit, stored.place)
            if limit is None or (not waits and self._start(limit)):
                self.leave(stored, line)
                return stored
            if not stored.parked:
                self.leave(stored, line)
                self._park(stored, limit)
            if not waits:
                self._stay(queue, limit)
        return None

    def leave(self, stored: Stored, line: Order) -> None:
        """Take a ready job out of where it waits."""
        if not stored.parked or stored.job.limit is None:
            line.remove(*stored.place, stored.job.id)
            return
        groups, name = self._groups[stored.queue], stored.job.limit.group
        groups[name].line.remove(*stored.place, stored.job.id)
        if not groups[name].line:
            del groups[name]
        stored.parked = False

    def _first(self, queue: str, line: Order, jobs: Mapping[str, Stored]) -> Stored | None:
        group = self.due(queue)
        heads = [order.head() for order in (group and group.line, line) if order]
        return jobs[min(heads)[2]] if heads else None

    def _park(self, stored: Stored, limit: JobLimit) -> None:
        group = self._groups[stored.queue].setdefault(limit.group, Group(limit.concurrency_key))
        group.line.put(*stored.place, stored.job.id)
        stored.parked = True

    def _precedes(self, queue: str, limit: JobLimit, place: tuple[float, int]) -> bool:
        group = self._groups[queue].get(limit.group)
        return group is not None and group.line.head()[:2] < place

    # --- waiting -------------------------------------------------------------------------------------------------

    def due(self, queue: str) -> Group | None:
        """Of the groups worth a look, the one whose first job comes first."""
        found = [group for group in self._groups[queue].values() if group.look_at <= self._now()]
        return min(found, key=lambda group: group.line.head(), default=None)

    def parked(self, queue: str) -> list[str]:
        """The parked jobs of a queue, group by group."""
        return [job_id for group in self._groups[queue].values() for job_id in group.line.ids()]

    def queues(self) -> list[str]:
        """The queues that have parked jobs."""
        return [queue for queue, groups in self._groups.items() if groups]

    def before(self, queue: str, limit: JobLimit, job_id: str) -> list[str]:
        """The parked jobs with the same keys that come before a parked one."""
        line = self._groups[queue][limit.group].line.ids()
        return line[: line.index(job_id)]

    def next_look(self) -> float | None:
        """When the next group that waits for its rate will be worth a look; wakes the queues of those that are."""
        times = []
        for queue, group in self._all():
            if group.look_at <= self._now():
                self._wake(queue)
            elif group.look_at < math.inf:
                times.append(group.look_at)
        return min(times, default=None)

    # --- going on ------------------------------------------------------------------------------------------------

    def _start(self, limit: JobLimit) -> bool:
        # When it may, its rate is used up by one.
        admission = admit(limit, len(self.holders(limit)), self._arrivals.get(limit.rate_key or ""), self._now())
        if admission.admitted and limit.rate_key is not None and admission.arrival is not None:
            self._arrivals[limit.rate_key] = admission.arrival
        return admission.admitted

    def _stay(self, queue: str, limit: JobLimit) -> None:
        # The first job of the group could not start: nobody looks before it can.
        admission = admit(limit, len(self.holders(limit)), self._arrivals.get(limit.rate_key or ""), self._now())
        if not admission.admitted:
            wait = math.inf if admission.wait is None else admission.wait
            self._groups[queue][limit.group].look_at = self._now() + wait

    def hold(self, limit: JobLimit, token: str, job_id: str) -> None:
        """A lease has a permit."""
        if limit.concurrency_key is not None:
            self._holders[limit.concurrency_key][token] = job_id

    def free(self, limit: JobLimit, token: str) -> None:
        """A lease is over: those who wait for its permit may go on."""
        key = limit.concurrency_key
        if key is None or self._holders[key].pop(token, None) is None:
            return
        if not self._holders[key]:
            del self._holders[key]
        for queue, group in self._all():
            if group.key == key:
                group.look_at = 0.0
                self._wake(queue)

    def holders(self, limit: JobLimit) -> tuple[str, ...]:
        """The jobs that have a permit of the same concurrency key."""
        return tuple(self._holders.get(limit.concurrency_key or "", {}).values())

    def rate_free_at(self, limit: JobLimit) -> float | None:
        """When the rate lets the next job start; None when that is now."""
        rate = JobLimit(rate_key=limit.rate_key, interval=limit.interval, burst=limit.burst)
        wait = admit(rate, 0, self._arrivals.get(limit.rate_key or ""), self._now()).wait
        return None if wait is None else self._now() + wait

    def forget_rates(self) -> None:
        """Drop rates that limit nobody any more."""
        self._arrivals = {key: arrival for key, arrival in self._arrivals.items() if arrival > self._now()}

    def _all(self) -> Iterator[tuple[str, Group]]:
        return ((queue, group) for queue, groups in self._groups.items() for group in groups.values())

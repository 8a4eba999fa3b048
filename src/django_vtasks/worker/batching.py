"""Batch queues: members are collected, and a group of one function is handed over as one attempt."""

from collections import deque
from collections.abc import Iterable, Sequence

from ..conf import QueueConfig
from ..jobs.model import Claim


class Collector:
    """Collects the claims of one batch queue: up to `count`, for at most `timeout` seconds after the first.

    A closed collection becomes groups, one per function, that wait for a slot; nothing is collected meanwhile.
    """

    def __init__(self, queue: str, *, count: int, timeout: float) -> None:
        self.queue = queue
        self._count = count
        self._timeout = timeout
        self._members: list[Claim] = []
        self._deadline = 0.0
        self._groups: deque[Sequence[Claim]] = deque()

    def wants(self) -> int:
        """How many more members fit."""
        return 0 if self._groups else self._count - len(self._members)

    def add(self, claim: Claim, now: float) -> None:
        """Collect a member; `now` is of the monotonic clock."""
        if not self._members:
            self._deadline = now + self._timeout
        self._members.append(claim)

    def hurry(self) -> None:
        """Wait for no further member."""
        self._deadline = 0.0

    def due_in(self, now: float) -> float | None:
        """In how many seconds the collection is to be closed; None when there is none."""
        if not self._members or self._groups:
            return None
        return max(0.0, self._deadline - now)

    def next_group(self, now: float) -> Sequence[Claim] | None:
        """The next group that is ready to run; None when nothing is."""
        if not self._groups and self._members and (len(self._members) >= self._count or now >= self._deadline):
            self._close()
        return self._groups.popleft() if self._groups else None

    def waits(self) -> bool:
        """Whether members or groups are here."""
        return bool(self._members or self._groups)

    def drop(self, tokens: frozenset[str]) -> list[Claim]:
        """Take out the members and groups with these tokens."""
        dropped = [claim for claim in self._all() if claim.lease.token in tokens]
        if dropped:
            self._members = [claim for claim in self._members if claim.lease.token not in tokens]
            kept = ([c for c in group if c.lease.token not in tokens] for group in self._groups)
            self._groups = deque(group for group in kept if group)
        return dropped

    def empty(self) -> list[Claim]:
        """Take out everything."""
        everything = self._all()
        self._members = []
        self._groups.clear()
        return everything

    def _all(self) -> list[Claim]:
        return [*(claim for group in self._groups for claim in group), *self._members]

    def _close(self) -> None:
        by_function: dict[str, list[Claim]] = {}
        for claim in self._members:
            by_function.setdefault(claim.job.func if claim.job else "", []).append(claim)
        self._members = []
        self._groups.extend(by_function.values())


def collectors_of(queues: Iterable[QueueConfig]) -> list[Collector]:
    """A collector for each batch queue."""
    return [
        Collector(queue.name, count=queue.batch.count, timeout=queue.batch.timeout)
        for queue in queues
        if queue.batch is not None
    ]

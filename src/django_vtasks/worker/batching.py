"""Batch queues: members are collected, and a group of one function is handed over as one attempt."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from ..conf import BatchConfig, QueueConfig
from ..jobs.model import Claim


class Collector:
    """Collects the claims of one batch queue: up to `count` or `max_bytes`, for `timeout` seconds after the first.

    A closed collection becomes groups that wait for a slot: one for each function and each value of `group_by`, none
    of more than `max_bytes` unless a single member is larger. Nothing is collected meanwhile.
    """

    def __init__(self, queue: str, config: BatchConfig) -> None:
        self.queue = queue
        self._config = config
        self._members: list[Claim] = []
        self._bytes = 0
        self._deadline = 0.0
        self._groups: deque[Sequence[Claim]] = deque()

    def wants(self) -> int:
        """How many more members fit."""
        return 0 if self._groups or self._is_full() else self._config.count - len(self._members)

    def add(self, claim: Claim, now: float) -> None:
        """Collect a member; `now` is of the monotonic clock."""
        if not self._members:
            self._deadline = now + self._config.timeout
        self._members.append(claim)
        self._bytes += len(claim.raw)

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
        if not self._groups and self._members and (self._is_full() or now >= self._deadline):
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
            self._bytes = sum(len(claim.raw) for claim in self._members)
            kept = ([c for c in group if c.lease.token not in tokens] for group in self._groups)
            self._groups = deque(group for group in kept if group)
        return dropped

    def empty(self) -> list[Claim]:
        """Take out everything."""
        everything = self._all()
        self._members, self._bytes = [], 0
        self._groups.clear()
        return everything

    def _all(self) -> list[Claim]:
        return [*(claim for group in self._groups for claim in group), *self._members]

    def _is_full(self) -> bool:
        largest = self._config.max_bytes
        return len(self._members) >= self._config.count or (largest is not None and self._bytes >= largest)

    def _close(self) -> None:
        groups: dict[tuple[str, str], list[Claim]] = {}
        for claim in self._members:
            groups.setdefault(self._group_of(claim), []).append(claim)
        self._members, self._bytes = [], 0
        for group in groups.values():
            self._groups.extend(_chunks(group, self._config.max_bytes))

    def _group_of(self, claim: Claim) -> tuple[str, str]:
        job, name = claim.job, self._config.group_by
        if job is None:
            return "", ""
        return job.func, repr(job.kwargs.get(name)) if name else ""


def _chunks(group: list[Claim], max_bytes: int | None) -> Iterator[list[Claim]]:
    chunk: list[Claim] = []
    size = 0
    for claim in group:
        if chunk and max_bytes is not None and size + len(claim.raw) > max_bytes:
            yield chunk
            chunk, size = [], 0
        chunk.append(claim)
        size += len(claim.raw)
    yield chunk


def collectors_of(queues: Iterable[QueueConfig]) -> list[Collector]:
    """A collector for each batch queue."""
    return [Collector(queue.name, queue.batch) for queue in queues if queue.batch is not None]

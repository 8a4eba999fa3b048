"""Slots: how many attempts run at once, and whose turn it is to get the free ones."""

from collections.abc import Mapping, Sequence

from ..conf import QueueOrder, WorkerConfig


class Slots:
    """Counts the slots that are taken. A queue with a limit of its own takes at most that many of the total."""

    def __init__(self, total: int, limits: Mapping[str, int]) -> None:
        self.total = total
        self.taken = 0
        self._limits = dict(limits)
        self._taken_by: dict[str, int] = {}

    @property
    def free(self) -> int:
        """How many slots are free, limits of single queues aside."""
        return self.total - self.taken

    def free_for(self, queue: str) -> int:
        """How many more attempts of a queue may begin now."""
        free = self.total - self.taken
        limit = self._limits.get(queue)
        if limit is not None:
            free = min(free, limit - self._taken_by.get(queue, 0))
        return max(0, free)

    def take(self, queue: str) -> None:
        """An attempt of the queue begins."""
        self.taken += 1
        self._taken_by[queue] = self._taken_by.get(queue, 0) + 1

    def give_back(self, queue: str) -> None:
        """An attempt of the queue is over."""
        self.taken -= 1
        self._taken_by[queue] -= 1

    def taken_by(self, queue: str) -> int:
        """How many slots the attempts of a queue have."""
        return self._taken_by.get(queue, 0)


class Turns:
    """The order in which queues are asked for jobs: each is first as often as its weight says.

    A claim fills the free slots from the first queue that has jobs, so being first is what a weight can give.
    """

    def __init__(self, weights: Mapping[str, int]) -> None:
        self.queues = tuple(weights)
        self._weights = dict(weights)
        self._sum = sum(self._weights.values())
        self._credit = dict.fromkeys(self._weights, 0)

    def add(self, queue: str) -> None:
        """Have a further queue take its turn."""
        self.queues = (*self.queues, queue)
        self._weights[queue] = 1
        self._sum += 1
        self._credit[queue] = 0

    def next_order(self) -> Sequence[str]:
        """The queues in the order of this turn."""
        if len(self.queues) < 2:
            return self.queues
        credit = self._credit
        for queue, weight in self._weights.items():
            credit[queue] += weight
        order = sorted(credit, key=credit.__getitem__, reverse=True)
        credit[order[0]] -= self._sum
        return order


class StrictTurns:
    """Always the same order: a queue is asked only for what the ones before it left free."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.queues = tuple(queues)

    def add(self, queue: str) -> None:
        """Put a further queue behind the others."""
        self.queues = (*self.queues, queue)

    def next_order(self) -> Sequence[str]:
        """The queues as they were given."""
        return self.queues


def turns_of(config: WorkerConfig) -> Turns | StrictTurns:
    """The order in which a worker asks its queues, as `VTASKS_QUEUE_ORDER` says; batch queues have no turn."""
    queues = [queue for queue in config.queues if queue.batch is None]
    if config.queue_order is QueueOrder.STRICT:
        return StrictTurns([queue.name for queue in queues])
    return Turns({queue.name: queue.weight for queue in queues})

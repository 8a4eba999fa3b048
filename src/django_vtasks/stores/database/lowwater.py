"""Where claims begin to read on PostgreSQL while a long transaction elsewhere keeps the traces of ended jobs.

The index keeps an entry for every job claimed since that transaction began, and each claim would step over all of
them. So while a queue has more jobs than there are slots, a claim begins at the last job claimed. What lies further
back, a job that was put back or whose transaction took long to commit, is found by a claim of everything, which is
never far away.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

SHORTEST = 0.1
SHARE = 20
"""A claim of everything is due after `SHORTEST` seconds, or `SHARE` times as long as the last one took: what another
worker put back waits no longer than that while the queue is never empty, and it costs a twentieth of the time."""

type Floor = tuple[int, float]
"""A priority, and a moment: jobs of this priority that became ready before it are left out."""

EVERYTHING: Floor = (0, 0.0)


class LowWater:
    """The floors of one worker store."""

    def __init__(self) -> None:
        self._floors: dict[str, Floor] = {}
        self._all_at = 0.0
        self._began_at: float | None = None

    def floors(self, queues: Iterable[str]) -> list[Floor]:
        """Where to begin in each queue."""
        now = time.monotonic()
        self._began_at = now if now >= self._all_at else None
        if self._began_at is not None:
            self._floors.clear()
        return [self._floors.get(queue, EVERYTHING) for queue in queues]

    def claimed(self, jobs: Sequence[tuple[str, int, float]], slots: Mapping[str, int], limit: int) -> None:
        """A claim for so many slots brought these jobs in order: queue, priority, ready since."""
        if self._began_at is not None:
            now = time.monotonic()
            self._all_at = now + max(SHORTEST, SHARE * (now - self._began_at))
        self._floors |= {queue: (priority, since) for queue, priority, since in jobs}
        if len(jobs) < limit:
            found = Counter(queue for queue, _, _ in jobs)
            for queue in slots:
                if found[queue] < slots[queue]:
                    self._floors.pop(queue, None)

    def forget(self) -> None:
        """The next claim reads everything."""
        self._all_at = 0.0

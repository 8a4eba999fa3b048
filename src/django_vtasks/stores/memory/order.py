"""A sorted line of job ids."""

from bisect import bisect_left, insort


class Order:
    """Job ids sorted by a primary value, then by rank. Owns the order only, not the jobs."""

    def __init__(self) -> None:
        self._places: list[tuple[float, int, str]] = []

    def __len__(self) -> int:
        return len(self._places)

    def put(self, primary: float, rank: int, job_id: str) -> None:
        """Insert an id at its place."""
        insort(self._places, (primary, rank, job_id))

    def remove(self, primary: float, rank: int, job_id: str) -> None:
        """Remove an id from its place. Raises LookupError when it is not there."""
        place = (primary, rank, job_id)
        index = bisect_left(self._places, place)
        if index == len(self._places) or self._places[index] != place:
            raise LookupError(f"job {job_id} is not in this line")
        del self._places[index]

    def take(self, limit: int, *, below: float | None = None) -> list[str]:
        """Remove and return the first `limit` ids; with `below`, of those whose primary value is not above it."""
        end = limit if below is None else min(limit, bisect_left(self._places, (below, _LAST)))
        taken = self._places[: max(0, end)]
        del self._places[: len(taken)]
        return [job_id for _, _, job_id in taken]

    def first(self) -> float | None:
        """The primary value at the head of the line, None when it is empty."""
        return self._places[0][0] if self._places else None

    def head(self) -> tuple[float, int, str]:
        """The first place. Raises IndexError when the line is empty."""
        return self._places[0]

    def ids(self) -> list[str]:
        """The ids in order."""
        return [job_id for _, _, job_id in self._places]


_LAST = 1 << 62

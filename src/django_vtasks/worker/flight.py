"""What this worker has claimed and not yet finished, by token."""

from collections.abc import Iterator
from typing import Protocol

from ..jobs.model import Claim


class Stoppable(Protocol):
    """An attempt under way, as the executor hands it out."""

    @property
    def started_monotonic(self) -> float:
        """When it began, by the monotonic clock."""
        ...

    def cancel(self) -> None:
        """Stop it because somebody cancelled the job."""
        ...

    def withdraw(self) -> None:
        """Stop it because the job is somebody else's by now."""
        ...

    def interrupt(self) -> None:
        """Stop it because the worker goes away."""
        ...


class Flight:
    """Claims with their attempts. A claim without an attempt is collected for a batch or about to begin."""

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._attempts: dict[str, Stoppable] = {}
        self._told: set[str] = set()

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, token: str) -> bool:
        return token in self._claims

    def board(self, claim: Claim) -> None:
        """A claim is this worker's to finish."""
        self._claims[claim.lease.token] = claim

    def begun(self, token: str, attempt: Stoppable) -> None:
        """The attempt of a claim began; one that is over already is left out."""
        if token in self._claims:
            self._attempts[token] = attempt

    def began(self, token: str) -> float | None:
        """When the attempt of a token began, by the monotonic clock; None when it has not."""
        attempt = self._attempts.get(token)
        return attempt.started_monotonic if attempt is not None else None

    def land(self, token: str) -> bool:
        """A claim is finished; False when it was before."""
        self._attempts.pop(token, None)
        if self._told:
            self._told.discard(token)
        return self._claims.pop(token, None) is not None

    def cancel(self, token: str) -> bool:
        """Cancel the attempt of a token, once however often it is asked for; False when it is not cancelled now.

        The attempt of a group is cancelled when that of every member is asked for.
        """
        attempt = self._last_told(token)
        if attempt is None:
            return False
        attempt.cancel()
        return True

    def withdraw(self, token: str) -> None:
        """The job of a token is somebody else's by now: stop its attempt as `cancel` does, but not as cancelled."""
        attempt = self._last_told(token)
        if attempt is not None:
            attempt.withdraw()

    def _last_told(self, token: str) -> Stoppable | None:
        """The attempt of a token that is told to stop, if it was the last one of its group and is so for once."""
        attempt = self._attempts.get(token)
        if attempt is None or token in self._told:
            return None
        self._told.add(token)
        if any(other is attempt and member not in self._told for member, other in self._attempts.items()):
            return None
        return attempt

    def interrupt_all(self) -> None:
        """Interrupt every attempt."""
        for attempt in set(self._attempts.values()):
            attempt.interrupt()

    def claims(self) -> tuple[Claim, ...]:
        """Everything that is not finished."""
        return tuple(self._claims.values())

    def tokens(self) -> set[str]:
        """The tokens of everything that is not finished."""
        return set(self._claims)

    def begun_tokens(self) -> set[str]:
        """The tokens of the attempts under way."""
        return set(self._attempts)

    def under_way(self) -> Iterator[tuple[Claim, Stoppable]]:
        """Every claim with its attempt, for those that have one."""
        for token, attempt in tuple(self._attempts.items()):
            claim = self._claims.get(token)
            if claim is not None:
                yield claim, attempt

"""A store that fails before or after any chosen call: nothing was written, or it landed and the reply was lost."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from django_vtasks.jobs.errors import StoreUnavailable

LOCAL = frozenset(("new_id", "close"))
"""Calls that ask nothing of a server, and so do not fail."""

THREADED = frozenset(("extend", "release"))
"""Calls of a worker that are no coroutines: the lease is kept by a thread."""


class FlakyStore:
    """Stands before a store and counts its calls.

    `fail_before(name)` makes the next call of that name fail without effect, `fail_after(name)` makes it take effect
    and fail; `down` takes the store from workers: their calls fail without effect, a client's do not, so that a test
    can prepare and look. What fails raises `error` unless told otherwise.
    """

    def __init__(self, store: Any, error: BaseException | None = None) -> None:
        self.store = store
        self.down = False
        self.error = error or StoreUnavailable("the store is away")
        self.calls: list[str] = []
        self._before: list[tuple[str, BaseException]] = []
        self._after: list[tuple[str, BaseException]] = []

    def fail_before(self, name: str, error: BaseException | None = None) -> None:
        """The next call of this name does nothing and fails."""
        self._before.append((name, error or self.error))

    def fail_after(self, name: str, error: BaseException | None = None) -> None:
        """The next call of this name takes effect and fails all the same."""
        self._after.append((name, error or self.error))

    def pending(self) -> list[str]:
        """The failures that were asked for and did not happen yet."""
        return [name for name, _ in (*self._before, *self._after)]

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.store, name)
        if name.startswith("_") or name in LOCAL or not callable(real):
            return real
        return self._awaited(name, real) if inspect.iscoroutinefunction(real) else self._called(name, real)

    def _awaited(self, name: str, real: Any) -> Any:
        @functools.wraps(real)
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._enter(name, by_worker=True)
            answer = await real(*args, **kwargs)
            self._leave(name)
            return answer

        return call

    def _called(self, name: str, real: Any) -> Any:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._enter(name, by_worker=name in THREADED)
            answer = real(*args, **kwargs)
            self._leave(name)
            return answer

        return call

    def _enter(self, name: str, *, by_worker: bool) -> None:
        self.calls.append(name)
        if self.down and by_worker:
            raise self.error
        _raise_next(self._before, name)

    def _leave(self, name: str) -> None:
        _raise_next(self._after, name)


def _raise_next(failures: list[tuple[str, BaseException]], name: str) -> None:
    for failure in failures:
        if failure[0] == name:
            failures.remove(failure)
            raise failure[1]

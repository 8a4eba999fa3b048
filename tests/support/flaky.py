"""A store that fails before or after any chosen call: nothing was written, or it landed and the reply was lost."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from django_vtasks.jobs.errors import StoreUnavailable


class FlakyStore:
    """Stands before a store and counts its calls.

    `fail_before(name)` makes the next call of that name fail without effect, `fail_after(name)` makes it take effect
    and fail; `down` makes every call fail without effect.
    """

    def __init__(self, store: Any, error: Callable[[], BaseException] | None = None) -> None:
        self.store = store
        self.down = False
        self.calls: list[str] = []
        self._error = error or (lambda: StoreUnavailable("the store is away"))
        self._before: list[str] = []
        self._after: list[str] = []

    def fail_before(self, name: str) -> None:
        """The next call of this name does nothing and fails."""
        self._before.append(name)

    def fail_after(self, name: str) -> None:
        """The next call of this name takes effect and fails all the same."""
        self._after.append(name)

    def pending(self) -> list[str]:
        """The failures that were asked for and did not happen yet."""
        return [*self._before, *self._after]

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.store, name)
        if name.startswith("_") or not callable(real):
            return real
        return self._awaited(name, real) if inspect.iscoroutinefunction(real) else self._called(name, real)

    def _awaited(self, name: str, real: Any) -> Any:
        @functools.wraps(real)
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._enter(name)
            answer = await real(*args, **kwargs)
            self._leave(name)
            return answer

        return call

    def _called(self, name: str, real: Any) -> Any:
        @functools.wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._enter(name)
            answer = real(*args, **kwargs)
            self._leave(name)
            return answer

        return call

    def _enter(self, name: str) -> None:
        self.calls.append(name)
        if self.down or _take(self._before, name):
            raise self._error()

    def _leave(self, name: str) -> None:
        if _take(self._after, name):
            raise self._error()


def _take(names: list[str], name: str) -> bool:
    if name not in names:
        return False
    names.remove(name)
    return True

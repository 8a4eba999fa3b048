"""A store that fails on demand, before or after the call took effect."""

from __future__ import annotations

import inspect
from typing import Any

from django_vtasks.jobs.errors import StoreUnavailable


class FlakyStore:
    """Stands before a store. `down` makes every call fail; `fail_once` fails one call, `lose_reply` one answer."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.down = False
        self.error: BaseException = StoreUnavailable("the store is away")
        self.calls: list[str] = []
        self._before: dict[str, list[BaseException]] = {}
        self._after: dict[str, list[BaseException]] = {}

    def fail_once(self, method: str, error: BaseException | None = None) -> None:
        self._before.setdefault(method, []).append(error or self.error)

    def lose_reply(self, method: str) -> None:
        self._after.setdefault(method, []).append(self.error)

    def pending(self, method: str) -> bool:
        return bool(self._before.get(method) or self._after.get(method))

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.store, name)
        if name.startswith("_") or name in {"new_id", "close", "transactional"} or not callable(real):
            return real
        return self._awaited(name, real) if inspect.iscoroutinefunction(real) else self._called(name, real)

    def _awaited(self, name: str, real: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._enter(name)
            answer = await real(*args, **kwargs)
            self._leave(name)
            return answer

        return call

    def _called(self, name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name in {"extend", "release"}:
                self._enter(name)
            answer = real(*args, **kwargs)
            self._leave(name)
            return answer

        return call

    def _enter(self, name: str) -> None:
        self.calls.append(name)
        if self.down:
            raise self.error
        if self._before.get(name):
            raise self._before[name].pop(0)

    def _leave(self, name: str) -> None:
        if self._after.get(name):
            raise self._after[name].pop(0)

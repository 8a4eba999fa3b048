"""One store per process, TASKS alias and kind: the framework makes a backend object per thread."""

import threading
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from django.core.signals import setting_changed

_DECISIVE = frozenset(("TASKS", "CACHES", "DATABASES", "VTASKS_VALKEY_PREFIX", "VTASKS_DLQ_CAP"))

_lock = threading.Lock()
_stores: dict[tuple[str, str], Any] = {}


def shared[Store](alias: str, kind: str, make: Callable[[], Store]) -> Store:
    """The store of an alias, made on first use and again after a test changed a setting that it depends on."""
    store = _stores.get((alias, kind))
    if store is None:
        with _lock:
            store = _stores.get((alias, kind))
            if store is None:
                store = _stores[alias, kind] = make()
    result: Store = store
    return result


def forget(*kinds: str) -> None:
    """Drop the stores of these kinds (none given: all of them); the next use makes new ones."""
    with _lock:
        keys = [key for key in _stores if not kinds or key[1] in kinds]
        dropped = [_stores.pop(key) for key in keys]
    for store in dropped:
        close = getattr(store, "close", None)
        if close is not None and not iscoroutinefunction(close):
            close()


def _reconsider(*, setting: str, **_kwargs: Any) -> None:
    if setting in _DECISIVE:
        forget()


setting_changed.connect(_reconsider, weak=False, dispatch_uid="django_vtasks.backends.sharing")

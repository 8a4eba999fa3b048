"""The worker: `Worker(backend)`, and `await worker.run()`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .worker import Worker

__all__ = ["Worker"]


def __getattr__(name: str) -> Any:
    # Schedulers use the services without a worker, and web processes show schedules.
    if name == "Worker":
        from .worker import Worker

        return Worker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The worker: `Worker(backend)`, and `await worker.run()`."""

from .worker import Worker

__all__ = ["Worker"]

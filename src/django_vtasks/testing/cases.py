"""Test cases: the functions of this package as methods, and an empty memory for each test."""

from typing import Any

from django.test import TestCase

from ..backends.memory import clear_memory
from .draining import drain, flush_batches, run_job
from .jobs import EnqueuedJob, enqueued
from .outcomes import DrainResult, RanJob
from .schedule import fire_due
from .seeking import assert_enqueued, assert_not_enqueued


class TasksMixin:
    """For any unittest class. Each test begins without jobs in memory; those in a database are its transaction's."""

    def setUp(self) -> None:
        """Forget jobs in memory."""
        clear_memory()
        super().setUp()  # type: ignore[misc]

    def enqueued(self, *args: Any, **kwargs: Any) -> list[EnqueuedJob]:
        """See `enqueued`."""
        return enqueued(*args, **kwargs)

    def assertEnqueued(self, *args: Any, **kwargs: Any) -> EnqueuedJob:  # noqa: N802 - named as unittest names its own
        """See `assert_enqueued`."""
        __tracebackhide__ = True
        return assert_enqueued(*args, **kwargs)

    def assertNotEnqueued(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - named as unittest names its own
        """See `assert_not_enqueued`."""
        __tracebackhide__ = True
        assert_not_enqueued(*args, **kwargs)

    def drain(self, *args: Any, **kwargs: Any) -> DrainResult:
        """See `drain`."""
        return drain(*args, **kwargs)

    def run_job(self, *args: Any, **kwargs: Any) -> RanJob:
        """See `run_job`."""
        return run_job(*args, **kwargs)

    def flush_batches(self, *args: Any, **kwargs: Any) -> DrainResult:
        """See `flush_batches`."""
        return flush_batches(*args, **kwargs)

    def fire_due(self, *args: Any, **kwargs: Any) -> list[EnqueuedJob]:
        """See `fire_due`."""
        return fire_due(*args, **kwargs)


class VTasksTestCase(TasksMixin, TestCase):
    """Django's TestCase with them."""

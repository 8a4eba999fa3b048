"""Fixtures for pytest, found through the package's entry point. Imports nothing of the package until one is used."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .clock import TestClock


@pytest.fixture
def vtasks() -> Any:
    """The module `django_vtasks.testing`: `vtasks.drain()`, `vtasks.assert_enqueued(...)` and the rest."""
    from django_vtasks import testing

    return testing


@pytest.fixture
def vtasks_clock() -> "Iterator[TestClock]":
    """A stopped clock to be moved by hand, see `travel`."""
    from django_vtasks.testing import travel

    with travel() as clock:
        yield clock


@pytest.fixture(autouse=True)
def _vtasks_memory() -> Iterator[None]:
    """Jobs that a test left in memory are gone for the next one."""
    yield
    memory = sys.modules.get("django_vtasks.backends.memory")
    if memory is not None:
        memory.clear_memory()

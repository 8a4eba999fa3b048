"""Backends over the memory store, chosen per test."""

from __future__ import annotations

import pytest

from django_vtasks.framework import task_backends

MEMORY = "tests.support.backends.MemoryBackend"
TRANSACTIONAL = "tests.support.backends.TransactionalBackend"
IMMEDIATE = "django_vtasks.backends.immediate.ImmediateBackend"


def entry(backend=MEMORY, **more):
    """A TASKS setting with one alias."""
    return {"default": {"BACKEND": backend, **more}}


@pytest.fixture
def memory(settings):
    """The store behind the default alias, which does not join the caller's transaction."""
    settings.TASKS = entry(MEMORY)
    return task_backends["default"].client_store


@pytest.fixture
def transactional(settings):
    """The same, but it enqueues at once inside transactions."""
    settings.TASKS = entry(TRANSACTIONAL)
    return task_backends["default"].client_store


@pytest.fixture
def immediate(settings):
    """The immediate backend as the default alias."""
    settings.TASKS = entry(IMMEDIATE)
    return task_backends["default"]

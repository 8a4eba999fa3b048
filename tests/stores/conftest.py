"""The contract suite is imported by the modules that bind it; its assertions are worth the same detail."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.stores.contract", "tests.stores.bench", "tests.stores.stateful")


@pytest.fixture
def short_standstill(monkeypatch):
    """Transactions on PostgreSQL end after 0.3 s of standing still. Imports the driver, which need not be there."""
    from django_vtasks.stores.database.queries.postgresql import PostgreSQL, begin

    monkeypatch.setattr(PostgreSQL, "begin", begin(0.3))

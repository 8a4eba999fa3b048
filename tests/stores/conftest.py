"""The contract suite is imported by the modules that bind it; its assertions are worth the same detail."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.stores.contract", "tests.stores.bench", "tests.stores.stateful")

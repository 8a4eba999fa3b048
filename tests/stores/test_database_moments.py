"""Places in an order: one microsecond each, whatever a float can hold of the time of day."""

from __future__ import annotations

import pytest
from django.db import connections

from django_vtasks.stores.database import moments
from django_vtasks.stores.database.moments import host_moment, ticks
from django_vtasks.stores.database.queries.sqlite import SQLite
from django_vtasks.stores.database.queries.vendor import Vendor

NOW = 1_796_060_189.0


@pytest.fixture
def vendor() -> Vendor:
    """One that takes its moments from the host."""
    return SQLite(connections["default"])


@pytest.mark.parametrize("fraction", [0.0, 0.123_456_4, 0.5, 0.999_999_6])
def test_each_job_of_one_call_has_a_place_of_its_own(vendor, fraction, monkeypatch):
    monkeypatch.setattr(moments.time, "time", lambda: NOW + fraction)
    moment = host_moment(vendor)
    places = [moment.order(position) for position in range(1000)]
    assert len(set(places)) == 1000
    assert places == sorted(places)


def test_the_order_goes_on_while_a_clock_stands_still(vendor):
    clock = ticks(lambda: NOW)
    places = [clock.moment(vendor, 1).order(position) for _ in range(1000) for position in (0, 1)]
    assert places == sorted(places)
    assert len(set(places)) == 2000

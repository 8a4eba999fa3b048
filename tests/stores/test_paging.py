"""Lists are bounded: one page looks at so many jobs and no more, and says where to go on."""

from __future__ import annotations

import pytest

from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from django_vtasks.stores.database import paging
from django_vtasks.stores.valkey import admin_store
from tests.stores.benches import close_database, database_bench, valkey_bench


@pytest.fixture(params=[pytest.param("valkey", marks=pytest.mark.valkey), pytest.param("sqlite")])
def place(request, monkeypatch, django_db_blocker):
    """Where the jobs are: a server, or a database alias. Pages look at four jobs."""
    monkeypatch.setattr(paging, "SCAN", 4)
    monkeypatch.setattr(admin_store, "SCAN", 4)
    found = request.getfixturevalue("clean_valkey" if request.param == "valkey" else "sqlite_alias")
    with django_db_blocker.unblock():
        yield found


@pytest.fixture
async def store(place):
    bench = await (database_bench(place) if isinstance(place, str) else valkey_bench(place.url))
    yield bench
    await bench.close()
    if isinstance(place, str):
        await close_database(place)


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.DEAD])
async def test_a_filter_that_few_match_is_asked_in_several_pages(store, state):
    due = store.clock() + 60 if state is JobState.SCHEDULED else None
    for number in range(9):
        func = "app.rare" if number in (0, 8) else "app.common"
        await (store.bury(func=func) if state is JobState.DEAD else store.add(func=func, run_after=due))
    sizes, cursor = [], None
    while True:
        page = await store.admin.page(JobFilter(state=state, func="app.rare"), after=cursor, limit=50)
        sizes.append(len(page.records))
        cursor = page.next_cursor
        if cursor is None:
            break
    assert sum(sizes) == 2
    assert len(sizes) > 1 or state is JobState.DEAD

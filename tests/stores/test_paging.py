"""Lists are bounded: one page looks at so many jobs and no more, and says where to go on."""

from __future__ import annotations

import pytest

from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from django_vtasks.stores.database import paging
from django_vtasks.stores.database.session import Session
from django_vtasks.stores.valkey import admin_store, listing
from django_vtasks.stores.valkey.sync_client import SyncClient
from tests.stores.benches import close_database, database_bench, valkey_bench
from tests.support import databases


@pytest.fixture(params=[pytest.param("valkey", marks=pytest.mark.valkey), pytest.param("sqlite")])
def place(request, monkeypatch, django_db_blocker):
    """Where the jobs are: a server, or a database alias. Pages look at four jobs."""
    monkeypatch.setattr(paging, "SCAN", 4)
    monkeypatch.setattr(admin_store, "SCAN", 4)
    found = request.getfixturevalue("clean_valkey" if request.param == "valkey" else "sqlite_alias")
    with django_db_blocker.unblock():
        yield found
        if isinstance(found, str):
            databases.empty(found)


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


class Meter:
    """Counts questions to the store, and the rows or entries of their answers."""

    def __init__(self, monkeypatch):
        self.questions = self.rows = 0
        for kind, name in ((Session, "rows"), (SyncClient, "send")):
            monkeypatch.setattr(kind, name, self._counting(getattr(kind, name)))

    def _counting(self, original):
        def ask(*args):
            answer = original(*args)
            self.questions += 1
            self.rows += len(answer) if isinstance(answer, list) else 0
            return answer

        return ask

    def take(self):
        found, self.questions, self.rows = (self.questions, self.rows), 0, 0
        return found


@pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.DEAD])
@pytest.mark.parametrize("limit", [1, 50])
async def test_a_page_asks_and_reads_so_much_and_no_more_whatever_it_looks_for(store, monkeypatch, state, limit):
    for module in (paging, admin_store):
        monkeypatch.setattr(module, "SCAN", 20)
    monkeypatch.setattr(paging, "CHUNK", 5)
    monkeypatch.setattr(listing, "PIECE", 5)
    due = store.clock() + 60 if state is JobState.SCHEDULED else None
    for number in range(50):
        job = {"func": "app.f", "args": [f"number {number}"]}
        await (store.bury(**job) if state is JobState.DEAD else store.add(**job, run_after=due))
    meter, cursor, pages, found = Meter(monkeypatch), None, 0, []
    while True:
        which = JobFilter(state=state, text="number 4", searchable=lambda job: str(job.args))
        page = await store.admin.page(which, after=cursor, limit=limit)
        questions, rows = meter.take()
        assert questions <= 2 * 20 / 5 + 12
        assert rows <= 3 * 20 + 10
        found += [record.job.args[0] for record in page.records]
        pages, cursor = pages + 1, page.next_cursor
        if cursor is None:
            break
    # Of the dead letters the bench keeps the last ten.
    first = [] if state is JobState.DEAD else ["number 4"]
    assert sorted(found) == [*first, *(f"number {number}" for number in range(40, 50))]
    assert pages >= (1 if state is JobState.DEAD else 50 / 20)

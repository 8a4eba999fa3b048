"""What operators see: counts, pages, and why a job is where it is."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import orjson
import pytest

from django_vtasks.jobs.errors import InvalidCursor
from django_vtasks.jobs.model import JobState
from django_vtasks.stores.base import JobFilter
from tests.stores.bench import LEASE, Bench, about, ids
from tests.support.builders import a_key

CURSORS = [
    *("garbage", "-1", "1.5", "\u0661", "9" * 30, "é", "nan {}", "1e400 {}", "1.5 []", '1.5 {"sched:default": -1}'),
    '1.5 {"sched:default": 99999999999999999999}',
    *({}, [], [1], [[], {}], ["a\0", "b"], [None] * 4, ["q", 0, "x", "y"], ["q", 1 << 40, 1.5, "y"], [1e400, "y"]),
]
"""What no store tells; those that are not text stand for their encoding as cursors of a database."""


class TestCounts:
    async def test_a_quiet_store_has_no_queues(self, store: Bench):
        assert await store.admin.counts() == []

    async def test_every_state_is_counted_queue_by_queue(self, store: Bench):
        await store.bury(queue="mail")
        await store.add(queue="mail")
        await store.claim_one(queue="mail")
        await store.add_all([store.job(queue="mail", priority=priority) for priority in (-5, 0, 5)])
        await store.add_all([store.job(queue="mail", run_after=store.clock() + 60, priority=n) for n in (0, 1)])
        await store.add(queue="default")
        assert await store.counts("mail") == {"ready": 3, "scheduled": 2, "leased": 1, "dead": 1, "paused": False}
        assert [counts.queue for counts in await store.admin.counts()] == ["default", "mail"]

    async def test_a_paused_queue_is_listed_even_without_jobs(self, store: Bench):
        await store.admin.pause("mail")
        [counts] = await store.admin.counts()
        assert (counts.queue, counts.paused, counts.ready) == ("mail", True, 0)

    async def test_finished_jobs_are_not_counted(self, store: Bench):
        await store.add()
        await store.succeed(await store.claim_one())
        assert await store.admin.counts() == []

    async def test_the_job_that_waits_longest_tells_the_age_of_the_queue(self, store: Bench):
        start = store.clock()
        await store.add()
        await store.advance(20)
        await store.add(priority=9)
        [counts] = await store.admin.counts()
        assert counts.oldest_ready_at == about(start)
        await store.claim(2)
        [counts] = await store.admin.counts()
        assert counts.oldest_ready_at is None


class TestPage:
    async def test_ready_jobs_come_as_they_will_be_claimed(self, store: Bench):
        for priority in (0, 5, -5, 0, 5):
            await store.add(priority=priority)
        listed = ids(await store.records(JobState.READY))
        assert listed == ids(await store.claim())

    async def test_scheduled_jobs_come_by_their_time(self, store: Bench):
        jobs = {seconds: await store.add(run_after=store.clock() + seconds) for seconds in (30, 10, 20)}
        assert ids(await store.records(JobState.SCHEDULED)) == [jobs[10].id, jobs[20].id, jobs[30].id]

    async def test_leased_jobs_come_by_their_start_and_say_who_runs_them(self, store: Bench):
        await store.add_all([store.job() for _ in range(3)])
        claims = []
        for owner in ("gamma", "alpha", "beta"):
            claims += await store.claim(1, owner=owner)
            await store.advance(1)
        records = await store.records(JobState.LEASED)
        assert ids(records) == ids(claims)
        assert [record.running.worker_id for record in records] == ["gamma", "alpha", "beta"]

    async def test_finished_jobs_come_newest_first(self, store: Bench):
        jobs = await store.add_all([store.job() for _ in range(3)])
        for claim in await store.claim():
            await store.succeed(claim, b"1")
            await store.advance(1)
        records = await store.records(JobState.SUCCEEDED)
        assert (ids(records), records[0].value) == (ids(jobs)[::-1], b"1")
        assert await store.records(JobState.DISCARDED) == []

    @pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED, JobState.DEAD, JobState.SUCCEEDED])
    async def test_pages_together_list_every_job_once(self, store: Bench, state: JobState):
        count = 23 if state in {JobState.READY, JobState.SCHEDULED} else 9
        delay = 60 if state is JobState.SCHEDULED else 0
        jobs = await store.add_all([store.job(run_after=store.clock() + delay) for _ in range(count)])
        if state in {JobState.DEAD, JobState.SUCCEEDED}:
            for claim in await store.claim(count):
                await (store.fail(claim) if state is JobState.DEAD else store.succeed(claim))
        assert sorted(ids(await store.records(state))) == sorted(ids(jobs))

    @pytest.mark.parametrize("state", [JobState.READY, JobState.SCHEDULED])
    async def test_pages_go_on_where_jobs_have_all_but_their_id_in_common(self, store: Bench, state: JobState):
        due = store.clock() + 60 if state is JobState.SCHEDULED else None
        jobs = [
            store.job(queue=queue, priority=priority, run_after=due)
            for queue in ("a", "b", "c")
            for priority in (0, 5)
            for _ in range(2)
        ]
        await store.add_all(jobs)
        for which in ({}, {"queue": "b"}, {"func": jobs[0].func}):
            found, cursor = [], None
            while True:
                page = await store.admin.page(JobFilter(state=state, **which), after=cursor, limit=3)
                found += ids(page.records)
                cursor = page.next_cursor
                if cursor is None:
                    break
            assert sorted(found) == sorted(job.id for job in jobs if which.get("queue") in (None, job.queue))

    @pytest.mark.parametrize("state", list(JobState))
    async def test_a_list_goes_on_only_where_a_page_of_it_ended(self, store: Bench, state: JobState):
        await store.add()
        for value in CURSORS:
            cursor = value if isinstance(value, str) else urlsafe_b64encode(orjson.dumps(value)).decode()
            with pytest.raises(InvalidCursor, match="start from its first page"):
                await store.admin.page(JobFilter(state=state), after=cursor)

    async def test_a_page_is_no_longer_than_its_limit(self, store: Bench):
        await store.add_all([store.job() for _ in range(5)])
        page = await store.admin.page(JobFilter(state=JobState.READY), limit=2)
        assert (len(page.records), page.next_cursor is None) == (2, False)

    async def test_an_empty_state_is_one_empty_page(self, store: Bench):
        page = await store.admin.page(JobFilter(state=JobState.READY))
        assert (page.records, page.next_cursor) == ((), None)

    async def test_jobs_are_found_by_queue_task_text_and_id(self, store: Bench):
        one = await store.add(queue="mail", args=["needle"])
        two = await store.add(func="app.other", kwargs={"key": "thread"})
        found = {
            "queue": ({"queue": "mail"}, [one]),
            "func": ({"func": "app.other"}, [two]),
            "text in args": ({"text": "needle"}, [one]),
            "text in kwargs": ({"text": "thread"}, [two]),
            "text in id": ({"text": two.id[4:20]}, [two]),
            "ids": ({"ids": (one.id,)}, [one]),
            "nothing": ({"queue": "mail", "func": "app.other"}, []),
            "wildcards are text": ({"text": "n%e*d_e"}, []),
        }
        for name, (which, jobs) in found.items():
            assert ids(await store.records(JobState.READY, **which)) == ids(jobs), name


class TestStanding:
    async def test_nothing_is_said_of_what_is_not_known(self, store: Bench):
        assert await store.admin.standing(store.client.new_id()) is None
        assert await store.admin.standing("nonsense") is None

    async def test_a_ready_job_says_how_many_come_before_it(self, store: Bench):
        await store.add_all([store.job(priority=priority) for priority in (9, 0, 5)])
        job = await store.add()
        await store.add(priority=-1)
        standing = await store.admin.standing(job.id)
        assert (standing.record.state, standing.ahead, standing.ahead_by_priority) == ("ready", 3, 2)
        assert standing.now == about(store.clock())

    async def test_a_leased_job_says_until_when_and_whether_it_shall_stop(self, store: Bench):
        job = await store.add()
        await store.claim_one()
        await store.client.acancel(job.id)
        standing = await store.admin.standing(job.id)
        assert (standing.lease_until, standing.cancel_requested) == (about(store.clock() + LEASE), True)

    async def test_another_holder_of_its_key_is_named(self, store: Bench):
        dead = await store.bury(unique=a_key())
        holder = await store.add(unique=a_key())
        assert (await store.admin.standing(dead.id)).key_holder == holder.id
        assert (await store.admin.standing(holder.id)).key_holder is None

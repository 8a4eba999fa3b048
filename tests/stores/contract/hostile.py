"""Invariant 11: whatever is found in a queue, nothing is lost and the next job runs."""

from __future__ import annotations

import orjson
import pytest

from django_vtasks.jobs.codec import encode
from django_vtasks.jobs.model import DeadReason, JobState
from django_vtasks.jobs.outcomes import LeaseExpired, Unrunnable
from django_vtasks.stores.base import JobFilter
from tests.stores.bench import Bench, ids
from tests.support.builders import a_failure

GOOD = {"func": "app.task", "args": [], "kwargs": {}}
NO_JOBS = {
    "empty": b"",
    "garbage": b"\xff\xfe\x00 garbage \x80",
    "broken zstd": b"zstd:\x28\xb5\x2f\xfd broken",
    "bare marker": b"zstd:",
    "json list": b"[1, 2]",
    "json text": b'"job"',
    "json null": b"null",
    "half an object": b'{"func": "app.task", "args": [',
    "no func": orjson.dumps({"args": [], "kwargs": {}}),
    "no kwargs": orjson.dumps({"func": "app.task", "args": []}),
    "func is a number": orjson.dumps(GOOD | {"func": 7}),
    "args is an object": orjson.dumps(GOOD | {"args": {}}),
    "id is a list": orjson.dumps(GOOD | {"id": ["x"]}),
    "priority is text": orjson.dumps(GOOD | {"priority": "high"}),
    "run_after is text": orjson.dumps(GOOD | {"run_after": "tomorrow"}),
    "a time beyond the calendar": orjson.dumps(GOOD | {"ts": 1e300}),
    "ext is a list": orjson.dumps(GOOD | {"ext": [1]}),
    "history is damaged": orjson.dumps(GOOD | {"ext": {"starts": 1, "attempts": [{"number": "x"}]}}),
    "nested too deeply to write back": b'{"func":"app.task","kwargs":{},"args":' + b"[" * 300 + b"]" * 300 + b"}",
}
each_kind = pytest.mark.parametrize("raw", NO_JOBS.values(), ids=NO_JOBS.keys())


class TestHostileBytes:
    @each_kind
    async def test_they_are_claimed_with_what_is_wrong_and_good_jobs_beside_them(self, store: Bench, raw: bytes):
        await store.inject("default", raw)
        good = await store.add()
        claims = await store.claim()
        assert sorted([claim.job is None for claim in claims]) == [False, True]
        [bad] = [claim for claim in claims if claim.job is None]
        assert (bad.raw, bad.queue) == (raw, "default")
        assert bad.defect
        assert good.id in ids(claims)

    @each_kind
    async def test_they_end_as_dead_letters_with_their_bytes(self, store: Bench, raw: bytes):
        await store.inject("default", raw)
        claim = await store.claim_one()
        failure = a_failure("no job", "django_vtasks.jobs.errors.JobUndecodable")
        assert await store.settle(claim, Unrunnable(reason=DeadReason.UNDECODABLE, failure=failure))
        [letter] = await store.letters()
        assert (letter.raw, letter.reason, letter.job) == (raw, "undecodable", None)
        assert letter.failure.message == "no job"
        assert (await store.get(letter.id)).state == "dead"

    async def test_they_can_be_handed_to_the_next_worker_by_an_expired_lease(self, store: Bench):
        await store.inject("default", b"garbage")
        await store.lose(await store.claim_one())
        [claim] = await store.worker.expired(10)
        assert (claim.raw, claim.job) == (b"garbage", None)
        assert await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
        [letter] = await store.letters()
        assert letter.raw == b"garbage"

    async def test_they_are_held_like_any_claim(self, store: Bench):
        await store.inject("default", b"garbage")
        claim = await store.claim_one()
        assert await store.worker.held("alpha") == (claim,)

    async def test_many_of_them_do_not_stand_in_the_way(self, store: Bench):
        for raw in NO_JOBS.values():
            await store.inject("default", raw)
        good = await store.add()
        claims = await store.claim(len(NO_JOBS) + 1)
        assert len(claims) == len(NO_JOBS) + 1
        assert [claim.lease.job_id for claim in claims if claim.job] == [good.id]
        assert len({claim.lease.token for claim in claims}) == len(claims)

    async def test_they_can_be_listed_and_deleted_while_they_wait(self, store: Bench):
        await store.inject("default", b"garbage")
        good = await store.add()
        assert len(await store.records(JobState.READY)) == 2
        assert (await store.counts())["ready"] == 2
        await store.admin.delete(JobFilter(state=JobState.READY))
        assert (await store.counts())["ready"] == 0
        assert await store.state(good) is None

    async def test_their_letters_can_be_deleted(self, store: Bench):
        await store.inject("default", b"garbage")
        await store.fail(await store.claim_one())
        [letter] = await store.letters()
        assert await store.admin.delete(JobFilter(state=JobState.DEAD, ids=(letter.id,))) == 1
        assert await store.letters() == []


class TestForeignJobs:
    async def test_the_least_a_producer_must_write_is_enough(self, store: Bench):
        await store.inject("default", orjson.dumps(GOOD))
        claim = await store.claim_one()
        assert (claim.job.func, claim.job.args, claim.job.queue) == ("app.task", [], "default")
        assert claim.job.id == claim.lease.job_id != ""

    async def test_unknown_fields_are_written_back(self, store: Bench):
        await store.inject("default", orjson.dumps(GOOD | {"shiny": {"new": [1]}, "ext": {"newer": 2}}))
        await store.retry(await store.claim_one())
        claim = await store.claim_one()
        await store.fail(claim)
        [letter] = await store.letters()
        assert letter.job.extra == {"shiny": {"new": [1]}, "ext": {"newer": 2}}

    async def test_two_jobs_with_one_id_both_run(self, store: Bench):
        raw = encode(store.job(args=[1]))
        await store.inject("default", raw)
        await store.inject("default", raw)
        claims = await store.claim()
        assert len({claim.lease.token for claim in claims}) == 2
        for claim in claims:
            await store.succeed(claim)
        assert await store.counts() == {"ready": 0, "scheduled": 0, "leased": 0, "dead": 0, "paused": False}

    async def test_a_priority_beyond_the_range_is_clamped(self, store: Bench):
        await store.inject("default", orjson.dumps(GOOD | {"priority": 10**15}))
        await store.retry(await store.claim_one())
        assert (await store.claim_one()).job.priority == 100

    async def test_a_job_that_names_another_queue_is_run_where_it_lies(self, store: Bench):
        await store.inject("default", orjson.dumps(GOOD | {"queue": "elsewhere"}))
        assert (await store.claim_one()).queue == "default"

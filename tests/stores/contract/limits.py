"""Limits over the whole fleet: how many at once, how many in a span of time, and what a limited job waits with."""

from __future__ import annotations

import asyncio
import random

import pytest

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import JobState, UniqueMode
from django_vtasks.jobs.outcomes import Interrupted, LeaseExpired, Succeeded
from django_vtasks.stores.base import ClaimRequest, JobFilter, Redrive, Want
from tests.stores.bench import KEPT, LEASE, Bench, about, ids
from tests.support.builders import a_key, settled
from tests.support.flaky import FlakyStore
from tests.support.waiting import let_others_run


def at_once(count: int, key: str = "k") -> JobLimit:
    return JobLimit(concurrency_key=key, count=count)


def spaced(interval: float, burst: int = 1, key: str = "r") -> JobLimit:
    return JobLimit(rate_key=key, interval=interval, burst=burst)


async def limited(store: Bench, number: int, limit: JobLimit, **changes):
    """Add jobs with a limit, one after the other."""
    return [await store.add(limit=limit, **changes) for _ in range(number)]


async def parked(store: Bench, number: int = 3, **changes):
    """A limit of one that is reached, and jobs that wait for it; returns the claim and them."""
    jobs = await limited(store, number + 1, at_once(1), **changes)
    [claim] = await store.claim()
    assert ids([claim]) == ids(jobs[:1])
    return claim, jobs[1:]


class TestConcurrency:
    async def test_never_more_than_the_limit_run_at_once(self, store: Bench):
        jobs = await limited(store, 5, at_once(2))
        assert ids(await store.claim(10, owner="alpha")) == ids(jobs[:2])
        assert await store.claim(10, owner="beta") == []
        assert (await store.counts())["ready"] == 3

    async def test_one_that_ends_makes_room_for_the_next(self, store: Bench):
        jobs = await limited(store, 4, at_once(1))
        order = []
        for _ in jobs:
            [claim] = await store.claim(10, owner=random.choice(["alpha", "beta"]))
            order += ids([claim])
            await store.succeed(claim)
        assert order == ids(jobs)
        assert await store.claim() == []

    async def test_a_round_that_settles_claims_what_that_makes_room_for(self, store: Bench):
        claim, [waiting, *_] = await parked(store)

        done = settled(claim, Succeeded(value=b"null"), KEPT, store.clock())
        assert ids((await store.exchange([done], default=10)).claims) == [waiting.id]

    async def test_a_job_that_fails_gives_its_permit_back(self, store: Bench):
        claim, [waiting, *_] = await parked(store)
        await store.fail(claim)
        assert ids(await store.claim()) == [waiting.id]

    async def test_a_job_that_waits_for_its_next_attempt_has_no_permit(self, store: Bench):
        claim, [waiting, *_] = await parked(store, 1)
        await store.retry(claim, 30)
        [second] = await store.claim()
        assert ids([second]) == [waiting.id]
        await store.advance(31)
        await store.pulse()
        assert await store.claim() == []
        await store.succeed(second)
        assert ids(await store.claim()) == ids([claim])

    async def test_a_job_that_is_interrupted_goes_on_before_those_that_wait(self, store: Bench):
        claim, [waiting, *_] = await parked(store)
        assert await store.settle(claim, Interrupted())
        [again] = await store.claim()
        assert ids([again]) == ids([claim])
        await store.succeed(again)
        assert ids(await store.claim()) == [waiting.id]

    async def test_a_lease_that_is_taken_over_frees_its_permit(self, store: Bench):
        claim, [waiting, *_] = await parked(store)
        await store.lose(claim)
        assert await store.claim(owner="beta") == []
        [lost] = await store.worker.expired(10)
        assert await store.settle(lost, LeaseExpired(owner="alpha"), reclaim=True)
        [first] = await store.claim(owner="beta")
        assert ids([first])[0] in {claim.lease.job_id, waiting.id}
        assert await store.claim(owner="beta") == []

    async def test_settling_twice_frees_one_permit(self, store: Bench):
        jobs = await limited(store, 5, at_once(2))
        first, _ = await store.claim()
        await store.succeed(first)
        assert not await store.settle(first, LeaseExpired(owner="alpha"))
        assert ids(await store.claim()) == [jobs[2].id]

    async def test_a_refused_settlement_frees_nothing(self, store: Bench):
        claim, _ = await parked(store)
        assert not await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
        assert await store.claim() == []

    async def test_a_limit_holds_over_queues(self, store: Bench):
        first = await store.add(queue="a", limit=at_once(1))
        second = await store.add(queue="b", limit=at_once(1))
        await store.live()
        [claim] = (await store.exchange(a=5, b=5)).claims
        assert ids([claim]) == [first.id]
        await store.succeed(claim)
        assert ids((await store.exchange(a=5, b=5)).claims) == [second.id]

    async def test_other_keys_and_jobs_without_a_limit_are_not_held_up(self, store: Bench):
        await parked(store, 30)
        other = await store.add(limit=at_once(1, "other"))
        free = await store.add()
        assert ids(await store.claim(2)) == [other.id, free.id]

    async def test_jobs_that_wait_for_a_limit_take_no_slot(self, store: Bench):
        await limited(store, 20, at_once(1))
        free = [await store.add() for _ in range(2)]
        assert len(await store.claim(1)) == 1
        assert ids(await store.claim(1)) == [free[0].id]

    async def test_queues_are_served_in_their_order_whichever_has_limits(self, store: Bench):
        await store.add(queue="a")
        bound = [await store.add(queue="b", limit=at_once(2)) for _ in range(3)]
        free = [await store.add(queue="c") for _ in range(3)]
        last = await store.add(queue="d", limit=at_once(1, "other"))
        await store.live()
        first = (await store.exchange(limit=4, a=4, b=4, c=4, d=4)).claims
        assert ids(first)[1:] == [bound[0].id, bound[1].id, free[0].id]
        done = [settled(claim, Succeeded(value=b"null"), KEPT, store.clock()) for claim in first]
        assert ids((await store.exchange(done, limit=2, a=4, b=4, c=4, d=4)).claims) == [bound[2].id, free[1].id]
        assert ids((await store.exchange(limit=9, a=4, b=4, c=4, d=4)).claims) == [free[2].id, last.id]

    async def test_a_queue_without_limits_is_not_held_up_by_one_with_them(self, store: Bench):
        await limited(store, 5, at_once(1), queue="bound")
        free = [await store.add(queue="free") for _ in range(3)]
        await store.live()
        claims = (await store.exchange(bound=2, free=2)).claims
        assert sorted(claim.queue for claim in claims) == ["bound", "free", "free"]
        assert ids((await store.exchange(bound=2, free=2)).claims) == [free[2].id]

    async def test_higher_priorities_go_first(self, store: Bench):
        claim, waiting = await parked(store, 2)
        urgent = await store.add(priority=50, limit=at_once(1))
        low = await store.add(priority=-50, limit=at_once(1))
        assert await store.claim() == []
        order = []
        while claim:
            await store.succeed(claim)
            [claim] = await store.claim() or [None]
            order += ids([claim]) if claim else []
        assert order == [urgent.id, *ids(waiting), low.id]

    async def test_a_free_permit_does_not_go_before_a_higher_priority(self, store: Bench):
        claim, [waiting, *_] = await parked(store, 1)
        await store.succeed(claim)
        urgent = await store.add(priority=50)
        assert ids(await store.claim(1)) == [urgent.id]
        assert ids(await store.claim(1)) == [waiting.id]

    async def test_a_raised_limit_does_not_let_newcomers_overtake(self, store: Bench):
        claim, [waiting] = await parked(store, 1)
        assert await store.claim() == []
        newcomer = await store.add(limit=at_once(2))
        assert await store.claim() == []
        await store.succeed(claim)
        assert ids(await store.claim()) == [waiting.id, newcomer.id]

    async def test_a_limit_with_a_large_payload_holds(self, store: Bench):
        await limited(store, 3, at_once(1), args=["x" * 5000])
        assert len(await store.claim()) == 1

    async def test_a_job_that_speaks_of_a_limit_has_none(self, store: Bench):
        await store.add_all([store.job(args=[{"limit": {"key": "k", "count": 1}}]) for _ in range(2)])
        assert len(await store.claim()) == 2

    async def test_strange_keys_are_just_keys(self, store: Bench):
        keys = ["ünï", "a|b", "x" * 500, "nul\0", "line\nbreak", "colon:*", "A", "a"]
        for key in keys:
            await limited(store, 2, at_once(1, key))
        assert len(await store.claim(100)) == len(keys)

    async def test_many_workers_keep_to_it_and_lose_nothing(self, store: Bench):
        jobs = await limited(store, 24, at_once(3))
        names = [f"w{number}" for number in range(4)]
        workers = [store.new_worker() for _ in names]
        await store.live(*names)
        running: set[str] = set()
        done: list[str] = []
        most = 0

        async def work(name, worker):
            nonlocal most

            request = ClaimRequest(owner=name, wants=(Want(queue="default", slots=4),), limit=4)
            await worker.open()
            while len(done) < len(jobs):
                claims = (await worker.exchange([], request)).claims
                running.update(ids(claims))
                most = max(most, len(running))
                await asyncio.sleep(0)
                running.difference_update(ids(claims))
                done.extend(ids(claims))
                over = [settled(claim, Succeeded(value=b"1"), KEPT, store.clock()) for claim in claims]
                await worker.exchange(over, None)
            await worker.close()

        async with asyncio.timeout(60):
            await asyncio.gather(*map(work, names, workers))
        assert sorted(done) == sorted(ids(jobs))
        assert most <= 3


class TestRate:
    async def test_jobs_start_no_closer_than_the_interval(self, store: Bench):
        jobs = await limited(store, 3, spaced(10))
        assert ids(await store.claim()) == [jobs[0].id]
        await store.advance(9.9)
        assert await store.claim() == []
        await store.advance(0.2)
        assert ids(await store.claim()) == [jobs[1].id]
        await store.advance(9.9)
        assert await store.claim(owner="beta") == []
        await store.advance(0.2)
        assert ids(await store.claim(owner="beta")) == [jobs[2].id]

    async def test_a_newcomer_keeps_to_it_as_well(self, store: Bench):
        await limited(store, 1, spaced(10))
        assert len(await store.claim()) == 1
        await store.advance(9.9)
        newcomer = await store.add(limit=spaced(10))
        assert await store.claim() == []
        await store.advance(0.2)
        assert ids(await store.claim()) == [newcomer.id]

    async def test_a_burst_starts_at_once_and_then_evenly(self, store: Bench):
        jobs = await limited(store, 6, spaced(10, burst=3))
        assert ids(await store.claim()) == ids(jobs[:3])
        await store.advance(10.1)
        assert ids(await store.claim()) == [jobs[3].id]
        await store.advance(20.1)
        assert ids(await store.claim()) == ids(jobs[4:])

    async def test_a_job_that_comes_late_does_not_overtake(self, store: Bench):
        first, second = await limited(store, 2, spaced(10))
        assert ids(await store.claim()) == [first.id]
        assert await store.claim() == []
        await store.advance(10.1)
        late = await store.add(limit=spaced(10))
        assert ids(await store.claim()) == [second.id]
        await store.advance(10.1)
        assert ids(await store.claim()) == [late.id]

    async def test_others_are_not_held_up(self, store: Bench):
        await limited(store, 20, spaced(60))
        other, free = await store.add(limit=spaced(60, key="other")), await store.add()
        assert len(await store.claim(1)) == 1
        assert ids(await store.claim(2)) == [other.id, free.id]

    async def test_a_rate_and_a_limit_hold_together(self, store: Bench):
        both = JobLimit(concurrency_key="k", count=1, rate_key="r", interval=10, burst=1)
        jobs = await limited(store, 3, both)
        [claim] = await store.claim()
        await store.advance(11)
        assert await store.claim() == []
        await store.succeed(claim)
        [claim] = await store.claim()
        assert ids([claim]) == [jobs[1].id]
        await store.succeed(claim)
        assert await store.claim() == []
        await store.advance(11)
        assert ids(await store.claim()) == [jobs[2].id]

    async def test_the_pulse_tells_when_the_next_may_start(self, store: Bench):
        await limited(store, 2, spaced(10))
        await store.claim()
        assert await store.claim() == []
        assert (await store.pulse()).next_due_in == about(10)


class TestWaitingForALimit:
    """A job that waits for its limit is a ready job to everybody."""

    async def test_it_is_counted_listed_and_read_as_ready(self, store: Bench):
        _, waiting = await parked(store)
        free = await store.add()
        assert await store.counts() == {"ready": 4, "scheduled": 0, "leased": 1, "dead": 0, "paused": False}
        assert set(ids(await store.records(JobState.READY))) == {free.id, *ids(waiting)}
        assert [await store.state(job) for job in waiting] == ["ready"] * 3
        [counts] = await store.admin.counts()
        assert counts.oldest_ready_at == about(store.clock())

    async def test_it_can_be_cancelled(self, store: Bench):
        claim, [first, second, third] = await parked(store, unique=None)
        assert await store.client.acancel(first.id) == "cancelled"
        assert await store.client.acancel(third.id) == "cancelled"
        await store.succeed(claim)
        [claim] = await store.claim()
        assert ids([claim]) == [second.id]
        await store.succeed(claim)
        assert await store.claim() == []
        assert (await store.counts())["dead"] == 2

    async def test_it_can_be_deleted(self, store: Bench):
        claim, [first, second, _] = await parked(store)
        assert await store.admin.delete(JobFilter(state=JobState.READY, ids=(first.id,))) == 1
        await store.succeed(claim)
        assert ids(await store.claim()) == [second.id]
        assert await store.admin.delete(JobFilter(state=JobState.READY)) == 1
        assert (await store.counts())["ready"] == 0

    async def test_it_keeps_its_unique_key(self, store: Bench):
        await store.add(limit=at_once(1))
        waiting = await store.add(limit=at_once(1), unique=a_key("u"))
        claim = await store.claim_one()
        assert await store.claim() == []
        assert (await store.try_add(unique=a_key("u"))).job_id == waiting.id
        assert await store.client.acancel(waiting.id) == "cancelled"
        assert (await store.try_add(unique=a_key("u"))).status == "added"
        await store.succeed(claim)

    async def test_it_can_be_replaced_by_one_that_debounces(self, store: Bench):
        await store.add(limit=at_once(1))
        unique = a_key("u", UniqueMode.DEBOUNCE)
        waiting = await store.add(limit=at_once(1), unique=unique, args=[1])
        claim = await store.claim_one()
        assert await store.claim() == []
        answer = await store.try_add(limit=at_once(1), unique=unique, args=[2])
        assert (answer.status, answer.job_id) == ("replaced", waiting.id)
        assert (await store.counts())["ready"] == 1
        await store.succeed(claim)
        [again] = await store.claim()
        assert (again.lease.job_id, again.job.args) == (waiting.id, [2])

    async def test_its_standing_names_who_is_before_it_and_who_has_the_permits(self, store: Bench):
        claim, [first, second, _] = await parked(store)
        assert await store.claim() == []
        standing = await store.admin.standing(second.id)
        assert standing.ahead == 1
        assert standing.permit_holders == (claim.lease.job_id,)
        assert standing.rate_free_at is None
        await store.succeed(claim)
        assert (await store.admin.standing(first.id)).permit_holders == ()

    async def test_its_standing_tells_when_its_rate_lets_it_start(self, store: Bench):
        _, waiting = await limited(store, 2, spaced(10))
        await store.claim()
        assert (await store.admin.standing(waiting.id)).rate_free_at == about(store.clock() + 10)
        await store.advance(11)
        assert (await store.admin.standing(waiting.id)).rate_free_at is None

    async def test_delayed_and_hastened_jobs_keep_to_the_limit(self, store: Bench):
        claim, _ = await parked(store, 0)
        due = await store.add(limit=at_once(1), run_after=store.clock() + 5)
        far = await store.add(limit=at_once(1), run_after=store.clock() + 500)
        await store.advance(6)
        await store.pulse()
        assert await store.admin.hasten([far.id]) == 1
        assert await store.claim() == []
        await store.succeed(claim)
        [claim] = await store.claim()
        assert ids([claim]) == [due.id]
        await store.succeed(claim)
        assert ids(await store.claim()) == [far.id]

    async def test_a_redriven_job_keeps_to_the_limit(self, store: Bench):
        claim, _ = await parked(store, 0)
        await store.fail(claim)
        claim, _ = await parked(store, 0)
        [answer] = await store.admin.redrive([(await store.letters())[0].id], Redrive())
        assert await store.claim() == []
        await store.succeed(claim)
        assert ids(await store.claim()) == [answer.job_id]

    async def test_a_paused_queue_keeps_them(self, store: Bench):
        claim, [first, *_] = await parked(store)
        await store.admin.pause("default")
        await store.succeed(claim)
        assert await store.claim() == []
        await store.admin.resume("default")
        assert ids(await store.claim()) == [first.id]

    async def test_a_worker_without_a_lease_gets_none(self, store: Bench):
        claim, [first, *_] = await parked(store)
        await store.succeed(claim)
        assert (await store.exchange(owner="stranger", default=5)).claims == ()
        assert ids(await store.claim()) == [first.id]

    async def test_a_full_limit_does_not_end_a_wait(self, store: Bench):
        await parked(store)
        assert await store.claim() == []
        # What was told before the claim may end one of the first.
        waits = [await asyncio.wait_for(store.worker.wait_for_jobs(["default"], 0.2), 10) for _ in range(3)]
        assert not waits[-1]

    async def test_a_permit_that_is_freed_ends_a_wait(self, store: Bench):
        claim, [first, *_] = await parked(store)
        assert await store.claim() == []
        await store.worker.wait_for_jobs(["default"], 0.05)
        other = store.new_worker()
        await other.open()
        waiting = asyncio.create_task(store.worker.wait_for_jobs(["default"], 20))
        await let_others_run()
        try:
            await other.exchange([settled(claim, Succeeded(value=b"1"), KEPT, store.clock())], None)
            await store.pulse()
            assert await asyncio.wait_for(waiting, 10)
        finally:
            if other is not store.worker:
                await other.close()
        assert ids(await store.claim()) == [first.id]

    async def test_a_rate_that_allows_the_next_ends_a_wait_with_the_pulse(self, store: Bench):
        _, waiting = await limited(store, 2, spaced(10))
        await store.claim()
        assert await store.claim() == []
        await store.worker.wait_for_jobs(["default"], 0.05)
        wait = asyncio.create_task(store.worker.wait_for_jobs(["default"], 20))
        await let_others_run()
        await store.advance(10.5)
        await store.pulse()
        assert await asyncio.wait_for(wait, 10)
        assert ids(await store.claim()) == [waiting.id]

    async def test_many_of_one_key_are_looked_at_once(self, store: Bench):
        """A full limit is passed over as a whole: what comes behind is claimed at once."""
        await store.add_all([store.job(limit=at_once(1)) for _ in range(2500)])
        free = await store.add()
        await store.claim(1)
        found: list[str] = []
        for _ in range(10):
            found += ids(await store.claim(1))
        assert found == [free.id]

    async def test_their_number_is_right_after_anything(self, store: Bench):
        """Random steps: never above, and all run in the end."""
        draw = random.Random(5)
        limits = [
            at_once(2, "a"),
            at_once(1, "b"),
            None,
            JobLimit(concurrency_key="a", count=2, rate_key="r", interval=1),
        ]
        running, left = [], set()
        for _ in range(120):
            step = draw.choice(["add", "claim", "settle", "settle", "lose", "time"])
            if step == "add":
                left.add((await store.add(limit=draw.choice(limits))).id)
            elif step == "claim":
                running += await store.claim(draw.randint(1, 3), owner=draw.choice(["alpha", "beta"]))
            elif step == "settle" and running:
                claim = running.pop(draw.randrange(len(running)))
                if draw.random() < 0.5:
                    await store.succeed(claim)
                    left.discard(claim.lease.job_id)
                else:
                    await store.retry(claim, draw.choice([0, 0, 2]))
            elif step == "lose":
                await store.advance(LEASE + 1)
                for lost in await store.worker.expired(100):
                    assert await store.settle(lost, LeaseExpired(owner=lost.lease.owner), reclaim=True)
                    if await store.state(lost.lease.job_id) == "dead":
                        left.discard(lost.lease.job_id)
                running = []
            else:
                await store.advance(1)
            await store.live("alpha", "beta")
            await store.pulse()
            holding = [c.job.limit.concurrency_key for c in running if c.job.limit]
            assert holding.count("a") <= 2
            assert holding.count("b") <= 1
        for _ in range(200):
            for claim in running:
                await store.succeed(claim)
                left.discard(claim.lease.job_id)
            await store.advance(3)
            await store.pulse()
            running = await store.claim(5)
        assert left == set()


@pytest.mark.parametrize("crash", ["before", "after"])
class TestLimitsAndLostReplies:
    async def test_a_settlement_whose_reply_is_lost_frees_its_permit_once(self, store: Bench, crash: str):

        claim, [first, *_] = await parked(store)
        flaky = FlakyStore(store.worker)
        getattr(flaky, f"fail_{crash}")("exchange")
        done = settled(claim, Succeeded(value=b"1"), KEPT, store.clock())
        with pytest.raises(StoreUnavailable):
            await flaky.exchange([done], None)
        await flaky.exchange([done], None)
        assert ids(await store.claim()) == [first.id]
        assert await store.claim() == []

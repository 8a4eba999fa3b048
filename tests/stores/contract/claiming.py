"""Claiming: order, limits, and that one job goes to one worker."""

from __future__ import annotations

import asyncio
import random

from django_vtasks.stores.base import ClaimRequest, Want
from tests.stores.bench import LEASE, Bench, about, ids
from tests.support.waiting import let_others_run


class TestClaim:
    async def test_a_claim_tells_everything_the_worker_needs(self, store: Bench):
        job = await store.add(queue="mail", args=["x"])
        await store.advance(3)
        claim = await store.claim_one(queue="mail", owner="beta")
        assert (claim.lease.job_id, claim.lease.owner, claim.queue) == (job.id, "beta", "mail")
        assert (claim.job, claim.defect, claim.started_at) == (job, None, about(store.clock()))

    async def test_every_claim_has_a_token_of_its_own(self, store: Bench):
        await store.add_all([store.job() for _ in range(5)])
        claims = await store.claim(5)
        await store.retry(claims[0])
        [again] = await store.claim()
        assert len({claim.lease.token for claim in [*claims, again]}) == 6

    async def test_no_job_is_claimed_without_a_free_slot(self, store: Bench):
        """Invariant 6."""
        jobs = await store.add_all([store.job() for _ in range(5)])
        assert ids(await store.claim(2)) == ids(jobs[:2])
        assert await store.claim(0) == []
        assert (await store.counts())["ready"] == 3

    async def test_the_limit_holds_over_all_queues(self, store: Bench):
        """Invariant 6."""
        await store.add_all([store.job(queue=queue) for queue in ("left", "right") for _ in range(5)])
        await store.live()
        claims = (await store.exchange(limit=6, left=4, right=4)).claims
        assert [claim.queue for claim in claims] == ["left"] * 4 + ["right"] * 2

    async def test_a_limit_of_nothing_claims_nothing(self, store: Bench):
        await store.add()
        await store.live()
        assert (await store.exchange(limit=0, default=5)).claims == ()

    async def test_queues_are_served_in_the_order_asked_for(self, store: Bench):
        await store.add_all([store.job(queue=queue) for queue in ("a", "b", "c")])
        await store.live()
        assert [claim.queue for claim in (await store.exchange(c=1, a=1, b=1)).claims] == ["c", "a", "b"]

    async def test_other_queues_are_left_alone(self, store: Bench):
        await store.add(queue="other")
        assert await store.claim() == []
        assert (await store.counts("other"))["ready"] == 1

    async def test_empty_queues_do_not_hide_full_ones(self, store: Bench):
        job = await store.add(queue="full")
        await store.live()
        wants = tuple(Want(queue=f"empty{number}", slots=5) for number in range(100))
        request = ClaimRequest(owner="alpha", wants=(*wants, Want(queue="full", slots=5)), limit=5)
        assert ids(list((await store.worker.exchange([], request)).claims)) == [job.id]

    async def test_a_claimed_job_is_nobody_elses(self, store: Bench):
        """Invariant 1."""
        await store.add()
        assert len(await store.claim(owner="alpha")) == 1
        assert await store.claim(owner="beta") == []
        assert await store.counts() == {"ready": 0, "scheduled": 0, "leased": 1, "dead": 0, "paused": False}

    async def test_an_exchange_without_a_request_claims_nothing(self, store: Bench):
        await store.add()
        assert (await store.exchange()).claims == ()

    async def test_strange_queue_names_are_just_names(self, store: Bench):
        names = ["with space", "ünïcode", "colon:star*", "q" * 200, "{brace}", "per%cent", "quote'\""]
        jobs = await store.add_all([store.job(queue=name) for name in names])
        for name, job in zip(names, jobs, strict=True):
            assert ids(await store.claim(queue=name)) == [job.id]

    async def test_many_workers_share_a_queue_without_taking_a_job_twice(self, store: Bench):
        """Invariant 1."""
        jobs = await store.add_all([store.job() for _ in range(120)])
        workers = [store.new_worker() for _ in range(4)]
        names = [f"worker{number}" for number in range(4)]
        await store.live(*names)

        async def drain(name, worker):
            await worker.open()
            taken = []
            try:
                while claims := (
                    await worker.exchange(
                        [], ClaimRequest(owner=name, wants=(Want(queue="default", slots=7),), limit=7)
                    )
                ).claims:
                    taken.extend(ids(list(claims)))
            finally:
                await worker.close()
            return taken

        takings = await asyncio.gather(*map(drain, names, workers))
        taken = [job_id for taking in takings for job_id in taking]
        # An empty answer may only mean that others were at the same rows; nothing may be taken twice.
        rest = ids(await store.claim(200))
        assert sorted([*taken, *rest]) == sorted(ids(jobs))


class TestClaimNeedsALease:
    """Invariant 3: what an incarnation without a live lease took would be anybody's at once."""

    async def test_an_incarnation_that_never_had_one_claims_nothing(self, store: Bench):
        await store.add()
        assert (await store.exchange(owner="stranger", default=1)).claims == ()
        assert (await store.counts())["ready"] == 1

    async def test_an_incarnation_whose_lease_ran_out_claims_nothing_until_it_renews(self, store: Bench):
        await store.add()
        await store.live("alpha")
        await store.advance(LEASE + 1)
        assert (await store.exchange(default=1)).claims == ()
        await store.live("alpha")
        assert len((await store.exchange(default=1)).claims) == 1

    async def test_an_incarnation_that_released_its_lease_claims_nothing(self, store: Bench):
        await store.add()
        await store.live("alpha")
        await store.leases.release("alpha")
        assert (await store.exchange(default=1)).claims == ()


class TestOrder:
    async def test_jobs_of_one_priority_run_first_in_first_out(self, store: Bench):
        jobs = [await store.add(priority=3) for _ in range(12)]
        assert ids([await store.claim_one() for _ in range(12)]) == ids(jobs)

    async def test_higher_priorities_go_first(self, store: Bench):
        low, normal, high = [await store.add(priority=priority) for priority in (-1, 0, 1)]
        assert ids(await store.claim()) == [high.id, normal.id, low.id]

    async def test_every_priority_has_its_place(self, store: Bench):
        priorities = [*range(-100, 101), *(0, 100, -100, 7) * 3]
        random.Random(2).shuffle(priorities)
        await store.add_all([store.job(priority=priority, args=[n]) for n, priority in enumerate(priorities)])
        claims = await store.claim(len(priorities))
        got = [(claim.job.priority, claim.job.args[0]) for claim in claims]
        assert got == sorted(got, key=lambda place: (-place[0], place[1]))
        assert len(got) == len(priorities)

    async def test_a_late_urgent_job_overtakes_within_its_queue(self, store: Bench):
        await store.add_all([store.job() for _ in range(3)])
        urgent = await store.add(priority=50)
        assert ids(await store.claim(1)) == [urgent.id]

    async def test_a_promoted_job_keeps_its_priority(self, store: Bench):
        delayed = await store.add(priority=5, run_after=store.clock() + 1)
        normal = await store.add()
        await store.advance(2)
        await store.pulse()
        assert ids(await store.claim()) == [delayed.id, normal.id]

    async def test_a_retried_job_keeps_its_priority(self, store: Bench):
        job = await store.add(priority=-5)
        await store.retry(await store.claim_one())
        normal = await store.add()
        assert ids(await store.claim()) == [normal.id, job.id]


class TestHeld:
    async def test_an_incarnation_holds_what_it_claimed(self, store: Bench):
        """Invariant 3."""
        await store.add_all([store.job() for _ in range(3)])
        first = await store.claim(2, owner="alpha")
        await store.claim(1, owner="beta")
        held = await store.worker.held("alpha")
        key = lambda claim: claim.lease.token  # noqa: E731
        assert sorted(held, key=key) == sorted(first, key=key)

    async def test_a_claim_whose_reply_was_lost_is_held_and_can_be_settled(self, store: Bench):
        """Invariant 3: the worker compares what the store says with what it runs."""
        job = await store.add()
        await store.claim_one()
        [claim] = await store.worker.held("alpha")
        await store.succeed(claim)
        assert await store.state(job) == "succeeded"

    async def test_settled_jobs_are_held_no_more(self, store: Bench):
        await store.add_all([store.job() for _ in range(3)])
        first, second, third = await store.claim()
        await store.succeed(first)
        await store.fail(second)
        await store.retry(third)
        assert await store.worker.held("alpha") == ()

    async def test_a_stranger_holds_nothing(self, store: Bench):
        await store.add()
        await store.claim()
        assert await store.worker.held("alph") == ()


class TestWaitForJobs:
    async def test_a_ready_job_ends_the_wait_at_once(self, store: Bench):
        await store.add(queue="mail")
        assert await asyncio.wait_for(store.worker.wait_for_jobs(["default", "mail"], 20), 10)

    async def test_a_job_that_arrives_ends_the_wait(self, store: Bench):
        waiting = asyncio.create_task(store.worker.wait_for_jobs(["default", "mail"], 20))
        await let_others_run()
        await store.add(queue="mail")
        assert await asyncio.wait_for(waiting, 10)
        assert len(await store.claim(queue="mail")) == 1

    async def test_a_promoted_job_ends_the_wait(self, store: Bench):
        await store.add(run_after=store.clock() + 1)
        waiting = asyncio.create_task(store.worker.wait_for_jobs(["default"], 20))
        await let_others_run()
        await store.advance(2)
        await store.pulse()
        assert await asyncio.wait_for(waiting, 10)

    async def test_a_wait_ends_after_its_timeout(self, store: Bench):
        """Invariant 12."""
        assert not await asyncio.wait_for(store.worker.wait_for_jobs(["default"], 0.05), 10)

    async def test_jobs_of_other_queues_do_not_matter(self, store: Bench):
        await store.add(queue="other")
        assert not await store.worker.wait_for_jobs(["default"], 0.05)

    async def test_a_scheduled_job_does_not_end_the_wait_before_its_time(self, store: Bench):
        await store.add(run_after=store.clock() + 60)
        assert not await store.worker.wait_for_jobs(["default"], 0.05)


class TestPause:
    async def test_nobody_claims_from_a_paused_queue(self, store: Bench):
        await store.add_all([store.job(queue=queue) for queue in ("mail", "default")])
        await store.admin.pause("mail")
        await store.live()
        assert [claim.queue for claim in (await store.exchange(mail=5, default=5)).claims] == ["default"]

    async def test_a_resumed_queue_goes_on(self, store: Bench):
        job = await store.add()
        await store.admin.pause("default")
        assert await store.claim() == []
        await store.admin.resume("default")
        assert ids(await store.claim()) == [job.id]

    async def test_jobs_are_still_added_and_settled_while_paused(self, store: Bench):
        await store.add()
        claim = await store.claim_one()
        await store.admin.pause("default")
        await store.add()
        await store.succeed(claim)
        assert await store.counts() == {"ready": 1, "scheduled": 0, "leased": 0, "dead": 0, "paused": True}

    async def test_every_worker_hears_of_it_with_its_next_pulse(self, store: Bench):
        await store.admin.pause("mail")
        await store.admin.pause("mail")
        await store.admin.pause("slow")
        assert (await store.pulse("alpha")).paused == (await store.pulse("beta")).paused == {"mail", "slow"}
        await store.admin.resume("mail")
        assert (await store.pulse()).paused == {"slow"}

    async def test_resuming_what_is_not_paused_is_no_error(self, store: Bench):
        await store.admin.resume("default")
        assert (await store.pulse()).paused == frozenset()

    async def test_a_paused_queue_does_not_end_a_wait(self, store: Bench):
        await store.add()
        await store.admin.pause("default")
        assert not await store.worker.wait_for_jobs(["default"], 0.05)

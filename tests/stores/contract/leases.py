"""Leases of incarnations, what is expired, roles, and what workers say of themselves."""

from __future__ import annotations

from dataclasses import replace

from django_vtasks.jobs.model import Progress
from django_vtasks.jobs.outcomes import LeaseExpired
from django_vtasks.stores.base import Retention, WorkerInfo
from tests.stores.bench import LEASE, Bench, about, ids


def worker_info(incarnation: str = "alpha", **changes) -> WorkerInfo:
    values = {
        "incarnation": incarnation,
        "worker_id": "host-1",
        "host": "host",
        "pid": 1,
        "version": "4.0",
        "queues": ("default", "mail"),
        "concurrency": 20,
        "started_at": 1_600_000_000.0,
        "running": 3,
    }
    return WorkerInfo(**(values | changes))


class TestExtend:
    async def test_the_first_call_makes_the_lease_and_says_that_there_was_none(self, store: Bench):
        assert await store.leases.extend("alpha", LEASE) is False
        assert await store.leases.extend("alpha", LEASE) is True

    async def test_a_lease_that_is_renewed_does_not_run_out(self, store: Bench):
        await store.add()
        await store.claim()
        for _ in range(5):
            await store.advance(LEASE - 1)
            assert await store.leases.extend("alpha", LEASE) is True
        assert await store.worker.expired(10) == ()

    async def test_a_lease_that_ran_out_is_reported_as_lost(self, store: Bench):
        """Invariant 4: a worker that could not renew in time finds out."""
        await store.live("alpha")
        await store.advance(LEASE + 1)
        assert await store.leases.extend("alpha", LEASE) is False
        assert await store.leases.extend("alpha", LEASE) is True

    async def test_the_time_asked_for_counts_from_now(self, store: Bench):
        await store.add()
        await store.claim()
        await store.live("alpha", seconds=100)
        await store.advance(99)
        assert await store.worker.expired(10) == ()
        await store.live("alpha", seconds=1)
        await store.advance(2)
        assert len(await store.worker.expired(10)) == 1

    async def test_two_incarnations_with_one_worker_id_are_two_owners(self, store: Bench):
        """Invariant 3."""
        await store.add_all([store.job() for _ in range(2)])
        await store.claim(1, owner="host-1:aaaa")
        await store.claim(1, owner="host-1:bbbb")
        await store.advance(LEASE - 1)
        await store.live("host-1:bbbb")
        await store.advance(2)
        assert [claim.lease.owner for claim in await store.worker.expired(10)] == ["host-1:aaaa"]


class TestRelease:
    async def test_what_a_released_lease_covered_is_expired_at_once(self, store: Bench):
        await store.add()
        await store.claim()
        await store.leases.release("alpha")
        assert len(await store.worker.expired(10)) == 1

    async def test_releasing_what_is_not_there_is_no_error(self, store: Bench):
        await store.leases.release("nobody")
        await store.live()
        await store.leases.release("alpha")
        await store.leases.release("alpha")

    async def test_other_leases_stay(self, store: Bench):
        await store.add()
        await store.claim(owner="beta")
        await store.live("alpha")
        await store.leases.release("alpha")
        assert await store.worker.expired(10) == ()


class TestExpired:
    async def test_nothing_is_expired_while_the_lease_lives(self, store: Bench):
        """Invariant 8."""
        await store.add()
        await store.claim()
        await store.advance(LEASE - 1)
        assert await store.worker.expired(10) == ()

    async def test_everything_a_dead_incarnation_held_is_expired(self, store: Bench):
        """Invariant 3."""
        jobs = await store.add_all([store.job(queue=queue) for queue in ("default", "mail") for _ in range(3)])
        held = [*await store.claim(), *await store.claim(queue="mail")]
        await store.advance(LEASE + 1)
        expired = await store.worker.expired(100)
        assert sorted(ids(expired)) == sorted(ids(jobs))
        assert {claim.lease.token for claim in expired} == {claim.lease.token for claim in held}
        assert {claim.queue for claim in expired} == {"default", "mail"}

    async def test_looking_changes_nothing(self, store: Bench):
        await store.add()
        await store.claim()
        await store.advance(LEASE + 1)
        assert await store.worker.expired(10) == await store.worker.expired(10)
        assert (await store.counts())["leased"] == 1

    async def test_no_more_than_the_limit_are_returned(self, store: Bench):
        await store.add_all([store.job() for _ in range(5)])
        await store.claim()
        await store.advance(LEASE + 1)
        assert len(await store.worker.expired(2)) == 2

    async def test_a_sweep_by_and_by_reclaims_all(self, store: Bench):
        await store.add_all([store.job(max_rescues=1) for _ in range(7)])
        await store.claim()
        await store.advance(LEASE + 1)
        while claims := await store.worker.expired(3):
            for claim in claims:
                assert await store.settle(claim, LeaseExpired(owner="alpha"), reclaim=True)
        assert await store.counts() == {"ready": 7, "scheduled": 0, "leased": 0, "dead": 0, "paused": False}

    async def test_a_claim_says_what_the_first_one_said(self, store: Bench):
        await store.add(args=["x"], max_rescues=2)
        claim = await store.claim_one()
        await store.advance(LEASE + 1)
        [expired] = await store.worker.expired(10)
        assert expired == replace(claim, started_at=about(claim.started_at))

    async def test_metadata_of_the_dead_attempt_reaches_the_next_one(self, store: Bench):
        await store.add(max_rescues=1)
        claim = await store.claim_one()
        assert await store.worker.progress(claim.lease, Progress(done=5), {"page": 7})
        await store.advance(LEASE + 1)
        [expired] = await store.worker.expired(10)
        assert expired.job.metadata == {"page": 7}
        assert await store.settle(expired, LeaseExpired(owner="alpha"), reclaim=True)
        assert (await store.claim_one(owner="beta")).job.metadata == {"page": 7}

    async def test_cleaning_up_dead_workers_forgets_none_of_their_jobs(self, store: Bench):
        """Invariants 1 and 13."""
        await store.worker.announce(worker_info("alpha"))
        await store.add()
        await store.claim()
        await store.advance(10_000)
        await store.worker.purge(Retention(), 1000)
        assert len(await store.worker.expired(10)) == 1


class TestHold:
    async def test_one_owner_has_a_role(self, store: Bench):
        assert await store.worker.hold("scheduler", "alpha", 10)
        assert not await store.worker.hold("scheduler", "beta", 10)

    async def test_its_owner_renews_it(self, store: Bench):
        for _ in range(4):
            assert await store.worker.hold("scheduler", "alpha", 10)
            await store.advance(8)
        assert not await store.worker.hold("scheduler", "beta", 10)

    async def test_a_role_that_ran_out_is_free(self, store: Bench):
        assert await store.worker.hold("scheduler", "alpha", 10)
        await store.advance(11)
        assert await store.worker.hold("scheduler", "beta", 10)
        assert not await store.worker.hold("scheduler", "alpha", 10)

    async def test_roles_are_apart(self, store: Bench):
        assert await store.worker.hold("scheduler", "alpha", 10)
        assert await store.worker.hold("cleaner", "beta", 10)


class TestWorkers:
    async def test_a_live_worker_is_listed_as_it_announced_itself(self, store: Bench):
        await store.live("alpha")
        await store.worker.announce(worker_info("alpha"))
        [listed] = await store.admin.workers()
        assert replace(listed, seen_at=0.0) == worker_info("alpha")
        assert listed.seen_at == about(store.clock())

    async def test_the_last_announcement_counts(self, store: Bench):
        await store.live("alpha")
        await store.worker.announce(worker_info("alpha", running=1))
        await store.worker.announce(worker_info("alpha", running=9))
        assert [info.running for info in await store.admin.workers()] == [9]

    async def test_workers_come_by_id(self, store: Bench):
        for name in ("gamma", "alpha", "beta"):
            await store.live(name)
            await store.worker.announce(worker_info(name))
        assert [info.incarnation for info in await store.admin.workers()] == ["alpha", "beta", "gamma"]

    async def test_a_worker_vanishes_with_its_lease(self, store: Bench):
        for name in ("alpha", "beta", "gamma"):
            await store.live(name)
            await store.worker.announce(worker_info(name))
        await store.leases.release("alpha")
        await store.advance(LEASE - 1)
        await store.live("beta")
        await store.advance(2)
        assert [info.incarnation for info in await store.admin.workers()] == ["beta"]

    async def test_the_purge_removes_what_dead_workers_left(self, store: Bench):
        """Invariant 13."""
        for number in range(5):
            await store.live(f"worker{number}")
            await store.worker.announce(worker_info(f"worker{number}"))
        await store.advance(10_000)
        await store.live("alive")
        await store.worker.announce(worker_info("alive"))
        await store.worker.purge(Retention(), 1000)
        assert [info.incarnation for info in await store.admin.workers()] == ["alive"]
        assert (await store.worker.purge(Retention(), 1000)).workers == 0


class TestNow:
    async def test_the_stores_clock_is_told(self, store: Bench):
        """Invariant 5."""
        assert await store.worker.now() == about(store.clock())
        await store.advance(100)
        assert await store.worker.now() == about(store.clock())

    async def test_a_worker_store_opens_and_closes_more_than_once(self, store: Bench):
        await store.worker.open()
        await store.worker.close()
        await store.worker.close()
        await store.worker.open()
        assert await store.worker.now() == about(store.clock())

"""The wire protocol of the 3.2 line, both directions: keys, and jobs that foreign producers and old workers leave."""

from __future__ import annotations

import sys
import time

import orjson
import pytest

from django_vtasks.jobs.codec import decode, decode_letter
from django_vtasks.jobs.model import DeadReason, JobState, UniqueMode
from django_vtasks.jobs.outcomes import LeaseExpired, Raised
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import Firing, JobFilter, Redrive
from django_vtasks.stores.valkey.store import ValkeyAdminStore, ValkeyClientStore, ValkeyWorkerStore
from tests.stores.valkey_help import claim, job, options, raw_client, run_all, wanted
from tests.support.builders import a_failure, a_key, settled

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

P = "{vt}:"
LATER = 4e9
ONE_ATTEMPT = Policy(result_ttl=60)


@pytest.fixture
def raw(keyvalue_server):
    with raw_client(keyvalue_server) as client:
        yield client


@pytest.fixture
def store(keyvalue_server):
    store = ValkeyClientStore(options(keyvalue_server))
    yield store
    store.close()


@pytest.fixture
def admin(keyvalue_server):
    admin = ValkeyAdminStore(options(keyvalue_server))
    yield admin
    admin.close()


@pytest.fixture
async def worker(keyvalue_server):
    worker = ValkeyWorkerStore(options(keyvalue_server))
    yield worker
    await worker.close()


def foreign(**changes) -> bytes:
    """A payload as the Rust producer writes it: in wire order, without `run_after`."""
    fields = {
        "func": "app.tasks.add",
        "args": [1],
        "kwargs": {},
        "queue": "default",
        "priority": 0,
        "ts": 1700000000.5,
        "retries": 0,
        "unique": False,
        "unique_key": None,
        "ttl": None,
        "remove_unique_on_complete": True,
        "max_rescues": 0,
        "_rescue_count": 0,
        "id": "Abc" + "0" * 29,
    }
    return orjson.dumps(fields | changes)


def compressed(payload: bytes) -> bytes:
    return b"zstd:" + zstd.compress(payload, level=3)


class TestWhatIsWritten:
    def test_ready_jobs_of_priority_0_are_pushed_left_as_payloads(self, store, raw):
        jobs = [job(), job()]
        store.add(jobs)
        assert [decode(item) for item in raw.lrange(P + "q:default", 0, -1)] == jobs[::-1]

    @pytest.mark.parametrize(("priority", "name"), [(0, "sched"), (-5, "sched"), (1, "schedh"), (100, "schedh")])
    def test_delayed_jobs_are_members_of_the_sets_with_their_time_as_score(self, store, raw, priority, name):
        store.add([delayed := job(priority=priority, run_after=LATER, queue="mail")])
        [(payload, score)] = raw.zrange(f"{P}{name}:mail", 0, -1, withscores=True)
        assert (decode(payload), score) == (delayed, LATER)

    def test_a_unique_key_is_a_string_under_its_name(self, store, raw):
        store.add([holder := job(unique=a_key("vtasks:unique:app.tasks.add:00"))])
        assert raw.get(P + "unique:vtasks:unique:app.tasks.add:00").decode() == holder.id
        assert raw.ttl(P + "unique:vtasks:unique:app.tasks.add:00") == -1

    def test_the_key_of_a_window_expires_with_it(self, store, raw):
        store.add([job(unique=a_key("k", UniqueMode.WINDOW, window=30))])
        assert 28_000 < raw.pttl(P + "unique:k") <= 30_000

    async def test_dead_letters_are_pushed_left_with_the_fields_of_the_old_line(self, store, worker, raw):
        store.add([first := job(), second := job()])
        failure = a_failure("boom " * 300)
        await run_all(worker, outcome=Raised(failure=failure))
        letters = raw.lrange(P + "q:failed", 0, -1)
        assert [decode_letter(item).id for item in letters] == [second.id, first.id]
        assert letters[0].startswith(b"zstd:")
        fields = orjson.loads(zstd.decompress(letters[0].removeprefix(b"zstd:")))
        assert (fields["error_msg"], fields["error_traceback"]) == (failure.message, failure.traceback)
        assert abs(fields["failed_at"] - time.time()) < 60

    async def test_the_last_run_of_a_schedule_entry_is_decimal_text(self, worker, raw):
        firing = Firing(entry="tick", slot=1700000000.25, expected=None, job=job())
        await worker.fire(firing)
        assert raw.get(P + "scheduler:vtasks_last_run:tick") == b"1700000000.25"
        assert raw.ttl(P + "scheduler:vtasks_last_run:tick") == -1

    async def test_a_role_is_a_lock_of_the_old_line(self, worker, raw):
        assert await worker.hold("vtasks_scheduler_lock", "us", 15)
        assert raw.get(P + "scheduler:vtasks_scheduler_lock") == b"us"
        assert 13_000 < raw.pttl(P + "scheduler:vtasks_scheduler_lock") <= 15_000

    async def test_a_lock_of_the_old_line_is_respected_until_it_ends(self, worker, raw):
        raw.set(P + "scheduler:vtasks_scheduler_lock", "old-host-1", ex=15)
        assert not await worker.hold("vtasks_scheduler_lock", "us", 15)
        raw.delete(P + "scheduler:vtasks_scheduler_lock")
        assert await worker.hold("vtasks_scheduler_lock", "us", 15)

    async def test_nothing_of_ours_is_under_a_name_of_the_old_line(self, store, worker, raw):
        store.add([job(), job(priority=5), job(priority=-5, unique=a_key()), job(run_after=LATER)])
        await claim(worker)
        public = ("q:", "sched:", "schedh:", "unique:", "processing:", "alive:", "scheduler:")
        lines = {key.decode().removeprefix(P) for key in raw.scan_iter()}
        assert {key for key in lines if key.startswith(public)} == {"unique:key", "sched:default"}


class TestForeignProducers:
    @pytest.mark.parametrize("pack", [lambda payload: payload, compressed], ids=["plain", "compressed"])
    async def test_a_bare_push_runs(self, worker, raw, store, pack):
        raw.lpush(P + "q:default", pack(foreign(args=["x" * 2000])))
        [done] = await run_all(worker)
        assert (done.id, done.args, done.run_after) == ("Abc" + "0" * 29, ["x" * 2000], None)
        assert store.get(done.id).state is JobState.SUCCEEDED

    async def test_a_push_to_the_right_goes_first(self, worker, store, raw):
        store.add([ours := job()])
        raw.rpush(P + "q:default", foreign(priority=9))
        assert [one.id for one in await run_all(worker)] == ["Abc" + "0" * 29, ours.id]

    async def test_the_same_bytes_twice_run_twice(self, worker, raw):
        raw.lpush(P + "q:default", *[foreign()] * 3)
        claims = (await claim(worker)).claims
        assert len({one.lease.token for one in claims}) == 3
        assert len(await worker.held("alpha")) == 3
        now = await worker.now()
        done = [settled(one, LeaseExpired(owner="alpha"), ONE_ATTEMPT, now) for one in claims]
        assert not (await worker.exchange(done, None)).refused

    @pytest.mark.parametrize("payload", ["a job", "garbage"])
    async def test_the_same_bytes_claimed_one_by_one_are_two_claims(self, worker, raw, payload):
        raw.lpush(P + "q:default", *[foreign() if payload == "a job" else payload] * 2)
        tokens = {(await claim(worker, slots=1)).claims[0].lease.token for _ in range(2)}
        assert {one.lease.token for one in await worker.held("alpha")} == tokens
        assert len(tokens) == 2
        assert sum("#" in token for token in tokens) == (2 if payload == "garbage" else 1)

    async def test_a_job_without_an_id_keeps_the_one_it_is_given(self, worker, raw):
        fields = orjson.loads(foreign())
        del fields["id"]
        raw.lpush(P + "q:default", orjson.dumps(fields))
        [one] = (await claim(worker)).claims
        [again] = await worker.held("alpha")
        assert len(one.job.id) == 32
        assert (again.job.id, again.lease) == (one.job.id, one.lease)

    @pytest.mark.parametrize(("name", "priority"), [("sched", 0), ("schedh", 7), ("schedh", 0)])
    async def test_delayed_jobs_are_promoted_when_due(self, worker, raw, name, priority):
        raw.zadd(f"{P}{name}:mail", {foreign(priority=priority): time.time() - 1, foreign(id="later"): LATER})
        worker.extend("alpha", 60)
        assert not await worker.wait_for_jobs(["mail"], 0)
        pulse = await worker.pulse("alpha", 100)
        assert (pulse.promoted, pulse.next_due_in > 1e6) == (1, True)
        assert await worker.wait_for_jobs(["mail"], 0)
        assert [one.id for one in await run_all(worker, "mail")] == ["Abc" + "0" * 29]

    @pytest.mark.parametrize("garbage", [b"\xff\xfe", b"zstd:broken", b"[1]", b"{}"], ids=str)
    async def test_garbage_in_a_delayed_set_becomes_a_dead_letter(self, worker, raw, admin, garbage):
        raw.zadd(P + "sched:mail", {garbage: 1})
        raw.zadd(P + "schedh:mail", {foreign(): 1})
        worker.extend("alpha", 60)
        await worker.wait_for_jobs(["mail"], 0)
        assert (await worker.pulse("alpha", 100)).promoted == 2
        assert len(await run_all(worker, "mail")) == 2
        [letter] = [record.letter for record in admin.page(JobFilter(state=JobState.DEAD)).records]
        assert (letter.raw, letter.reason, letter.queue) == (garbage, DeadReason.UNDECODABLE, "mail")

    async def test_a_lock_of_an_old_producer_excludes_ours_and_ends_with_its_job(self, worker, store, raw):
        raw.set(P + "unique:k", "1")
        raw.lpush(P + "q:default", foreign(unique=True, unique_key="k"))
        [answer] = store.add([job(unique=a_key("k"))])
        assert (answer.status, answer.job_id) == ("duplicate", None)
        await run_all(worker)
        assert store.add([job(unique=a_key("k"))])[0].status == "added"

    async def test_a_lock_whose_job_vanished_holds_nobody_up(self, store, raw):
        """As when a 3.2 worker lost the job: the record says who had the key."""
        store.add([lost := job(unique=a_key("k"))])
        raw.delete(P + "q:default", P + "job:" + lost.id)
        assert store.add([job(unique=a_key("k"))])[0].status == "added"


class TestWhatOldWorkersLeave:
    async def expire(self, worker, policy: Policy = ONE_ATTEMPT) -> list:
        claims = await worker.expired(100)
        now = await worker.now()
        done = [settled(one, LeaseExpired(owner=one.lease.owner), policy, now, reclaim=True) for one in claims]
        return [one for one in done if one.claim.lease.token not in (await worker.exchange([one], None)).refused]

    async def test_a_dead_workers_jobs_are_adopted_oldest_first(self, worker, raw):
        raw.lpush(P + "processing:gone-1", foreign(id="a", max_rescues=1), foreign(id="b", max_rescues=1))
        assert len(await self.expire(worker)) == 2
        assert not raw.exists(P + "processing:gone-1")
        adopted = await run_all(worker)
        assert [one.id for one in adopted] == ["b", "a"]
        assert [one.rescue_count for one in adopted] == [1, 1]

    async def test_a_job_rescued_too_often_is_buried_and_gives_its_key_back(self, worker, raw, admin):
        raw.set(P + "unique:k", "1")
        raw.lpush(P + "processing:gone-1", foreign(unique=True, unique_key="k"))
        await self.expire(worker)
        [record] = admin.page(JobFilter(state=JobState.DEAD)).records
        assert (record.letter.reason, raw.exists(P + "unique:k")) == (DeadReason.RESCUED_TOO_OFTEN, 0)

    async def test_a_live_workers_jobs_are_left_alone(self, worker, raw):
        raw.lpush(P + "processing:here-1", foreign())
        raw.set(P + "alive:here-1", "here-1", ex=15)
        assert await worker.expired(100) == ()
        assert raw.llen(P + "processing:here-1") == 1

    async def test_a_worker_that_comes_back_in_time_keeps_its_jobs(self, worker, raw):
        raw.lpush(P + "processing:back-1", foreign())
        claims = await worker.expired(100)
        raw.set(P + "alive:back-1", "back-1", ex=15)
        now = await worker.now()
        done = [settled(one, LeaseExpired(owner=one.lease.owner), ONE_ATTEMPT, now, reclaim=True) for one in claims]
        assert (await worker.exchange(done, None)).refused == {claims[0].lease.token}
        assert raw.llen(P + "processing:back-1") == 1

    async def test_two_rescuers_adopt_each_job_once(self, worker, raw, keyvalue_server):
        other = ValkeyWorkerStore(options(keyvalue_server))
        raw.lpush(P + "processing:gone-1", *[foreign(id=str(n), max_rescues=1) for n in range(20)])
        now = await worker.now()
        for rescuer in (worker, other, worker):
            claims = await rescuer.expired(15)
            done = [settled(one, LeaseExpired(owner="x"), ONE_ATTEMPT, now, reclaim=True) for one in claims]
            await rescuer.exchange(done, None)
            await other.exchange(done, None)
        assert sorted(int(one.id) for one in await run_all(worker)) == list(range(20))
        await other.close()

    async def test_garbage_in_a_dead_workers_list_becomes_a_dead_letter(self, worker, raw, admin):
        raw.lpush(P + "processing:gone-1", b"\xff", foreign(max_rescues=1), b"zstd:x")
        await self.expire(worker)
        letters = [record.letter.raw for record in admin.page(JobFilter(state=JobState.DEAD)).records]
        assert sorted(letters) == [b"zstd:x", b"\xff"]
        assert len(await run_all(worker)) == 1

    async def test_the_walk_through_many_keys_goes_on_where_it_stood(self, worker, raw):
        raw.mset({f"{P}filler:{number}": "" for number in range(30_000)})
        raw.lpush(P + "processing:gone-1", foreign())
        found = []
        for _ in range(5):
            found = found or await worker.expired(100)
        assert [one.job.id for one in found] == ["Abc" + "0" * 29]

    def test_old_letters_are_seen_and_redriven(self, admin, raw):
        letter = foreign(error_msg="boom", error_traceback="tb", failed_at=1700000001.0)
        raw.lpush(P + "q:failed", letter, compressed(foreign(id="b", error_msg="Exceeded max_rescues (0)")))
        records = admin.page(JobFilter(state=JobState.DEAD)).records
        assert [record.letter.failure.message for record in records] == ["Exceeded max_rescues (0)", "boom"]
        answers = admin.redrive(["Abc" + "0" * 29, "b", "c"], Redrive())
        assert [answer.status for answer in answers] == ["added", "added", "duplicate"]
        assert (raw.llen(P + "q:failed"), raw.llen(P + "q:default")) == (0, 2)


class TestRollback:
    async def test_jobs_of_all_priorities_move_to_where_the_old_line_looks_in_order(self, store, admin, raw, worker):
        priorities = [0, 5, -3, 5, 100, 0, -100, -3]
        jobs = [job(priority=priority) for priority in priorities]
        store.add(jobs)
        assert admin.level_priorities() == 6
        in_order = sorted(jobs, key=lambda one: -one.priority)
        assert [decode(item) for item in raw.lrange(P + "q:default", 0, -1)] == in_order[::-1]
        assert not raw.exists(P + "prio:default")
        assert [one.id for one in await run_all(worker)] == [one.id for one in in_order]

    async def test_what_an_old_worker_promoted_or_ran_is_no_problem(self, store, raw, worker):
        store.add([high := job(priority=3, run_after=LATER), ran := job()])
        [payload] = raw.zrange(P + "schedh:default", 0, -1)
        raw.zrem(P + "schedh:default", payload)
        raw.rpush(P + "q:default", payload)
        raw.lrem(P + "q:default", 1, raw.lindex(P + "q:default", 0))
        assert store.cancel(high.id) == "cancelled"
        assert store.get(high.id).state is JobState.DEAD
        assert store.get(ran.id).state is JobState.READY
        assert (await worker.exchange([], wanted())).claims == ()

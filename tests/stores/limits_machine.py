"""Random operations on a store whose jobs have limits: never above one, never stuck below one, drained in the end.

What a store chooses is its own affair; it is judged by what it handed out. Calls fail now and then, before they took
effect or after it, as for `tests.stores.stateful`.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from django_vtasks.jobs.errors import StoreUnavailable
from django_vtasks.jobs.limits import JobLimit
from django_vtasks.jobs.model import Claim, Job, JobState
from django_vtasks.jobs.outcomes import Interrupted, LeaseExpired, Outcome, Snoozed, Succeeded, Untouched
from django_vtasks.jobs.transitions import Policy
from django_vtasks.stores.base import ClaimRequest, Retention, Want
from tests.stores.bench import Bench
from tests.stores.stateful import run_machine
from tests.support.builders import a_job, raised, settled
from tests.support.flaky import FlakyStore

QUEUES = ("left", "right")
OWNERS = ("alpha", "beta")
POLICY = Policy(max_attempts=100, result_ttl=600.0)
WAIT = 5.25
"""Seconds between two starts of a rate; odd parts, so that no moments coincide while the clock moves by whole ones."""
BLUR = 0.01
"""Seconds by which a store may round a moment."""
ROUNDS = 6
"""Claims after which a store must have handed out all that may start."""

ONE = JobLimit(concurrency_key="one", count=1)
LIMITS = [
    None,
    ONE,
    ONE,
    JobLimit(concurrency_key="two", count=2),
    JobLimit(rate_key="paced", interval=WAIT, burst=2),
    JobLimit(concurrency_key="two", count=2, rate_key="paced", interval=WAIT, burst=2),
    JobLimit(concurrency_key="one", count=1, rate_key="slow", interval=2 * WAIT),
]
OUTCOMES: list[Outcome] = [
    *(Succeeded(value=b"1"), Succeeded(value=b"1"), Succeeded(value=b"1")),
    *(raised("at once", delay=0.0), raised("later", delay=3.5), Snoozed(delay=4.5), Interrupted(), Untouched()),
]
OFTEN = {"add": 4, "claim": 4, "settle": 5, "wait": 3, "claim_all": 2, "rescue": 2}
NOW_AND_THEN = ("pulse", "cancel", "release", "purge")

operations = st.sampled_from([*(name for name, weight in OFTEN.items() for _ in range(weight)), *NOW_AND_THEN])
crashes = st.sampled_from([None, None, None, "before", "after"])
kinds = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "priority": st.sampled_from([0, 0, 0, -1, 7]),
        "limit": st.sampled_from(LIMITS),
    }
)


class LimitsMachine(RuleBasedStateMachine):
    """Drives one store; `open_bench` gives an empty one. `waiting` has not ended, `in_hand` is leased, by job id."""

    open_bench: ClassVar[Callable[[], Awaitable[Bench]]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.bench: Bench = self.run(type(self).open_bench())
        self.worker = FlakyStore(self.bench.worker)
        self.waiting: dict[str, Job] = {}
        self.in_hand: dict[str, Claim] = {}
        self.starts: dict[str, list[float]] = {"paced": [], "slow": []}
        self.numbers = itertools.count(1)

    def run(self, awaitable: Awaitable[Any]) -> Any:
        async def wrapped() -> Any:
            return await awaitable

        return self.runner.run(wrapped())

    @initialize()
    def workers_start(self) -> None:
        self.run(self.bench.live(*OWNERS))

    @rule(data=st.data(), operation=operations)
    def step(self, data: Any, operation: str) -> None:
        self.data = data
        getattr(self, operation)()

    @invariant()
    def no_limit_is_passed(self) -> None:
        for limit in filter(None, LIMITS):
            assert self.holders(limit) <= (limit.count or len(self.in_hand)), limit.concurrency_key
        for limit in LIMITS[-3:]:
            assert list(too_early(limit, self.starts[limit.rate_key])) == [], limit.rate_key

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            self.run(self.bench.close())
            self.runner.close()

    def draw(self, options: Sequence[Any]) -> Any:
        return self.data.draw(st.sampled_from(list(options)))

    # --- operations ----------------------------------------------------------------------------------------------

    def add(self) -> None:
        now = self.bench.clock()
        for kind in self.data.draw(st.lists(kinds, min_size=1, max_size=6)):
            job = a_job(id=str(uuid.UUID(int=next(self.numbers))), enqueued_at=now, max_rescues=1000, **kind)
            self.run(self.bench.add_all([job]))
            self.waiting[job.id] = job

    def claim(self) -> None:
        owner = self.draw(OWNERS)
        self.run(self.bench.live(owner))
        self.exchange([], request(owner, self.draw([4, 2, 1]), self.draw([6, 3, 1])))

    def claim_all(self) -> None:
        """Whatever is ready after that has a limit that keeps it from starting."""
        self.run(self.bench.live(*OWNERS))
        self.run(self.bench.pulse())
        for _ in range(ROUNDS):
            self.exchange([], request(self.draw(OWNERS), 50, 100), may_fail=False)
        for job_id, job in self.waiting.items():
            if job_id not in self.in_hand and self.run(self.bench.state(job_id)) is JobState.READY:
                assert self.is_blocked(job), f"{job.limit} could start at {self.bench.clock()}: {self.starts}"

    def settle(self) -> None:
        if not self.in_hand:
            return self.claim()
        some = st.lists(st.sampled_from(list(self.in_hand)), min_size=1, max_size=5, unique=True)
        ended = [(self.in_hand[job_id], self.draw(OUTCOMES)) for job_id in self.data.draw(some)]
        return self.exchange(ended, self.draw([None, request(OWNERS[0], 2, 3)]))

    def wait(self) -> None:
        self.run(self.bench.advance(self.draw([1, 2, 6, 20])))
        self.run(self.bench.live(*self.draw([OWNERS, OWNERS, OWNERS[:1]])))

    def release(self) -> None:
        self.run(self.bench.leases.release(self.draw(OWNERS)))

    def rescue(self) -> None:
        for claim in self.run(self.bench.worker.expired(1000)):
            self.end(claim, LeaseExpired(owner=claim.lease.owner), reclaim=True)

    def pulse(self) -> None:
        self.run(self.bench.pulse(self.draw(OWNERS)))

    def cancel(self) -> None:
        idle = [job_id for job_id in self.waiting if job_id not in self.in_hand]
        if idle and self.run(self.bench.client.acancel(job_id := self.draw(idle))):
            del self.waiting[job_id]

    def purge(self) -> None:
        self.run(self.bench.worker.purge(Retention(dead_letter_cap=1000, dead_letter_age=None), 1000))

    # --- one round -----------------------------------------------------------------------------------------------

    def exchange(
        self, ended: Sequence[tuple[Claim, Outcome]], asked: ClaimRequest | None, *, may_fail: bool = True
    ) -> None:
        crash = self.data.draw(crashes) if may_fail else None
        if crash:
            getattr(self.worker, f"fail_{crash}")("exchange")
        writes = [settled(claim, outcome, POLICY, self.bench.clock()) for claim, outcome in ended]
        try:
            answer = self.run(self.worker.exchange(writes, asked))
            claims = answer.claims
            assert not answer.refused
        except StoreUnavailable:
            if crash == "before":
                return
            claims = [] if asked is None else self.claims_unheard_of(asked.owner)
        for claim, outcome in ended:
            self.ended(claim, outcome)
        for claim in claims:
            self.took(claim)

    def claims_unheard_of(self, owner: str) -> list[Claim]:
        known = {claim.lease.token + claim.lease.job_id for claim in self.in_hand.values()}
        held = self.run(self.bench.worker.held(owner))
        return [claim for claim in held if claim.lease.token + claim.lease.job_id not in known]

    def took(self, claim: Claim) -> None:
        assert claim.lease.job_id not in self.in_hand
        self.in_hand[claim.lease.job_id] = claim
        limit = self.waiting[claim.lease.job_id].limit
        if limit and limit.rate_key:
            self.starts[limit.rate_key].append(claim.started_at)

    def end(self, claim: Claim, outcome: Outcome, *, reclaim: bool = False) -> None:
        assert self.run(self.bench.settle(claim, outcome, POLICY, reclaim=reclaim))
        self.ended(claim, outcome)

    def ended(self, claim: Claim, outcome: Outcome) -> None:
        del self.in_hand[claim.lease.job_id]
        if isinstance(outcome, Succeeded):
            del self.waiting[claim.lease.job_id]

    # --- judging -------------------------------------------------------------------------------------------------

    def holders(self, limit: JobLimit) -> int:
        keys = Counter(job.limit.concurrency_key for job in map(self.waiting.get, self.in_hand) if job and job.limit)
        return keys[limit.concurrency_key] if limit.concurrency_key else 0

    def is_blocked(self, job: Job) -> bool:
        limit = job.limit
        if limit is None:
            return False
        if limit.concurrency_key and self.holders(limit) >= limit.count:
            return True
        return bool(limit.rate_key) and bool(
            list(too_early(limit, [*self.starts[limit.rate_key], self.bench.clock() - BLUR]))
        )

    def drain(self) -> None:
        """Everything gets its turn, and leaves nothing behind."""
        for _ in range(2 * len(self.waiting) + ROUNDS):
            if not self.waiting:
                break
            self.run(self.bench.live(*OWNERS))
            self.run(self.bench.pulse())
            for owner in OWNERS:
                for claim in self.run(self.worker.exchange([], request(owner, 50, 100))).claims:
                    self.took(claim)
            self.no_limit_is_passed()
            for claim in list(self.in_hand.values()):
                self.end(claim, Succeeded(value=b"1"))
            self.run(self.bench.advance(2 * WAIT + 0.5))
        assert self.waiting == {}, {job_id: self.run(self.bench.state(job_id)) for job_id in self.waiting}
        for counts in self.run(self.bench.admin.counts()):
            assert (counts.ready, counts.scheduled, counts.leased) == (0, 0, 0)


def request(owner: str, slots: int, limit: int) -> ClaimRequest:
    return ClaimRequest(owner=owner, wants=tuple(Want(queue=queue, slots=slots) for queue in QUEUES), limit=limit)


def too_early(limit: JobLimit, starts: Sequence[float]) -> Iterator[str]:
    """Starts that the rate does not allow: each has its place in line, and may come `burst - 1` places before it."""
    arrival = float("-inf")
    for before, start in pairwise([float("-inf"), *sorted(starts)]):
        due = max(start, arrival)
        if due - start > (limit.burst - 1) * limit.interval + BLUR:
            yield f"{start} after {before}"
        arrival = due + limit.interval


def check_limits(open_bench: Callable[[], Awaitable[Bench]], *, examples: int) -> None:
    """Run the machine on a store. `open_bench` gives an empty one each time."""
    run_machine(LimitsMachine, open_bench, examples=examples)

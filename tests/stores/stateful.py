"""Random operations on a store and on the memory model: after each, both must say the same.

Calls of the store fail now and then, before they took effect or after it (the write landed, the reply was lost), and
are made again as a client or a worker makes them again.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from django_vtasks.jobs.model import Claim, Job, JobState, Progress, UniqueMode
from django_vtasks.jobs.outcomes import Discarded, Interrupted, LeaseExpired, Outcome, Snoozed, Succeeded, Untouched
from django_vtasks.jobs.transitions import Policy, Settlement
from django_vtasks.stores.base import Added, ClaimRequest, Exchange, Firing, JobFilter, Redrive, Retention, Want
from tests.stores.bench import Bench
from tests.stores.twins import LOST, Pair, Twins, described_job
from tests.support.builders import a_failure, a_job, a_key, raised, settled

EXAMPLES = int(os.environ.get("VTASKS_STATEFUL_EXAMPLES", "0"))
"""Runs per store; 0 = as many as its test finds right for every day."""

STEPS = int(os.environ.get("VTASKS_STATEFUL_STEPS", "50"))

QUEUES = ("left", "right")
OWNERS = ("alpha", "beta")

# Odd parts of a second, so that no two moments coincide while the clock moves by whole seconds.
LEASE, RESULT_TTL, WINDOW, DEBOUNCE_LIMIT, LETTER_AGE, ROLE = 15.5, 30.5, 10.5, 12.75, 40.5, 7.5
POLICIES = [Policy(max_attempts=3, result_ttl=ttl) for ttl in (RESULT_TTL, RESULT_TTL, 0.0)]

UNIQUES = [
    *(None, None, None, None),
    a_key("k", UniqueMode.UNTIL_DONE),
    a_key("m", UniqueMode.UNTIL_DONE),
    a_key("k", UniqueMode.UNTIL_STARTED),
    a_key("k", UniqueMode.WINDOW, WINDOW),
    a_key("m", UniqueMode.DEBOUNCE, DEBOUNCE_LIMIT),
    a_key("m", UniqueMode.DEBOUNCE),
]
OUTCOMES: list[Outcome] = [
    Succeeded(value=b'"done"'),
    Succeeded(value=b'"done too"'),
    Discarded(failure=a_failure("unwanted")),
    raised("final"),
    raised("final too"),
    raised("again at once", delay=0.0),
    raised("again later", delay=5.25),
    Snoozed(delay=4.25),
    Interrupted(),
    Untouched(),
]
OFTEN = {"add": 5, "claim": 5, "settle": 6, "pulse": 3, "wait": 3, "rescue": 2}
NOW_AND_THEN = (
    *("cancel", "settle_again", "progress", "release", "pause", "resume", "redrive", "delete"),
    *("hasten", "purge", "hold", "fire"),
)

operations = st.sampled_from([*(name for name, weight in OFTEN.items() for _ in range(weight)), *NOW_AND_THEN])
crashes = st.sampled_from([None, None, None, "before", "after"])
kinds = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(QUEUES),
        "priority": st.sampled_from([0, 0, 0, -1, 7]),
        "delay": st.sampled_from([None, None, 3.25, 8.25]),
        "unique": st.sampled_from(UNIQUES),
        "max_rescues": st.sampled_from([0, 1]),
        "result_ttl": st.sampled_from([None, None, 0.0]),
    }
)


class StoreMachine(RuleBasedStateMachine):
    """Drives one store; `open_bench` gives an empty one. Each step is one of the methods named above."""

    open_bench: ClassVar[Callable[[], Awaitable[Bench]]]

    def __init__(self) -> None:
        super().__init__()
        self.twins = Twins(type(self).open_bench)
        self.bench, self.model = self.twins.bench, self.twins.model
        self.jobs: dict[str, Job] = {}
        self.in_hand: dict[str, Pair] = {}
        self.over: list[Pair] = []
        self.came: dict[str, int] = {}
        self.numbers = itertools.count(1)
        self.front = 0
        self.policy = POLICIES[0]

    @initialize()
    def workers_start(self) -> None:
        for owner in OWNERS:
            self.twins.extend(owner, LEASE)

    @rule(data=st.data(), operation=operations)
    def step(self, data: Any, operation: str) -> None:
        self.draw = lambda options: data.draw(st.sampled_from(list(options)))
        self.data = data
        getattr(self, operation)()

    @invariant()
    def places_agree(self) -> None:
        """Invariant 1."""
        self.twins.compare_places()

    def teardown(self) -> None:
        try:
            self.compare(self.jobs)
            self.twins.compare_holders(OWNERS)
            self.twins.compare_letters()
        finally:
            self.twins.close()

    # --- the application -----------------------------------------------------------------------------------------

    def add(self) -> None:
        """Several jobs in one call, now and then one that is known already."""
        jobs = [self.new_job(kind) for kind in self.data.draw(st.lists(kinds, min_size=1, max_size=4))]
        known = [job_id for job_id in self.listed() if self.model.get(job_id)]
        if known and self.draw([False, False, True]):
            jobs.append(self.jobs[self.draw(known)])
        repeatable = all(map(is_listed, jobs))
        crash = self.data.draw(crashes) if repeatable else None
        expected, answers = self.twins.ask_both(self.twins.client, "aadd", jobs, crash=crash)
        assert answers == expected
        for job, answer in zip(jobs, answers, strict=True):
            self.note(job, answer)
        self.compare([job.id for job in jobs])

    def listed(self) -> list[str]:
        """The jobs that a store knows by id while they wait."""
        return [job_id for job_id, job in self.jobs.items() if is_listed(job)]

    def compare(self, job_ids: Iterable[str]) -> None:
        self.twins.compare_jobs(
            [job_id for job_id in job_ids if job_id not in self.jobs or is_listed(self.jobs[job_id])]
        )

    def new_id(self) -> str:
        """An id that every store takes, the same in every run."""
        return str(uuid.UUID(int=next(self.numbers)))

    def new_job(self, kind: dict[str, Any]) -> Job:
        now, delay = self.bench.clock(), kind["delay"]
        values = {name: value for name, value in kind.items() if name != "delay"}
        run_after = None if delay is None else now + delay
        return a_job(id=self.new_id(), args=[next(self.numbers)], enqueued_at=now, run_after=run_after, **values)

    def note(self, job: Job, answer: Added) -> None:
        if answer.status == "added" and job.run_after is None and job.id not in self.jobs:
            self.came[job.id] = job.args[0]
        if answer.status == "replaced" and answer.job_id:
            self.came.pop(answer.job_id, None)
        self.jobs[job.id] = job

    def cancel(self) -> None:
        job_id, crash = self.draw([*self.listed(), self.new_id()]), self.draw([None, "before"])
        expected, answer = self.twins.ask_both(self.twins.client, "acancel", job_id, crash=crash)
        assert answer == expected
        self.compare([job_id])

    # --- the worker ----------------------------------------------------------------------------------------------

    def claim(self) -> None:
        owner = self.draw(OWNERS)
        if self.draw([True, True, True, False]):
            self.twins.extend(owner, LEASE)
        wants = tuple(Want(queue=queue, slots=self.draw([4, 2, 1, 0])) for queue in QUEUES)
        self.exchange([], ClaimRequest(owner=owner, wants=wants, limit=self.draw([6, 3, 1])))

    def settle(self) -> None:
        if not self.in_hand:
            return self.claim()
        some = st.lists(st.sampled_from(list(self.in_hand)), min_size=1, max_size=5, unique=True)
        ended = [(self.in_hand[job_id], self.draw(OUTCOMES)) for job_id in self.data.draw(some)]
        self.policy = self.draw(POLICIES)
        wants = tuple(Want(queue=queue, slots=1) for queue in QUEUES)
        self.exchange(ended, self.draw([None, ClaimRequest(owner=OWNERS[0], wants=wants, limit=2)]))
        return self.compare([pair.job_id for pair, _ in ended])

    def exchange(self, ended: Sequence[tuple[Pair, Outcome]], request: ClaimRequest | None) -> None:
        """One round of a worker; when its reply is lost, it settles once more and looks what it holds."""
        before = {pair.store.lease.token for pair in self.in_hand.values()}
        writes = [self.written(pair.store, outcome) for pair, outcome in ended]
        crash = self.data.draw(crashes)
        answer = self.twins.ask(self.twins.worker, "exchange", writes, request, crash=crash)
        if crash == "before":
            return
        self.follow_settlements(ended, answer)
        self.follow_claims(request, self.claims_of(request, before) if answer is LOST else answer.claims)
        if answer is LOST and writes:
            again = self.twins.ask(self.twins.worker, "exchange", writes, None)
            assert again.refused == {write.claim.lease.token for write in writes}

    def claims_of(self, request: ClaimRequest | None, before: set[str]) -> list[Claim]:
        held = self.twins.run(self.bench.worker.held(request.owner)) if request else ()
        new = {claim.lease.job_id: claim for claim in held if claim.lease.token not in before}
        return [new[job_id] for job_id in self.in_order(new)]

    def in_order(self, job_ids: Iterable[str]) -> list[str]:
        """In the order in which the jobs came, whatever order the store told them in."""
        return [job_id for job_id in self.jobs if job_id in set(job_ids)]

    def follow_settlements(self, ended: Sequence[tuple[Pair, Outcome]], answer: Exchange | Any) -> None:
        writes = [self.written(pair.model, outcome) for pair, outcome in ended]
        expected = self.twins.ask_model("exchange", writes, None)
        assert not expected.refused
        if answer is not LOST:
            assert (answer.refused, answer.evicted) == (frozenset(), expected.evicted)
        for pair, _ in ended:
            self.over.append(self.in_hand.pop(pair.job_id))

    def follow_claims(self, request: ClaimRequest | None, claims: Sequence[Claim]) -> None:
        for queue in QUEUES:
            self.twins.compare_order(queue, claims, self.came)
        self.front -= len(claims)
        self.twins.prefer(claims, self.front)
        taken = {claim.lease.job_id: claim for claim in self.twins.ask_model("exchange", [], request).claims}
        assert sorted(taken) == sorted(claim.lease.job_id for claim in claims)
        for claim in claims:
            self.take(Pair(model=taken[claim.lease.job_id], store=claim))

    def take(self, pair: Pair) -> None:
        assert described_job(pair.store.job) == described_job(pair.model.job)
        assert pair.store.lease.owner == pair.model.lease.owner
        assert abs(pair.store.started_at - pair.model.started_at) < 0.01
        self.in_hand[pair.job_id] = pair
        self.came.pop(pair.job_id, None)

    def written(self, claim: Claim, outcome: Outcome, *, reclaim: bool = False) -> Settlement:
        return settled(claim, outcome, self.policy, self.bench.clock(), reclaim=reclaim)

    def settle_again(self) -> None:
        """Invariant 2: what was settled or reclaimed is settled by nobody else."""
        if not self.over:
            return
        pair = self.draw(self.over)
        answer = self.twins.run(self.bench.worker.exchange([self.written(pair.store, self.draw(OUTCOMES))], None))
        assert answer.refused == {pair.store.lease.token}
        self.compare([pair.job_id])

    def pulse(self) -> None:
        expected, answer = self.twins.ask_both(
            self.twins.worker, "pulse", owner := self.draw(OWNERS), 1000, crash=self.draw([None, None, "before"])
        )
        tokens = {pair.store.lease.token: pair.model.lease.token for pair in self.in_hand.values()}
        assert {tokens[token] for token in answer.cancelled} == expected.cancelled, owner
        assert (answer.promoted, answer.paused) == (expected.promoted, expected.paused)
        assert (answer.next_due_in is None) == (expected.next_due_in is None)
        assert abs((answer.next_due_in or 0) - (expected.next_due_in or 0)) < 0.01

    def progress(self) -> None:
        pairs = [*self.in_hand.values(), *self.over[-5:]]
        if not pairs:
            return
        pair, done = self.draw(pairs), self.draw(range(9))
        told = (self.draw([None, Progress(done=done, total=10)]), self.draw([None, {"step": done}]))
        answer = self.twins.run(self.bench.worker.progress(pair.store.lease, *told))
        assert answer == self.twins.ask_model("progress", pair.model.lease, *told)
        self.compare([pair.job_id])

    # --- leases and time -----------------------------------------------------------------------------------------

    def wait(self) -> None:
        """Time passes; most workers live on."""
        self.twins.run(self.bench.advance(self.draw([1, 4, 9, 20])))
        for owner in self.draw([OWNERS, OWNERS, OWNERS[:1], ()]):
            self.twins.extend(owner, LEASE)

    def release(self) -> None:
        self.twins.release(owner := self.draw(OWNERS))
        if self.draw([True, False]):
            self.twins.extend(owner, LEASE)

    def rescue(self) -> None:
        """Invariant 3: what an expired lease covered is reclaimed, unless its owner came back in time."""
        found = {claim.lease.job_id: claim for claim in self.twins.run(self.bench.worker.expired(1000))}
        modelled = {claim.lease.job_id: claim for claim in self.twins.ask_model("expired", 1000)}
        assert set(found) == set(modelled)
        if self.draw([False, False, True]):
            self.twins.extend(OWNERS[0], LEASE)
        for job_id in self.in_order(found):
            self.reclaim(Pair(model=modelled[job_id], store=found[job_id]))
        self.compare(list(found))

    def reclaim(self, pair: Pair) -> None:
        outcome = LeaseExpired(owner=pair.store.lease.owner)
        write = self.written(pair.store, outcome, reclaim=True)
        answer = self.twins.ask(self.twins.worker, "exchange", [write], None, crash=(crash := self.data.draw(crashes)))
        if crash == "before":
            answer = self.twins.ask(self.twins.worker, "exchange", [write], None)
        expected = self.twins.ask_model("exchange", [self.written(pair.model, outcome, reclaim=True)], None)
        if answer is not LOST:
            assert (bool(answer.refused), answer.evicted) == (bool(expected.refused), expected.evicted)
        if not expected.refused:
            self.over.append(self.in_hand.pop(pair.job_id))

    def hold(self) -> None:
        owner = self.draw(OWNERS)
        answer = self.twins.run(self.bench.worker.hold("role", owner, ROLE))
        assert answer == self.twins.ask_model("hold", "role", owner, ROLE)

    def fire(self) -> None:
        known = self.twins.ask_model("last_slots", ["entry"]).get("entry")
        job = self.new_job(self.data.draw(kinds))
        firing = Firing(
            entry="entry",
            slot=self.bench.clock(),
            expected=self.draw([known, known, None]),
            job=self.draw([job, job, None]),
        )
        answer = self.twins.run(self.bench.worker.fire(firing))
        assert answer == self.twins.ask_model("fire", firing)
        if answer and firing.job:
            self.note(job, answer)

    # --- operators and upkeep ------------------------------------------------------------------------------------

    def pause(self) -> None:
        queue = self.draw(QUEUES)
        self.twins.run(self.bench.admin.pause(queue))
        self.model.pause(queue)

    def resume(self) -> None:
        for queue in QUEUES:
            self.twins.run(self.bench.admin.resume(queue))
            self.model.resume(queue)

    def redrive(self) -> None:
        letter_id = self.draw([*self.model._state.letters, self.new_id()])
        changes = Redrive(delays=[self.draw([0.0, 6.25])])
        [answer] = self.twins.run(self.bench.admin.redrive([letter_id], changes))
        self.model._state.new_id = lambda: answer.job_id if answer.status == "added" else "not used"
        assert [answer] == self.model.redrive([letter_id], changes)
        if answer.status == "added":
            self.jobs[answer.job_id] = self.model.get(answer.job_id).job
        self.compare([letter_id, answer.job_id or letter_id])

    def delete(self) -> None:
        which = JobFilter(state=self.draw(JobState), queue=self.draw(QUEUES))
        assert self.twins.run(self.bench.admin.delete(which)) == self.model.delete(which)

    def hasten(self) -> None:
        job_ids = self.data.draw(st.lists(st.sampled_from([*self.listed(), self.new_id()]), max_size=3, unique=True))
        assert self.twins.run(self.bench.admin.hasten(job_ids)) == self.model.hasten(job_ids)
        self.compare(job_ids)

    def purge(self) -> None:
        retention = Retention(
            dead_letter_cap=self.draw([1, 1000]),
            dead_letter_age=self.draw([None, LETTER_AGE]),
        )
        answer = self.twins.run(self.bench.worker.purge(retention, 1000))
        assert answer.dead_letters == self.twins.ask_model("purge", retention, 1000).dead_letters


def is_listed(job: Job) -> bool:
    """Whether a store must know the job by its id while it waits: not when nobody asked for its result."""
    return job.result_ttl != 0


def check_store(open_bench: Callable[[], Awaitable[Bench]], *, examples: int) -> None:
    """Run the machine on a store. `open_bench` gives an empty one each time."""
    run_machine(StoreMachine, open_bench, examples=examples)


def run_machine(
    kind: type[RuleBasedStateMachine], open_bench: Callable[[], Awaitable[Bench]], *, examples: int
) -> None:
    """Run a machine that drives what its `open_bench` gives."""
    machine = type("Machine", (kind,), {"open_bench": staticmethod(open_bench)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=STEPS,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )

"""Begins attempts and takes their outcomes: from claim to settlement, without a word to the store."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..events import AttemptEnded, AttemptStarted, BatchCollected, Emitter
from ..jobs.model import Claim, DeadReason, Failure
from ..jobs.outcomes import Cancelled, Interrupted, Outcome, Unrunnable, Untouched
from ..jobs.transitions import Decision, Policy, Settlement, assemble_settlement, decide
from .batching import Collector
from .flight import Flight, Stoppable
from .settler import Settler
from .slots import Slots
from .tally import Tally
from .wakeup import Wakeup

type Done = Callable[[Claim, Outcome, float, Decision], None]


class Executing(Protocol):
    """What the worker asks of the executor. Neither call raises; `done` is told once for every claim, on the loop:
    claim, outcome, when it ended (epoch seconds by the store's clock), and what becomes of the job."""

    @property
    def abandoned_threads(self) -> int:
        """How many threads that were given up still run."""
        ...

    @property
    def connected_slots(self) -> tuple[int, int]:
        """How many slots have database connections of their functions, and how many those opened so far."""
        ...

    def start(self, claim: Claim, done: Done) -> Stoppable:
        """Begin the attempt of one claim."""
        ...

    def start_batch(self, claims: Sequence[Claim], done: Done) -> Stoppable:
        """Begin one attempt for a group of claims of one function."""
        ...

    def request_shutdown(self) -> None:
        """Tell running functions that the worker is going away."""
        ...

    async def close(self, timeout: float = 5.0) -> None:
        """End threads and connections; never raises."""
        ...


class Attempts:
    """Owns slots, collectors and flight; turns claims into attempts and outcomes into settlements."""

    def __init__(
        self,
        executor: Executing,
        settler: Settler,
        slots: Slots,
        collectors: Mapping[str, Collector],
        policy_of: Callable[[Claim], Policy],
        emitter: Emitter,
    ) -> None:
        self.flight = Flight()
        self.wakeup = Wakeup()
        self.slots = slots
        self.begun = 0
        self.tally = Tally()
        self.executor = executor
        self._settler = settler
        self._collectors = collectors
        self._policy_of = policy_of
        self._emitter = emitter

    def accept(self, claim: Claim) -> None:
        """Begin the attempt of a claim, or collect it for a batch."""
        if claim.job is None:
            self._refuse(claim, _unrunnable(claim))
            return
        self.flight.board(claim)
        collector = self._collectors.get(claim.queue)
        if collector is None:
            self._begin(claim)
        else:
            collector.add(claim, time.monotonic())

    def begin_batches(self) -> None:
        """Begin every group that is ready, as far as slots are free."""
        for collector in self._collectors.values():
            while self.slots.free_for(collector.queue):
                group = collector.next_group(time.monotonic())
                if group is None:
                    break
                self._begin_group(collector.queue, group)

    def next_batch_in(self) -> float | None:
        """In how many seconds a collection is to be closed that has a free slot; None when none is."""
        now = time.monotonic()
        free = [collector for collector in self._collectors.values() if self.slots.free_for(collector.queue)]
        return min((due for collector in free if (due := collector.due_in(now)) is not None), default=None)

    def hurry(self) -> bool:
        """Close every collection now; returns whether there was one."""
        waiting = [collector for collector in self._collectors.values() if collector.waits()]
        for collector in waiting:
            collector.hurry()
        return bool(waiting)

    def cancel(self, tokens: frozenset[str]) -> None:
        """Somebody cancelled these jobs: stop those that run, and let the members that wait run no more."""
        for token in tokens:
            self.flight.cancel(token)
        for collector in self._collectors.values():
            for claim in collector.drop(tokens):
                self.flight.land(claim.lease.token)
                self._settle(claim, _cancelled(claim), claim.started_at)
                self.wakeup.ring()

    def give_up(self, lost: frozenset[str]) -> None:
        """These tokens are somebody else's by now: stop their attempts, forget the members."""
        for token in lost & self.flight.begun_tokens():
            self.flight.withdraw(token)
        for collector in self._collectors.values():
            for claim in collector.drop(lost):
                self.flight.land(claim.lease.token)

    def return_members(self) -> None:
        """Hand back what is collected and has not begun, as it came."""
        for collector in self._collectors.values():
            for claim in collector.empty():
                self.flight.land(claim.lease.token)
                self._settle(claim, Untouched(), claim.started_at)

    def return_untouched(self, claim: Claim) -> None:
        """Hand back a claim that cannot begin here."""
        self._settle(claim, Untouched(), claim.started_at)

    def return_rest(self) -> int:
        """Hand back whatever still runs: the worker goes, the attempt does not count. Returns how many."""
        claims = self.flight.claims()
        now = time.time()
        for claim in claims:
            self.flight.land(claim.lease.token)
            self._settle(claim, Interrupted(), max(now, claim.started_at))
        return len(claims)

    def _begin(self, claim: Claim) -> None:
        self.slots.take(claim.queue)
        self.begun += 1
        self.tally.started(claim.queue)
        if self._emitter.wanted(AttemptStarted):
            self._emitter.emit(AttemptStarted(claim=claim, worker_id=claim.lease.owner))
        self.flight.begun(claim.lease.token, self.executor.start(claim, self._ended))

    def _begin_group(self, queue: str, group: Sequence[Claim]) -> None:
        self.slots.take(queue)
        self.begun += 1
        left = len(group)

        def member_ended(claim: Claim, _outcome: Outcome, _ended_at: float, decision: Decision) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                self.slots.give_back(queue)
            self._finish(claim, decision)

        self._emitter.emit(BatchCollected(queue=queue, size=len(group)))
        if self._emitter.wanted(AttemptStarted):
            for claim in group:
                self._emitter.emit(AttemptStarted(claim=claim, worker_id=claim.lease.owner))
        attempt = self.executor.start_batch(group, member_ended)
        for claim in group:
            self.tally.started(queue)
            self.flight.begun(claim.lease.token, attempt)

    def _ended(self, claim: Claim, _outcome: Outcome, _ended_at: float, decision: Decision) -> None:
        self.slots.give_back(claim.queue)
        self._finish(claim, decision)

    def _finish(self, claim: Claim, decision: Decision) -> None:
        if self.flight.land(claim.lease.token):
            self.tally.decided(claim.queue, decision)
            self._settler.add(assemble_settlement(claim, decision, False))  # noqa: FBT003 - in the order of the fields
        self.wakeup.ring()

    def _refuse(self, claim: Claim, outcome: Outcome) -> None:
        """Settle what cannot begin at all, and tell of it as of an attempt that ended at once."""
        decision = self._settle(claim, outcome, claim.started_at)
        owner = claim.lease.owner
        self._emitter.emit(
            AttemptEnded(claim=claim, worker_id=owner, outcome=outcome, decision=decision, duration=0.0)
        )

    def _settle(self, claim: Claim, outcome: Outcome, ended_at: float) -> Decision:
        decision = decide(claim, outcome, self._policy_of(claim), ended_at)
        self.tally.decided(claim.queue, decision)
        self._settler.add(Settlement(claim=claim, decision=decision))
        return decision


def _cancelled(claim: Claim) -> Cancelled:
    func = claim.job.func if claim.job is not None else ""
    failure = Failure(
        exception_class="django_vtasks.jobs.errors.JobCancelled",
        message="Cancelled while it waited for its batch",
        fingerprint=f"{func}:JobCancelled",
    )
    return Cancelled(failure=failure)


def _unrunnable(claim: Claim) -> Unrunnable:
    failure = Failure(
        exception_class="django_vtasks.jobs.errors.JobUndecodable",
        message=claim.defect or "the stored bytes are not a job",
        fingerprint="undecodable",
    )
    return Unrunnable(reason=DeadReason.UNDECODABLE, failure=failure)

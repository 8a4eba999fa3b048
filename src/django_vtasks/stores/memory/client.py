"""The application's side of the memory store."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...jobs.codec import encode
from ...jobs.model import Job, JobRecord, JobState
from ...jobs.transitions import Policy, cancelled
from ..base import Added, CancelStatus
from ..base.ends import EndWait
from .state import Kept, State


class MemoryClientStore:
    """Enqueue, read, cancel. `policy` says how long the result of a cancelled job is kept that names no time."""

    policy = Policy()

    def __init__(self, state: State) -> None:
        self._state = state
        self.holders: dict[str, str] = {}

    @property
    def transactional(self) -> bool:
        """Memory knows no transactions: the backend defers `add` to the commit."""
        return False

    def new_id(self) -> str:
        """32 hexadecimal digits."""
        return self._state.new_id()

    def add(self, jobs: Sequence[Job]) -> list[Added]:
        """See `ClientStore.add`."""
        payloads = [encode(job, compress=False) for job in jobs]
        with self._state.lock:
            return [self._state.add(job, raw) for job, raw in zip(jobs, payloads, strict=True)]

    async def aadd(self, jobs: Sequence[Job]) -> list[Added]:
        """See `ClientStore.add`."""
        return self.add(jobs)

    def inject(self, queue: str, raw: bytes) -> None:
        """Put bytes into a queue as a foreign producer would: unchecked, and without a unique lock."""
        with self._state.lock:
            self._state.inject(queue, raw)

    def get(self, job_id: str) -> JobRecord | None:
        """See `ClientStore.get`."""
        with self._state.lock:
            holder = self.holders.get(job_id)
            if holder is None:
                return self._state.record(job_id)
            record = self._state.record(holder)
            return record and replace(record, stands_for=job_id)

    async def aget(self, job_id: str) -> JobRecord | None:
        """See `ClientStore.get`."""
        return self.get(job_id)

    def until_ended(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        return self._end_wait().wait(job_id, timeout)

    async def auntil_ended(self, job_id: str, timeout: float | None) -> bool:
        """See `ClientStore.until_ended`."""
        return await self._end_wait().await_(job_id, timeout)

    def _end_wait(self) -> EndWait:
        return EndWait(self._state.ends, _Ears(), self.get, self.aget)

    def cancel(self, job_id: str) -> CancelStatus:
        """See `ClientStore.cancel`."""
        with self._state.lock:
            return self._cancel(self.holders.get(job_id, job_id))

    def remember(self, holders: Mapping[str, str]) -> None:
        """See `DeferredStore.remember`."""
        with self._state.lock:
            known = {job_id: holder for job_id, holder in self.holders.items() if self._state.record(holder)}
            self.holders = {**known, **holders}

    async def acancel(self, job_id: str) -> CancelStatus:
        """See `ClientStore.cancel`."""
        return self.cancel(job_id)

    def _cancel(self, job_id: str) -> CancelStatus:
        state = self._state
        stored = state.jobs.get(job_id)
        if stored is None:
            return CancelStatus.UNKNOWN if state.record(job_id) is None else CancelStatus.FINISHED
        if stored.state is JobState.LEASED:
            stored.cancel_requested = True
            return CancelStatus.REQUESTED
        state.withdraw(stored)
        decision = cancelled(stored.job, stored.raw, state.now(), self.policy)
        record = state.bury(decision.letter, stored.progress)
        if decision.result_ttl:
            state.results[job_id] = Kept(record=replace(record, letter=None), until=state.now() + decision.result_ttl)
        state.evict(state.dead_letter_cap)
        return CancelStatus.CANCELLED


class _Ears:
    """What ends in this memory is told to everybody."""

    def listen_for(self, job_id: str) -> bool:  # noqa: ARG002 - see `Ears`
        """Always."""
        return True

    async def alisten_for(self, job_id: str) -> bool:  # noqa: ARG002 - see `Ears`
        """Always."""
        return True

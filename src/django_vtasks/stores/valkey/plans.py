"""The client's operations as plans: they yield requests and are sent replies, in a thread or in an event loop."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...jobs.codec import encode_letter
from ...jobs.errors import QueueError, StoreUnavailable
from ...jobs.model import JobRecord, JobState
from ...jobs.transitions import Policy, cancelled
from ..base import Added, AddStatus, CancelStatus
from ..base.values import assemble_added
from .admission import HELD, Entry, Gate, added, read_answers, read_refusals
from .letting_in import TRIES, let_in
from .options import ValkeyOptions
from .records import dead_record, holder_of, read_record, waiting_parts
from .requests import Call, Part, Plan, call

CHUNK = 500
"""Jobs per script call, so that the server is never held up for more than a few milliseconds."""


class Caller:
    """A name and a number for each call, by which a script knows a call that is sent twice."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._turn = 0

    def next(self) -> tuple[Part, Part]:
        """The arguments of the next call."""
        self._turn += 1
        return self._name, self._turn


type Refusal = Callable[[str], QueueError]
"""The error for what the server said."""


class ClientPlans:
    """Add, get, cancel for one alias."""

    def __init__(self, options: ValkeyOptions, refusal: Refusal) -> None:
        self._options = options
        self._refusal = refusal
        self._gate = Gate(options.result_ttl)
        self.entry = self._gate.entry

    def now(self) -> Part:
        """The first argument of every script: the test clock's time, or empty for the server's."""
        clock = self._options.clock
        return repr(clock()) if clock else ""

    def add(self, entries: Sequence[Entry], caller: Caller) -> Plan[list[Added | QueueError]]:
        """Add up to `CHUNK` jobs in one step; those that debounce and meet a holder take one more each.

        An error stands for a job that the server refused while it took others.
        """
        lone = self._gate.lone(entries[0]) if len(entries) == 1 else None
        if lone is None:
            text = yield call("add", self.now(), *caller.next(), *self._gate.args(entries))
        else:
            text = yield call("add_one", self.now(), *caller.next(), *lone)
        if not text:
            return [assemble_added(AddStatus.ADDED, item.job.id) for item in entries]
        answers = read_answers(text)
        results: list[Added | QueueError] = [
            added(item.job, answers.get(position)) for position, item in enumerate(entries)
        ]
        for position, reason in read_refusals(text, entries).items():
            results[position] = self._refusal(reason)
        for position, (status, _) in answers.items():
            if status == HELD:
                results[position] = yield from self._add_one(entries[position], caller)
        return results

    def _add_one(self, entry: Entry, caller: Caller) -> Plan[Added | QueueError]:
        def attempt(entry: Entry) -> Plan[bytes | None]:
            text: bytes = yield call("add", self.now(), *caller.next(), *self._gate.args([entry]))
            for reason in read_refusals(text, [entry]).values():
                raise self._refusal(reason)
            return text

        try:
            result = yield from let_in(entry, attempt, self.now())
        except QueueError as error:
            return error
        return result or added(entry.job, None)

    def get(self, job_id: str) -> Plan[JobRecord | None]:
        """What is known of a job."""
        reply = yield call("get", self.now(), job_id)
        holder = holder_of(reply)
        if holder is None:
            return read_record(reply)
        found = read_record((yield call("get", self.now(), holder)))
        return found and replace(found, stands_for=job_id)

    def remember(self, holders: Mapping[str, str]) -> Plan[None]:
        """Note which jobs stand for duplicates."""
        yield call("remember", self.now(), len(holders), *itertools.chain(*holders.items()))

    def cancel(self, job_id: str) -> Plan[CancelStatus]:
        """Bury a waiting job, or ask that a leased one be stopped."""
        for _ in range(TRIES):
            reply = yield call("get", self.now(), job_id)
            if holder := holder_of(reply):
                return (yield from self.cancel(holder))
            found = read_record(reply)
            if found is None:
                return CancelStatus.UNKNOWN
            if found.state.is_over:
                return CancelStatus.FINISHED
            status = yield self._cancel_call(job_id, found, reply[1], float(reply[0]))
            if status == b"cancelled":
                return CancelStatus.CANCELLED
            if status == b"requested":
                return CancelStatus.REQUESTED
        raise StoreUnavailable(f"the job {job_id} moved each time it was looked at: try again")

    def _cancel_call(self, job_id: str, found: JobRecord, record: bytes | None, now: float) -> Call:
        words: tuple[Part, ...] = (b"", "")
        result: tuple[Part, ...] = (0, b"")
        if record is not None and found.state is not JobState.LEASED:
            policy = Policy(result_ttl=self._options.result_ttl or 0.0)
            decision = cancelled(found.job, waiting_parts(record)[1], now, policy)
            words = (encode_letter(decision.letter), found.job.unique.key if found.job.unique else "")
            if decision.result_ttl:
                milliseconds = round((decision.result_ttl + self._options.grace) * 1000)
                result = (max(1, milliseconds), dead_record(decision.letter, decision.result_ttl))
        cap = self._options.dead_letter_cap
        return call("cancel", self.now(), job_id, record or b"", *words, cap, *result)

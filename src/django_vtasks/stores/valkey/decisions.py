"""Decisions as the arguments of the scripts that write them (`scripts/shared/settle.lua`). Pure."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from ...jobs.codec import encode, encode_letter
from ...jobs.model import Claim, Job, UniqueMode
from ...jobs.transitions import Bury, Finish, Place, Requeue, Settlement
from .keys import check_queue
from .records import dead_record, finished_record, is_tracked
from .requests import Part

_COMMANDS = {Place.FRONT: "RPUSH", Place.BACK: "LPUSH"}
_OVER: Sequence[Part] = (1, "")


def in_writing_order(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Those that go back to the front come last and in reverse, so that the first of them is claimed first."""
    fronts = [item for item in settlements if type(item.decision) is not Finish and _goes_to_the_front(item)]
    if not fronts:
        return list(settlements)
    return [item for item in settlements if not _goes_to_the_front(item)] + fronts[::-1]


def _goes_to_the_front(settlement: Settlement) -> bool:
    decision = settlement.decision
    return isinstance(decision, Requeue) and not decision.delay and decision.place is Place.FRONT


def claim_args(settlements: Sequence[Settlement]) -> list[Part]:
    """The fields and the nonces of claims."""
    tokens = [item.claim.lease.token.partition(":") for item in settlements]
    return [*[name for _, _, name in tokens], *[f"{nonce}\n" for nonce, _, _ in tokens]]


@dataclass(slots=True)
class Sorted:
    """Settlements as `exchange.lua` takes them: simply over, leaving only a result, all others, in this order."""

    over: list[Settlement] = field(default_factory=list)
    kept: list[Settlement] = field(default_factory=list)
    others: list[Settlement] = field(default_factory=list)
    records: list[Part] = field(default_factory=list)
    decisions: list[Part] = field(default_factory=list)

    def settlements(self) -> list[Settlement]:
        """All of them in the order in which they are sent."""
        return [*self.over, *self.kept, *self.others]

    def args(self) -> list[Part]:
        """How many there are of each, their fields, their nonces, what is to be written."""
        settlements = self.settlements()
        if not settlements:
            return [0, 0, 0]
        numbers: list[Part] = [len(self.over), len(self.kept), len(self.others)]
        return [*numbers, *claim_args(settlements), *self.records, *self.decisions]


@dataclass(frozen=True, slots=True)
class Writer:
    """Knows the result_ttl of jobs that name none, and the tokens `told` that have a progress.

    `grace` is added to what the server is told to expire, where another clock than its own decides.
    """

    default_ttl: float | None
    told: Container[str]
    grace: float = 0.0

    def sort(self, settlements: Sequence[Settlement]) -> Sorted:
        """Settlements by how much is to be written."""
        found = Sorted()
        for item in settlements:
            decision, job = item.decision, item.claim.job
            if type(decision) is not Finish or job is None or job.unique is not None or job.limit is not None:
                found.others.append(item)
                found.decisions += self.decision_args(item)
            elif not decision.result_ttl and not is_tracked(job, self.default_ttl):
                found.over.append(item)
            elif decision.result_ttl and self._leaves_only_a_result(item.claim, job):
                found.kept.append(item)
                found.records += (self._milliseconds(decision.result_ttl), finished_record(decision, item.claim))
            else:
                found.others.append(item)
                found.decisions += self.decision_args(item)
        return found

    def _leaves_only_a_result(self, claim: Claim, job: Job) -> bool:
        # The script stores such a result under the claim's field.
        token = claim.lease.token
        return token not in self.told and token.endswith(f":{job.id}")

    def decision_args(self, settlement: Settlement) -> Sequence[Part]:
        """The number of arguments, the operations, and their arguments."""
        count, operations, *args = self._decision(settlement)
        permit = _permit_of(settlement.claim)
        return (int(count) + len(permit), f"{'l' if permit else ''}{operations!s}", *permit, *args)

    def _decision(self, settlement: Settlement) -> Sequence[Part]:
        match settlement.decision:
            case Finish() as finish:
                return self._finish(settlement.claim, finish)
            case Requeue() as requeue:
                return self._requeue(settlement.claim, requeue)
            case Bury() as bury:
                return self._bury(settlement.claim, bury)

    def _finish(self, claim: Claim, finish: Finish) -> Sequence[Part]:
        job = claim.job or finish.job
        if not finish.result_ttl and not is_tracked(job, self.default_ttl):
            return _OVER
        operations, args = _give_key_back(job)
        if finish.result_ttl:
            milliseconds = self._milliseconds(finish.result_ttl)
            operations += "rp" if claim.lease.token in self.told else "r"
            args += [job.id, milliseconds, finished_record(finish, claim), job.id, milliseconds]
        else:
            operations += "x"
            args.append(job.id)
        return (1 + len(args), operations, *args)

    def _bury(self, claim: Claim, bury: Bury) -> Sequence[Part]:
        letter = bury.letter
        operations, args = _give_key_back(claim.job) if claim.job else ("", [])
        args += [letter.id, letter.queue, encode_letter(letter)]
        if bury.result_ttl:
            args += [letter.id, self._milliseconds(bury.result_ttl), dead_record(letter, bury.result_ttl)]
            operations += "br"
        else:
            args.append(letter.id)
            operations += "bx"
        return (1 + len(args), operations, *args)

    def _requeue(self, claim: Claim, requeue: Requeue) -> Sequence[Part]:
        job = requeue.job
        # A job that was not touched goes back as the bytes it came in, whatever its producer's spelling.
        payload = claim.raw if job is claim.job and job.queue == claim.queue else encode(job)
        job_id = job.id if is_tracked(job, self.default_ttl) else ""
        queue = check_queue(job.queue)
        if requeue.delay:
            return (6, "d", job_id, queue, job.priority, requeue.delay, payload)
        if requeue.place is Place.FRONT and job.limit is not None:
            return (5, "f", job_id, queue, job.priority, payload)
        return (6, "q", job_id, queue, job.priority, _COMMANDS[requeue.place], payload)

    def _milliseconds(self, seconds: float) -> int:
        return max(1, round((seconds + self.grace) * 1000))


def _permit_of(claim: Claim) -> Sequence[Part]:
    # Of a payload that does not decode here, the server may have read a limit all the same.
    if claim.job.limit is None if claim.job else b'"limit"' not in claim.raw:
        return ()
    nonce, _, name = claim.lease.token.partition(":")
    return claim.raw, f"{name}\n{nonce}\n"


def _give_key_back(job: Job) -> tuple[str, list[Part]]:
    if job.unique is None or job.unique.mode is UniqueMode.WINDOW:
        return "", []
    return "u", [job.unique.key, job.id]

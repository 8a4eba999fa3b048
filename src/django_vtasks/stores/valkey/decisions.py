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


def in_writing_order(settlements: Sequence[Settlement]) -> list[Settlement]:
    """Those that go back to the front come last and in reverse, so that the first of them is claimed first."""
    fronts = [item for item in settlements if _goes_to_the_front(item)]
    if not fronts:
        return list(settlements)
    return [item for item in settlements if not _goes_to_the_front(item)] + fronts[::-1]


def _goes_to_the_front(settlement: Settlement) -> bool:
    decision = settlement.decision
    return isinstance(decision, Requeue) and not decision.delay and decision.place is Place.FRONT


@dataclass(slots=True)
class Sorted:
    """Settlements as `exchange.lua` takes them: simply over, leaving only a result, all others, in this order."""

    over: list[Settlement] = field(default_factory=list)
    kept: list[tuple[Settlement, Part, bytes]] = field(default_factory=list)
    others: list[Settlement] = field(default_factory=list)

    def settlements(self) -> list[Settlement]:
        """All of them in the order in which they are sent."""
        return [*self.over, *[kept[0] for kept in self.kept], *self.others]

    def args(self, told: Container[str]) -> list[Part]:
        """How many there are of each, their fields, their nonces, what is to be written."""
        args: list[Part] = [len(self.over), len(self.kept), len(self.others), *claim_args(self.settlements())]
        for _, milliseconds, record in self.kept:
            args += (milliseconds, record)
        for item in self.others:
            args += decision_args(item, told)
        return args


def sort(settlements: Sequence[Settlement], told: Container[str]) -> Sorted:
    """Settlements by how much is to be written; `told` are tokens with a progress."""
    found = Sorted()
    for item in settlements:
        decision, job = item.decision, item.claim.job
        if not isinstance(decision, Finish) or job is None or job.unique is not None:
            found.others.append(item)
        elif decision.result_ttl:
            if item.claim.lease.token in told or not item.claim.lease.token.endswith(job.id):
                found.others.append(item)
            else:
                found.kept.append((item, _milliseconds(decision.result_ttl), finished_record(decision)))
        elif job.result_ttl == 0:
            found.over.append(item)
        else:
            found.others.append(item)
    return found


def claim_args(settlements: Sequence[Settlement]) -> list[Part]:
    """The fields and the nonces of claims."""
    tokens = [item.claim.lease.token.partition(":") for item in settlements]
    return [*[field for _, _, field in tokens], *[f"{nonce}\n" for nonce, _, _ in tokens]]


def decision_args(settlement: Settlement, told: Container[str] = ()) -> Sequence[Part]:
    """The number of arguments, the operations, and their arguments."""
    match settlement.decision:
        case Finish() as finish:
            return _finish(settlement.claim, finish, told)
        case Requeue() as requeue:
            return _requeue(settlement.claim, requeue)
        case Bury() as bury:
            return _bury(settlement.claim, bury, told)


_NOTHING_TO_WRITE: Sequence[Part] = (1, "")


def _finish(claim: Claim, finish: Finish, told: Container[str]) -> Sequence[Part]:
    job = claim.job or finish.job
    if not finish.result_ttl and not is_tracked(job):
        return _NOTHING_TO_WRITE
    operations, args = _give_key_back(job)
    if finish.result_ttl:
        kept, kept_args = _keep(claim, job.id, finished_record(finish), finish.result_ttl, told)
        operations += kept
        args += kept_args
    else:
        args.append(job.id)
        operations += "x"
    return (1 + len(args), operations, *args)


def _bury(claim: Claim, bury: Bury, told: Container[str]) -> Sequence[Part]:
    letter = bury.letter
    operations, args = _give_key_back(claim.job) if claim.job else ("", [])
    args += [letter.id, encode_letter(letter)]
    if bury.result_ttl:
        kept, kept_args = _keep(claim, letter.id, dead_record(letter, bury.result_ttl), bury.result_ttl, told)
        operations += "b" + kept
        args += kept_args
    else:
        args.append(letter.id)
        operations += "bx"
    return (1 + len(args), operations, *args)


def _keep(claim: Claim, job_id: str, record: bytes, ttl: float, told: Container[str]) -> tuple[str, list[Part]]:
    milliseconds = _milliseconds(ttl)
    if claim.lease.token in told:
        return "rp", [job_id, milliseconds, record, job_id, milliseconds]
    return "r", [job_id, milliseconds, record]


def _give_key_back(job: Job) -> tuple[str, list[Part]]:
    if job.unique is None or job.unique.mode is UniqueMode.WINDOW:
        return "", []
    return "u", [job.unique.key, job.id]


def _requeue(claim: Claim, requeue: Requeue) -> Sequence[Part]:
    job = requeue.job
    # A job that was not touched goes back as the bytes it came in, whatever its producer's spelling.
    payload = claim.raw if job is claim.job and job.queue == claim.queue else encode(job)
    job_id = job.id if is_tracked(job) else ""
    queue = check_queue(job.queue)
    if requeue.delay:
        return (6, "d", job_id, queue, job.priority, requeue.delay, payload)
    return (6, "q", job_id, queue, job.priority, _COMMANDS[requeue.place], payload)


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))

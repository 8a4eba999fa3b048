"""Decisions as the arguments of the scripts that write them (`scripts/shared/settle.lua`). Pure."""

from collections.abc import Container, Sequence

from ...jobs.codec import encode, encode_letter
from ...jobs.model import Claim, Job, UniqueMode
from ...jobs.transitions import Bury, Finish, Place, Requeue, Settlement
from .claims import split_token
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


def settlement_args(settlements: Sequence[Settlement], told: Container[str] = ()) -> list[Part]:
    """The number of settlements, their fields, their nonces, their decisions; `told` are tokens with a progress."""
    tokens = [split_token(item.claim.lease.token) for item in settlements]
    args: list[Part] = [len(tokens)]
    args.extend([field for _, field in tokens])
    args.extend([nonce for nonce, _ in tokens])
    for item in settlements:
        args.extend(decision_args(item, told))
    return args


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
    milliseconds = max(1, round(ttl * 1000))
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

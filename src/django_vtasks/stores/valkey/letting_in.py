"""One job let in, whatever it takes: a debouncing job may have to replace the one that waits under its key."""

from collections.abc import Callable, Sequence

from ...jobs.codec import decode, encode
from ...jobs.errors import CodecError
from ...jobs.model import Job, UniqueMode
from ...jobs.uniqueness import debounced
from ..base import Added, AddStatus
from .admission import HELD, Entry, added, read_answers
from .keys import check_queue
from .records import FINISHED, waiting_parts
from .requests import Call, Part, Plan, call

TRIES = 5
"""How often a holder is looked at that moved meanwhile."""

NO_CONDITIONS: Sequence[Part] = ("", "", "", "")


def let_in(
    entry: Entry, attempt: Callable[[Entry], Plan[bytes | None]], now: Part, conditions: Sequence[Part] = NO_CONDITIONS
) -> Plan[Added | None]:
    """What became of a job that `attempt` sends; None when the attempt says that there is nothing to do.

    `conditions` are what a replacement must do in the same step (`replace.lua`): a letter that goes, a slot that is
    recorded.
    """
    for tries in range(TRIES):
        # At last, or where the holder makes no room, the job is an ordinary duplicate.
        text = yield from attempt(entry if tries < TRIES - 1 else _modest(entry))
        if text is None:
            return None
        if not text:
            break
        status, holder = read_answers(text)[0]
        if status != HELD:
            return added(entry.job, (status, holder))
        record = (yield call("get", now, holder))[1]
        merged = _merged(record, entry.job)
        if merged is None:
            entry = _modest(entry)
        elif (yield _replacement(now, entry, holder, record, merged, conditions)):
            return Added(status=AddStatus.REPLACED, job_id=holder)
    return Added(status=AddStatus.ADDED, job_id=entry.job.id)


def _modest(entry: Entry) -> Entry:
    return entry._replace(unique_args=(*entry.unique_args[:-1], ""))


def _merged(record: bytes | None, newcomer: Job) -> Job | None:
    # Only a job that waits and debounces itself makes room.
    if record is None or record.startswith(FINISHED):
        return None
    try:
        waiting = decode(waiting_parts(record)[1])
    except CodecError:
        return None
    if waiting.unique is None or waiting.unique.mode is not UniqueMode.DEBOUNCE:
        return None
    return debounced(waiting, newcomer)


def _replacement(now: Part, entry: Entry, holder: str, record: bytes, merged: Job, conditions: Sequence[Part]) -> Call:
    due: Part = "" if merged.run_after is None else repr(merged.run_after)
    place = check_queue(merged.queue), merged.priority
    return call("replace", now, entry.unique_args[0], holder, record, encode(merged), *place, due, *conditions)

"""Jobs as the arguments of the scripts that let them in (`scripts/shared/admit.lua`). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...jobs.codec import encode
from ...jobs.model import Job, UniqueMode
from ..base import Added, AddStatus
from .keys import check_queue
from .records import is_tracked
from .requests import Part


@dataclass(frozen=True, slots=True)
class Entry:
    """One job ready to be sent: where it goes, and its own arguments."""

    job: Job
    destination: tuple[str, str, int]
    args: Sequence[Part]


def entry(job: Job) -> Entry:
    """A job's entry. Raises CodecError for what is not JSON, StoreRefused for an impossible queue name."""
    payload = encode(job)
    if job.result_ttl == 0 and job.unique is None and job.run_after is None:
        return Entry(job, ("", check_queue(job.queue), job.priority), (payload,))
    kinds = ""
    args: list[Part] = [payload]
    if is_tracked(job):
        kinds += "t"
        args.append(job.id)
    if job.run_after is not None:
        kinds += "d"
        args.append(job.run_after)
    if job.unique is not None:
        kinds += "u"
        args += [job.unique.key, _window(job), "b" if job.unique.mode is UniqueMode.DEBOUNCE else ""]
    return Entry(job, (kinds, check_queue(job.queue), job.priority), args)


def _window(job: Job) -> Part:
    if job.unique is None or job.unique.mode is not UniqueMode.WINDOW:
        return ""
    return max(1, round((job.unique.window or 0.0) * 1000))


def admission_args(entries: Sequence[Entry], is_new: "QueueNames") -> list[Part]:
    """The destinations and the jobs."""
    places: dict[tuple[str, str, int], int] = {}
    jobs: list[Part] = []
    for item in entries:
        jobs.append(places.setdefault(item.destination, len(places) + 1))
        jobs += item.args
    args: list[Part] = [len(places)]
    for kinds, queue, priority in places:
        args += [kinds + "n" if is_new.note(queue) else kinds, queue, priority]
    args.append(len(entries))
    return args + jobs


class QueueNames:
    """Which queues this process has named to the store already; forgotten now and then, as the store may forget."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._uses = 0

    def note(self, queue: str) -> bool:
        """Whether the queue is to be named."""
        self._uses += 1
        if self._uses % 10_000 == 0:
            self._known = set()
        if queue in self._known:
            return False
        self._known.add(queue)
        return True


HELD = "held"
"""The status of a debouncing job whose key is taken: the caller tries to replace the holder."""


def read_answers(text: bytes) -> dict[int, tuple[str, str]]:
    """Status and holder for the position of each job that was not added."""
    answers = {}
    for line in text.decode().splitlines():
        position, status, holder = line.split(" ", 2)
        answers[int(position)] = status, holder
    return answers


def added(job: Job, answer: tuple[str, str] | None) -> Added:
    """What is told of one job; 3.2 producers lock with "1", which names nobody."""
    if answer is None:
        return Added(status=AddStatus.ADDED, job_id=job.id)
    holder = answer[1]
    return Added(status=AddStatus.DUPLICATE, job_id=None if holder in ("", "1") else holder)

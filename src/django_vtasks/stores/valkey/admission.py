"""Jobs as the arguments of the scripts that let them in (`scripts/shared/admit.lua`). Pure."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from ...jobs.codec import encode
from ...jobs.model import Job, UniqueMode
from ..base import Added, AddStatus
from .keys import check_queue
from .records import is_tracked
from .requests import Part

FORGET_AFTER = 10_000
"""Jobs after which a queue is named to the store again, as the store may have been emptied."""


class Entry(NamedTuple):
    """One job ready to be sent. `kinds` says what its arguments are beside the payload: `t` (tracked) its id, `d`
    (delayed) when it is due; `l` (limited) has none, `u` (unique) arguments of its own."""

    job: Job
    kinds: str
    args: Sequence[Part]
    unique_args: Sequence[Part] = ()


class Gate:
    """Makes entries, and the arguments for many of them. `default_ttl` is the result_ttl of jobs that name none."""

    def __init__(self, default_ttl: float | None) -> None:
        self._default_ttl = default_ttl
        self._named: set[str] = set()
        self._left = FORGET_AFTER

    def entry(self, job: Job) -> Entry:
        """A job's entry. Raises CodecError for what is not JSON, StoreRefused for an impossible queue name."""
        check_queue(job.queue)
        payload = encode(job)
        kinds: str
        args: tuple[Part, ...]
        kinds, args = ("t", (payload, job.id)) if is_tracked(job, self._default_ttl) else ("", (payload,))
        if job.run_after is not None:
            kinds, args = kinds + "d", (*args, repr(job.run_after))
        if job.limit is not None:
            kinds += "l"
        if job.unique is None:
            return Entry(job, kinds, args)
        debounces = "b" if job.unique.mode is UniqueMode.DEBOUNCE else ""
        return Entry(job, kinds + "u", args, (job.unique.key, _window(job), debounces))

    def args(self, entries: Sequence[Entry]) -> list[Part]:
        """The number of groups, and each group."""
        if len(entries) > 1 and _are_alike(entries):
            job = entries[0].job
            head = (1, entries[0].kinds, self._name(job.queue), job.queue, job.priority, len(entries))
            return [*head, *chain.from_iterable([item.args for item in entries])]
        groups = _groups(entries)
        args: list[Part] = [len(groups)]
        for (kinds, queue, priority, _), members in groups.items():
            args += (kinds, self._name(queue), queue, priority, len(members))
            for position, item in members:
                args += item.args
                if item.unique_args:
                    args += (position, *item.unique_args)
        return args

    def lone(self, entry: Entry) -> list[Part] | None:
        """The arguments of `add_one` for a job that only goes into its queue, None for any other."""
        if entry.job.priority or entry.kinds not in _ORDINARY:
            return None
        queue = entry.job.queue
        return [self._name(queue), queue, *entry.args]

    def _name(self, queue: str) -> str:
        self._left -= 1
        if self._left <= 0:
            self._named, self._left = set(), FORGET_AFTER
        if queue in self._named:
            return ""
        self._named.add(queue)
        return "1"


_ORDINARY = frozenset(("", "t"))


def _are_alike(entries: Sequence[Entry]) -> bool:
    """Whether these are one group of jobs that are not unique, as most that go together are."""
    job, kinds = entries[0].job, entries[0].kinds
    queue, priority = job.queue, job.priority
    for item in entries:
        job = item.job
        if item.kinds != kinds or item.unique_args or job.queue != queue or job.priority != priority:
            return False
    return True


type Groups = dict[tuple[str, str, int, int], list[tuple[int, Entry]]]


def _groups(entries: Sequence[Entry]) -> Groups:
    """Entries by kind and place; where kinds alternate in one place, a new group begins, so that their order stays.

    Where a unique key occurs twice, the first of all is to have it, so every change begins a new group.
    """
    keys = [item.unique_args[0] for item in entries if item.unique_args]
    strict = len(set(keys)) < len(keys)
    groups: Groups = {}
    latest: dict[tuple[str, int] | None, tuple[object, int]] = {}
    last: tuple[str, str, int] | None = None
    members: list[tuple[int, Entry]] = []
    for position, item in enumerate(entries):
        job = item.job
        if last == (item.kinds, job.queue, job.priority):
            members.append((position, item))
            continue
        place = job.queue, job.priority
        line, kind = (None, (item.kinds, place)) if strict else (place, item.kinds)
        before, run = latest.get(line, (kind, 0))
        if before != kind:
            run += 1
        latest[line] = kind, run
        last = (item.kinds, *place)
        members = groups.setdefault((*last, run), [])
        members.append((position, item))
    return groups


def _window(job: Job) -> Part:
    if job.unique is None or job.unique.mode is not UniqueMode.WINDOW:
        return ""
    return max(1, round((job.unique.window or 0.0) * 1000))


REFUSED = "refused"
"""The status of a group whose jobs the server refused; the number before it counts the groups, from 1."""

HELD = "held"
"""The status of a debouncing job whose key is taken: the caller tries to replace the holder."""


def read_answers(text: bytes) -> dict[int, tuple[str, str]]:
    """Status and holder for the position of each job that was not added."""
    answers = {}
    for line in text.decode().splitlines():
        position, status, holder = line.split(" ", 2)
        if status != REFUSED:
            answers[int(position)] = status, holder
    return answers


def read_refusals(text: bytes, entries: Sequence[Entry]) -> dict[int, str]:
    """What the server said of each job, by position, that it refused."""
    refusals: dict[int, str] = {}
    groups: list[list[tuple[int, Entry]]] = []
    for line in text.decode(errors="replace").splitlines():
        number, status, reason = line.split(" ", 2)
        if status == REFUSED:
            groups = groups or list(_groups(entries).values())
            refusals |= dict.fromkeys([position for position, _ in groups[int(number) - 1]], reason)
    return refusals


def added(job: Job, answer: tuple[str, str] | None) -> Added:
    """What is told of one job; 3.2 producers lock with "1", which names nobody."""
    if answer is None:
        return Added(status=AddStatus.ADDED, job_id=job.id)
    holder = answer[1]
    return Added(status=AddStatus.DUPLICATE, job_id=None if holder in ("", "1") else holder)

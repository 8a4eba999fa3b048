"""The names of the keys. Those of the wire protocol are public (`docs/PROTOCOL.md`), all others are ours."""

import re
from binascii import crc_hqx

from ...jobs.errors import InvalidOptions, StoreRefused

DEFAULT_PREFIX = "{vt}:"
SLOTS = 16384
RESERVED_QUEUE = "failed"
_TAG = re.compile(r"\{([^}]+)\}")


class Keys:
    """Key names of one alias. Every key begins with the prefix, so that one hash tag keeps all in one slot."""

    __slots__ = ("guard", "prefix")

    def __init__(self, prefix: str = DEFAULT_PREFIX) -> None:
        self.prefix = prefix
        self.guard = f"{prefix}~"

    def ready(self, queue: str) -> str:
        """The list of ready jobs of priority 0; producers push left, consumers take from the right."""
        return f"{self.prefix}q:{queue}"

    def failed(self) -> str:
        """The list of dead letters, newest at the left."""
        return f"{self.prefix}q:failed"

    def unique(self, key: str) -> str:
        """The lock of a unique key."""
        return f"{self.prefix}unique:{key}"

    def metadata(self, name: str) -> str:
        """A named lock or value of the scheduler."""
        return f"{self.prefix}scheduler:{name}"

    def last_slot(self, entry: str) -> str:
        """The last slot of a schedule entry, as decimal text."""
        return self.metadata(f"vtasks_last_run:{entry}")

    def processing(self, worker_id: str) -> str:
        """What a 3.2 worker has in flight."""
        return f"{self.prefix}processing:{worker_id}"

    def alive(self, worker_id: str) -> str:
        """Present while a worker lives."""
        return f"{self.prefix}alive:{worker_id}"

    def priorities(self, queue: str) -> str:
        """Which priorities other than 0 have ready jobs in a queue."""
        return f"{self.prefix}prio:{queue}"

    def wake(self, queue: str) -> str:
        """The list whose element wakes one waiting worker."""
        return f"{self.prefix}wake:{queue}"

    def job(self, job_id: str) -> str:
        """The record of one job."""
        return f"{self.prefix}job:{job_id}"

    def inflight(self, owner: str) -> str:
        """The claims of one incarnation."""
        return f"{self.prefix}inflight:{owner}"

    def named(self, name: str) -> str:
        """A key that exists once per alias."""
        return f"{self.prefix}{name}"


def pattern(start: str) -> str:
    """The pattern, for SCAN, of every key that begins with a text."""
    return "".join(f"\\{character}" if character in "*?[]\\" else character for character in start) + "*"


def slot_of(prefix: str) -> int:
    """The cluster slot of every key with this prefix. Raises InvalidOptions when the prefix has no hash tag."""
    tag = _TAG.search(prefix)
    if tag is None:
        raise InvalidOptions(
            f"the prefix {prefix!r} has no hash tag, so that its keys would be spread over the nodes of a cluster: "
            "put a part of it in braces, as in '{vt}:'"
        )
    return crc_hqx(tag[1].encode(), 0) % SLOTS


def check_queue(queue: str) -> str:
    """The queue name itself. Raises StoreRefused for one that cannot be stored."""
    if queue == RESERVED_QUEUE:
        raise StoreRefused(f"a queue must not be named {RESERVED_QUEUE!r}: dead letters are kept under that name")
    if not queue or "\n" in queue:
        raise StoreRefused(f"a queue must not be named {queue!r}: the name is empty or has a line break")
    return queue

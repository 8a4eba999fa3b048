"""Job ids: UUIDs of version 7, which sort by the time they were made, also within one microsecond."""

import os
import threading
import time
import uuid

_VERSION = 0x7 << 76
_VARIANT = 0x2 << 62
_RANDOM = (1 << 62) - 1
_NANOSECONDS_PER_MS = 1_000_000


class IdSource:
    """Makes ids, each greater than the one before it in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> str:
        """A new id as text."""
        milliseconds, rest = divmod(time.time_ns(), _NANOSECONDS_PER_MS)
        tick = milliseconds << 12 | (rest << 12) // _NANOSECONDS_PER_MS
        with self._lock:
            self._last = tick = max(tick, self._last + 1)
        value = tick >> 12 << 80 | _VERSION | (tick & 0xFFF) << 64 | _VARIANT
        text = f"{value | int.from_bytes(os.urandom(8)) & _RANDOM:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


new_id = IdSource().next

MOST_UNUSED = 10_000


class UnusedIds:
    """Ids that were made here and that no job was added with yet, so that no store can know them."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def new(self) -> str:
        """A new id as text."""
        if len(self._ids) >= MOST_UNUSED:
            # Most are of calls that failed before they reached the store. An id that is forgotten is looked for there.
            self._ids.clear()
        job_id = new_id()
        self._ids.add(job_id)
        return job_id

    def take(self, job_id: str) -> bool:
        """Whether it is one of them; whoever asks again is told no, since the job may have been added."""
        try:
            self._ids.remove(job_id)
        except KeyError:
            return False
        return True


def canonical(job_id: str) -> str | None:
    """The id as it is stored, None when the text is no id."""
    try:
        return str(uuid.UUID(job_id))
    except (ValueError, AttributeError, TypeError):
        return None

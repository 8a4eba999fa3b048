"""Dead letters as a file: one JSON object a line, in the wire format, so that any store can take them back."""

from collections.abc import Iterable, Iterator
from itertools import batched

from ..jobs.errors import CodecError
from ..jobs.letters import decode_letter, encode_letter
from ..jobs.model import DeadLetter
from ..jobs.payload import unpack
from ..stores.base import AdminStore, JobFilter
from .bulk import CHUNK


def lines(store: AdminStore, which: JobFilter) -> Iterator[bytes]:
    """The lines of a file with the dead letters a filter matches, complete and not redacted."""
    for letter in letters(store, which):
        yield encode_letter(letter, compress=False) + b"\n"


def letters(store: AdminStore, which: JobFilter) -> Iterator[DeadLetter]:
    """The dead letters a filter matches, page by page."""
    cursor = None
    while True:
        page = store.page(which, after=cursor, limit=CHUNK)
        yield from (record.letter for record in page.records if record.letter)
        cursor = page.next_cursor
        if cursor is None:
            return


def read(file: Iterable[bytes]) -> Iterator[DeadLetter]:
    """The dead letters in a file. Raises ValueError that names the line which is none."""
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            payload = unpack(line.strip())
        except CodecError as error:
            raise ValueError(f"line {number} is no exported dead letter: {error}") from error
        if not isinstance(payload.get("id"), str) or not payload["id"] or "failed_at" not in payload:
            raise ValueError(f"line {number} is no exported dead letter: it has no `id` or no `failed_at`")
        yield decode_letter(line.strip())


def restore(store: AdminStore, found: Iterable[DeadLetter]) -> tuple[int, int]:
    """Put letters into a store; returns how many went in and how many were there already."""
    restored = known = 0
    for chunk in batched(found, CHUNK):
        added = store.restore(chunk)
        restored += added
        known += len(chunk) - added
    return restored, known

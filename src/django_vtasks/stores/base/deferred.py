"""What a client store offers beyond its protocol when it knows no database transactions."""

from collections.abc import Mapping
from typing import Protocol

from .protocols import ClientStore


class DeferredStore(ClientStore, Protocol):
    """A client store that is not transactional, so that jobs come to it after a commit, when their ids are known to
    callers already."""

    def remember(self, holders: Mapping[str, str]) -> None:
        """Note under the ids of duplicates which job stands for each: `get` and `cancel` find that job by them, for as
        long as it is known and for a week at least. Its record says `stands_for`."""
        ...

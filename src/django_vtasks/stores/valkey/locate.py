"""Which server takes our commands: asked of Sentinels, or of any node of a cluster. Pure: yields whom to ask what."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from ...jobs.errors import StoreUnavailable
from .endpoints import Address, Endpoint, Kind
from .keys import Keys, slot_of

type Question = tuple[Address, tuple[str, ...]]
type Search = Generator[Question, Any, Address | None]


class Link:
    """What every client of an alias knows: the endpoint, the guard key, timeouts for connecting and reading."""

    def __init__(self, endpoint: Endpoint, keys: Keys, timeouts: tuple[float, float]) -> None:
        self.endpoint = endpoint
        self.guard = keys.guard
        self.timeouts = timeouts
        self.slot = slot_of(keys.prefix) if endpoint.kind is Kind.CLUSTER else 0
        self.seeds = _seeds(endpoint)

    def with_read_timeout(self, seconds: float) -> "Link":
        """The same link for commands that may take `seconds`."""
        return self._with_timeouts(self.timeouts[0], seconds)

    def within(self, seconds: float) -> "Link":
        """The same link for commands that must not take longer than `seconds`, nor may connecting."""
        return self._with_timeouts(min(self.timeouts[0], seconds), min(self.timeouts[1], seconds))

    def _with_timeouts(self, connect: float, read: float) -> "Link":
        other = object.__new__(Link)
        other.__dict__ |= self.__dict__
        other.timeouts = (connect, read)
        return other


def _seeds(endpoint: Endpoint) -> Endpoint:
    # Sentinels have users of their own and no databases.
    if endpoint.kind is not Kind.SENTINEL:
        return replace(endpoint, db=0)
    return replace(
        endpoint, kind=Kind.DIRECT, db=0, username=endpoint.sentinel_username, password=endpoint.sentinel_password
    )


def locate(link: Link) -> Search:
    """The address of the server, None for a unix socket.

    Yields a seed's address and a command; is sent the reply, None when that seed gave none. Raises StoreUnavailable.
    """
    endpoint = link.endpoint
    match endpoint.kind:
        case Kind.UNIX:
            return None
        case Kind.DIRECT:
            return endpoint.addresses[0]
        case Kind.SENTINEL:
            question: tuple[str, ...] = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", endpoint.service)
        case Kind.CLUSTER:
            question = ("CLUSTER", "SLOTS")
    for seed in endpoint.addresses:
        reply = yield seed, question
        address = _answer(endpoint.kind, reply, seed, link.slot) if reply else None
        if address:
            return address
    raise StoreUnavailable(f"none of the servers of {endpoint} knows where commands are to be sent")


def _answer(kind: Kind, reply: Any, seed: Address, slot: int) -> Address | None:
    if kind is Kind.SENTINEL:
        return reply[0].decode(), int(reply[1])
    for first, last, primary, *_ in reply:
        if first <= slot <= last:
            # A node that does not know its own name leaves it empty: it is the one that was asked.
            return (primary[0] or b"").decode() or seed[0], int(primary[1])
    return None

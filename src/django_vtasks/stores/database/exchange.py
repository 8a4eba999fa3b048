"""One round of a worker: what ended is written, what is next is claimed, in one transaction."""

from collections.abc import Sequence

from ...jobs.transitions import Settlement
from ..base import ClaimRequest, Exchange
from . import notify
from .claims import claim
from .session import Session
from .settle import settle


def exchange(
    session: Session, settlements: Sequence[Settlement], request: ClaimRequest | None, dead_letter_cap: int
) -> tuple[Exchange, set[str]]:
    """What the round brought, and the queues to which it gave jobs back."""
    with session.atomic():
        settled = settle(session, settlements, dead_letter_cap)
        claims = claim(session, request) if request else ()
    notify.from_worker(session, settled.refilled)
    found = Exchange(claims=claims, refused=frozenset(settled.refused), evicted=settled.evicted)
    return found, settled.refilled

"""One round of a worker: what ended is written, what is next is claimed, at once."""

from collections.abc import Sequence

from ...jobs.model import Claim
from ...jobs.transitions import Settlement
from ..base import ClaimRequest, Exchange
from . import notify
from .claims import claim
from .oneround import exchange_in_one, is_one_statement
from .session import Session
from .settle import settle


def exchange(
    session: Session, settlements: Sequence[Settlement], request: ClaimRequest | None, dead_letter_cap: int
) -> tuple[Exchange, set[str]]:
    """What the round brought, and the queues to which it gave jobs back."""
    if session.vendor.has_unnest and is_one_statement(settlements):
        return exchange_in_one(session, settlements, request), set()
    with session.atomic():
        settled = settle(session, settlements, dead_letter_cap)
        claims = _claims(session, request) if request else ()
    notify.from_worker(session, settled.refilled)
    found = Exchange(claims=claims, refused=frozenset(settled.refused), evicted=settled.evicted)
    return found, settled.refilled


def _claims(session: Session, request: ClaimRequest) -> tuple[Claim, ...]:
    if session.vendor.has_unnest:
        return exchange_in_one(session, (), request).claims
    return tuple(claim(session, request))

"""One round of a worker: what ended is written, what is next is claimed, at once."""

from collections.abc import Sequence
from dataclasses import replace

from ...jobs.model import Claim
from ...jobs.transitions import Settlement
from ..base import ClaimRequest, Exchange
from . import notify
from .claims import claim
from .limits import claim_limited
from .lowwater import LowWater
from .oneround import exchange_in_one, is_one_statement
from .session import Session
from .settle import settle


def exchange(
    session: Session,
    settlements: Sequence[Settlement],
    request: ClaimRequest | None,
    dead_letter_cap: int,
    low_water: LowWater,
) -> tuple[Exchange, set[str]]:
    """What the round brought, and the queues to which it gave jobs back."""
    if session.vendor.has_unnest and is_one_statement(settlements):
        found, limited = exchange_in_one(session, settlements, request, low_water)
        refilled: set[str] = set()
    else:
        with session.atomic():
            settled = settle(session, settlements, dead_letter_cap)
            if settled.refilled:
                low_water.forget()
            claims = _claims(session, request, low_water) if request else ()
        limited, refilled = claims is None, settled.refilled
        found = Exchange(claims=tuple(claims or ()), refused=frozenset(settled.refused), evicted=settled.evicted)
    notify.from_worker(session, refilled)
    if limited and request:
        # In transactions of its own, since these lock the keys of limits in their order.
        taken, more = claim_limited(session, request)
        found, refilled = replace(found, claims=tuple(taken)), refilled | more
    return found, refilled


def _claims(session: Session, request: ClaimRequest, low_water: LowWater) -> Sequence[Claim] | None:
    if not session.vendor.has_unnest:
        claims = claim(session, request)
        return None if claims is None else tuple(claims)
    found, limited = exchange_in_one(session, (), request, low_water)
    return None if limited else found.claims

"""One round of a worker: what ended is written, what is next is claimed, at once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...jobs.model import Claim
from ...jobs.transitions import Settlement
from ..base import ClaimRequest, Exchange
from . import notify
from .claims import Taken, claim, is_scarce, wanted_slots
from .limits import claim_limited
from .lowwater import LowWater
from .names import column_text
from .oneround import exchange_in_one, is_one_statement
from .plans import Plans
from .session import Session
from .settle import settle


def exchange(
    session: Session,
    settlements: Sequence[Settlement],
    request: ClaimRequest | None,
    dead_letter_cap: int,
    low_water: LowWater,
    plans: Plans,
) -> tuple[Exchange, set[str]]:
    """What the round brought, and the queues to which it gave jobs back."""
    refilled: set[str] = set()
    evicted = 0
    if session.vendor.has_unnest and is_one_statement(settlements):
        taken, written = exchange_in_one(session, settlements, request, low_water, plans)
        refused, waited = written.refused, written.waited
    else:
        with session.atomic():
            settled = settle(session, settlements, dead_letter_cap)
            if settled.refilled:
                low_water.forget()
            taken = _take(session, request, low_water) if request else Taken()
        refused, refilled, evicted = frozenset(settled.refused), settled.refilled, settled.evicted
        waited = settled.waited
    notify.from_worker(session, refilled)
    notify.of_ends(session, waited)
    claims = list(taken.claims)
    if request and taken.limited:
        # In transactions of its own, since these lock the keys of limits in their order.
        more, again = _claim_on(session, request, taken, low_water)
        claims += more
        refilled = refilled | again
    return Exchange(claims=tuple(claims), refused=refused, evicted=evicted), refilled


def _take(session: Session, request: ClaimRequest, low_water: LowWater) -> Taken:
    if session.vendor.has_unnest:
        return exchange_in_one(session, (), request, low_water)[0]
    return claim(session, request)


def _claim_on(
    session: Session, request: ClaimRequest, taken: Taken, low_water: LowWater
) -> tuple[list[Claim], set[str]]:
    """Claim from the queues whose next jobs have limits, and what was left out because they come first; returns the
    queues that must be asked again too."""
    claims: list[Claim] = []
    again: set[str] = set()
    while taken.limited:
        request = _without(request, taken.claims)
        scarce = is_scarce(request)
        for queue in taken.limited[:1] if scarce else taken.limited:
            room = min(wanted_slots(request).get(queue, 0), request.limit)
            found, is_left = claim_limited(session, request.owner, queue, room, taken.now)
            claims += found
            request = _without(request, found)
            if is_left:
                again.add(queue)
        request = _after(request, taken.limited[0])
        if not scarce or request.limit <= 0 or not request.wants:
            break
        with session.atomic():
            taken = _take(session, request, low_water)
        claims += taken.claims
    return claims, again


def _without(request: ClaimRequest, claims: Sequence[Claim]) -> ClaimRequest:
    """What is left of a request after these claims."""
    if not claims:
        return request
    taken = Counter(column_text(claim.queue) for claim in claims)
    wants = tuple(replace(want, slots=want.slots - taken[column_text(want.queue)]) for want in request.wants)
    return replace(request, wants=wants, limit=request.limit - len(claims))


def _after(request: ClaimRequest, queue: str) -> ClaimRequest:
    """The part of a request that is about the queues after this one."""
    names = [column_text(want.queue) for want in request.wants]
    return replace(request, wants=request.wants[names.index(queue) + 1 :])

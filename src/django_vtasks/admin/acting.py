"""What can be done to jobs: the permission it needs, its confirmation, its execution, its trace in the log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.admin.models import CHANGE, DELETION
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from ..jobs.errors import QueueError
from ..jobs.model import JobState
from ..operating import bulk
from ..operating.aliases import Alias
from ..operating.wording import counted
from ..stores.base import CancelStatus, JobFilter
from . import links
from .base import chosen_alias, record, tell_problem
from .permissions import Permission, may, require
from .queries import Query
from .rows import job_row

if TYPE_CHECKING:
    from .base import StorePage

LOGGED_ONE_BY_ONE = 100
"""An action on up to this many jobs is written into the log of each; on more, once."""

SAMPLE = 10

SECONDS = 20.0
"""How long one request may be at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something to do to jobs of some states."""

    name: str
    label: str
    past: str
    permission: Permission
    states: frozenset[JobState]
    explanation: str
    refusal: str = "in that state no more"
    style: str = "vt-plain"
    asks: bool = False

    def allowed(self, request: HttpRequest) -> bool:
        """Whether the user may do it."""
        return may(request, self.permission)


_WAITING = frozenset((JobState.READY, JobState.SCHEDULED))

ACTIONS = {
    action.name: action
    for action in (
        Action(
            name="retry",
            label="Retry",
            past="Retried",
            permission=Permission.OPERATE,
            states=frozenset((JobState.DEAD,)),
            explanation="Each dead letter is enqueued again as a new job that knows the old one. One whose unique key "
            "is taken is left alone.",
            refusal="gone, undecodable or with a unique key that is taken",
            style="",
        ),
        Action(
            name="hasten",
            label="Run now",
            past="Made ready",
            permission=Permission.OPERATE,
            states=frozenset((JobState.SCHEDULED,)),
            explanation="Each job becomes ready at once instead of at its time.",
            style="",
        ),
        Action(
            name="cancel",
            label="Cancel",
            past="Cancelled",
            permission=Permission.OPERATE,
            states=_WAITING | {JobState.LEASED},
            explanation="A waiting job becomes a dead letter and never starts; a running one is told to stop.",
        ),
        Action(
            name="discard",
            label="Discard",
            past="Discarded",
            permission=Permission.DISCARD,
            states=_WAITING | {JobState.DEAD, JobState.SUCCEEDED, JobState.DISCARDED},
            explanation="Each job is removed with its result and its dead letter, and frees its unique key. It cannot "
            "be brought back.",
            style="vt-danger",
            asks=True,
        ),
    )
}


def actions_for(state: JobState) -> list[Action]:
    """What can be done to jobs of a state."""
    return [action for action in ACTIONS.values() if state in action.states]


def act(page: "StorePage", request: HttpRequest) -> HttpResponse:
    """One request for an action: on chosen ids or on all that match, confirmed or still to be confirmed."""
    alias, action = chosen_alias(request), ACTIONS.get(request.POST.get("action", ""))
    if alias is None or action is None:
        messages.error(request, "Choose an action and a known alias.")
        return HttpResponseRedirect(links.page("job_changelist"))
    require(request, action.permission)
    query = Query.of(request, alias.name)
    back = HttpResponseRedirect(_back(request, action, query))
    if query.state not in action.states:
        messages.error(request, f"{action.label} is not possible for jobs of this state.")
        return back
    try:
        meant = _meant(request, alias, query)
        if not meant.ids:
            messages.warning(request, "No job was chosen, or none matches any more.")
            return back
        if "confirmed" not in request.POST and ("matching" in request.POST or len(meant.ids) > 1 or action.asks):
            return _confirm(page, request, alias, action, (query, meant))
        _do(request, alias, action, query, meant)
    except QueueError as error:
        tell_problem(request, alias, error)
    return back


def _meant(request: HttpRequest, alias: Alias, query: Query) -> bulk.Meant:
    if "matching" in request.POST:
        return bulk.meant_by(alias.admin, query.which)
    return bulk.Meant(ids=tuple(dict.fromkeys(request.POST.getlist("id"))))


def _back(request: HttpRequest, action: Action, query: Query) -> str:
    job_id = request.POST.get("id")
    if "from_list" in request.POST or not job_id or action.name == "discard":
        return query.without_place().url()
    return links.job(query.alias, job_id)


def _confirm(
    page: "StorePage", request: HttpRequest, alias: Alias, action: Action, chosen: tuple[Query, bulk.Meant]
) -> HttpResponse:
    query, meant = chosen
    sample = alias.admin.page(JobFilter(state=query.state, ids=meant.ids[:SAMPLE]), limit=SAMPLE).records
    return page.show(
        request,
        "confirm",
        f"{action.label} {counted(len(meant.ids), 'job')}?",
        action=action,
        query=query,
        matching="matching" in request.POST,
        ids=() if "matching" in request.POST else meant.ids,
        number=len(meant.ids),
        more=meant.more,
        sample=[job_row(alias.name, record) for record in sample],
        from_list="from_list" in request.POST,
        trail=(("Jobs", _back(request, action, query)), (action.label, None)),
        back_url=_back(request, action, query),
        takes_rate=action.name == "retry",
    )


def _do(request: HttpRequest, alias: Alias, action: Action, query: Query, meant: bulk.Meant) -> None:
    rate = _rate(request)
    if isinstance(rate, str):
        messages.error(request, rate)
        return
    changed, note = _execute(alias, action, query.state, meant.ids, rate)
    at_rate = f" at {rate:g} a second" if rate else ""
    _log(request, action, query, meant, f"{action.past} {counted(changed, 'job')}{at_rate}{note}")
    text = f"{action.past} {counted(changed, 'job')}{at_rate}{note}."
    if meant.more:
        text += f" More than {bulk.AT_MOST:,} match: repeat the action for the rest."
    (messages.success if changed else messages.warning)(request, text)


def _rate(request: HttpRequest) -> float | str | None:
    text = request.POST.get("rate", "").strip()
    if not text:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.001 <= rate <= 1_000_000:
        return f"The rate must be a number of jobs per second between 0.001 and 1,000,000, not {text!r}."
    return rate


def _execute(alias: Alias, action: Action, state: JobState, ids: Sequence[str], rate: float | None) -> tuple[int, str]:
    """How many jobs were changed, and what is to be said about the others."""
    budget = bulk.Budget(SECONDS)
    if action.name == "cancel":
        return _cancel(alias, ids, budget)
    if action.name == "retry":
        done = bulk.redrive(alias.admin, ids, rate=rate, budget=budget)
    elif action.name == "hasten":
        done = bulk.hasten(alias.admin, ids, budget=budget)
    else:
        done = bulk.discard(alias.admin, state, ids, budget=budget)
    return done.changed, _left_alone(done.left_alone, action.refusal) + _not_reached(done.not_reached)


def _cancel(alias: Alias, ids: Sequence[str], budget: bulk.Budget) -> tuple[int, str]:
    answers = bulk.cancel(alias.client, ids, budget=budget)
    requested, cancelled = answers[CancelStatus.REQUESTED], answers[CancelStatus.CANCELLED]
    told = f"; {counted(requested, 'running job is', 'running jobs are')} told to stop" if requested else ""
    rest = _left_alone(answers.total() - requested - cancelled, "over already")
    return cancelled + requested, told + rest + _not_reached(len(ids) - answers.total())


def _not_reached(number: int) -> str:
    return f"; {number:,} not reached within {SECONDS:g} s, repeat the action for them" if number else ""


def _left_alone(number: int, why: str) -> str:
    return f"; {counted(number, 'job')} left alone ({why})" if number else ""


def _log(request: HttpRequest, action: Action, query: Query, meant: bulk.Meant, message: str) -> None:
    flag = DELETION if action.name == "discard" else CHANGE
    if "matching" in request.POST or len(meant.ids) > LOGGED_ONE_BY_ONE:
        record(request, of="", about=query.in_words(), message=f"{message}.", flag=flag)
        return
    for job_id in meant.ids:
        record(request, of=job_id, about=f"job {job_id} of {query.alias}", message=f"{message}.", flag=flag)

"""Dead letters: what failed alike is one group, a group is one click from being retried."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse

from .. import models
from ..jobs.errors import QueueError
from ..jobs.model import DeadReason, JobState
from ..operating.aliases import Alias
from ..operating.wording import short_class, shortened
from ..stores.base import LetterGroup
from ..tasks.redaction import veiled_group
from . import links
from .base import StorePage, View, chosen_alias
from .jobs import listing
from .queries import Query

GROUPS = 50
"""How many groups are listed, the largest first."""


@admin.register(models.DeadLetter)
class DeadLetterPage(StorePage):
    """Groups of dead letters, and the letters of one group or of all."""

    def routes(self) -> list[tuple[str, str, View]]:
        """One page."""
        return [("", "changelist", self.letters)]

    def letters(self, request: HttpRequest) -> HttpResponse:
        """Groups, and the letters that the filter matches."""
        alias = chosen_alias(request)
        query = Query.of(request, alias.name if alias else "", JobState.DEAD)
        context = listing(request, alias, query)
        return self.show(
            request,
            "letters",
            "Dead letters",
            groups=_groups(alias, query) if alias and "problem" not in context else [],
            reasons=[(reason.value, reason.value.replace("_", " ")) for reason in DeadReason],
            all_url=query.without_place().url(fingerprint="") if query.fingerprint else None,
            **context,
        )


def _groups(alias: Alias, query: Query) -> list[dict[str, Any]]:
    try:
        groups = list(map(veiled_group, alias.admin.letter_groups(limit=GROUPS)))
    except QueueError:
        return []
    return [_group(alias.name, group, query) for group in groups]


def _group(alias: str, group: LetterGroup, query: Query) -> dict[str, Any]:
    return {
        "group": group,
        "error": short_class(group.exception_class) or "unknown error",
        "message": shortened(group.message, 160),
        "url": links.jobs(alias, state="dead", fingerprint=group.fingerprint),
        "current": bool(group.fingerprint) and group.fingerprint == query.fingerprint,
    }

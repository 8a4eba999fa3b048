"""Which jobs a list is about, read from the address or from a form."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.http import HttpRequest, QueryDict

from ..jobs.model import DeadReason, JobState
from ..stores.base import JobFilter
from ..tasks.redaction import searcher
from . import links

PER_PAGE = 50

LISTED = (JobState.READY, JobState.SCHEDULED, JobState.LEASED, JobState.SUCCEEDED, JobState.DISCARDED)
"""The states of the list of jobs; dead ones have a page of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What a list shows. Empty text restricts nothing."""

    alias: str
    state: JobState
    queue: str = ""
    func: str = ""
    text: str = ""
    fingerprint: str = ""
    reason: str = ""
    after: str = ""

    @classmethod
    def of(cls, request: HttpRequest, alias: str, state: JobState | None = None) -> "Query":
        """The query of a request; an unknown state is that of ready jobs, an unknown reason restricts nothing."""
        given: QueryDict = request.POST if request.method == "POST" else request.GET
        reason = given.get("reason", "")
        return cls(
            alias=alias,
            state=state or _state(given.get("state", "")),
            queue=given.get("queue", "").strip(),
            func=given.get("func", "").strip(),
            text=given.get("q", "").strip(),
            fingerprint=given.get("fingerprint", ""),
            reason=reason if reason in DeadReason else "",
            after=given.get("after", ""),
        )

    @property
    def which(self) -> JobFilter:
        """The filter for the store."""
        return JobFilter(
            state=self.state,
            queue=self.queue or None,
            func=self.func or None,
            text=self.text or None,
            fingerprint=self.fingerprint or None,
            reason=self.reason or None,
            searchable=searcher(),
        )

    @property
    def restricts(self) -> bool:
        """Whether anything but alias and state narrows the list."""
        return any((self.queue, self.func, self.text, self.fingerprint, self.reason))

    @property
    def parts(self) -> Mapping[str, str]:
        """Everything but the place in the list, as it stands in an address; empty parts are left out."""
        named = {
            "alias": self.alias,
            "state": self.state.value,
            "queue": self.queue,
            "func": self.func,
            "q": self.text,
            "fingerprint": self.fingerprint,
            "reason": self.reason,
        }
        return {name: value for name, value in named.items() if value}

    def url(self, **changes: Any) -> str:
        """The address of the list, with some parts changed."""
        return links.jobs(**{**self.parts, "after": self.after, **changes})

    def in_words(self) -> str:
        """What the filter says, for the admin log and for confirmation."""
        named = {"queue": self.queue, "task": self.func, "text": self.text, "reason": self.reason}
        said = [f"{name} {value!r}" for name, value in named.items() if value]
        said += [f"fingerprint {self.fingerprint!r}"] if self.fingerprint else []
        return ", ".join((f"alias {self.alias!r}", f"state {self.state.value}", *said))

    def without_place(self) -> "Query":
        """The first page of the same list."""
        return replace(self, after="")


def _state(name: str) -> JobState:
    return JobState(name) if name in JobState else JobState.READY

"""Addresses of the pages."""

from collections.abc import Mapping
from typing import Any

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils.http import urlencode

_PREFIX = "admin:django_vtasks_"


def page(name: str, *args: str, query: Mapping[str, Any] | None = None) -> str:
    """The address of a page by its short name, such as `job_changelist`; empty parts of the query are left out."""
    given = {key: str(value) for key, value in (query or {}).items() if value not in (None, "")}
    address = reverse(_PREFIX + name, args=[quote(arg) for arg in args])
    return f"{address}?{urlencode(given)}" if given else address


def job(alias: str, job_id: str) -> str:
    """The page of one job."""
    return page("job_change", job_id, query={"alias": alias})


def jobs(alias: str, **query: Any) -> str:
    """The list of jobs of one alias; `state`, `queue` and the like narrow it. Dead ones have their own page."""
    name = "deadletter_changelist" if query.get("state") == "dead" else "job_changelist"
    if name == "deadletter_changelist":
        query.pop("state")
    return page(name, query={"alias": alias, **query})

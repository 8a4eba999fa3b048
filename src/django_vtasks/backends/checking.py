"""System checks of one TASKS entry; they open nothing and import no driver."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from ..conf import Problems, retention_of
from ..jobs import zstd
from ..jobs.errors import InvalidOptions

if TYPE_CHECKING:
    from .base import VTasksBaseBackend

ENTRY_KEYS = frozenset(("BACKEND", "QUEUES", "OPTIONS", "DLQ_CAP"))
"""What may stand in a TASKS entry."""


def check_entry(backend: "VTasksBaseBackend") -> list[CheckMessage]:
    """What is wrong with the shape of the entry, whatever its store."""
    where, params = f"TASKS[{backend.alias!r}]", backend.params
    messages = [_unknown(f"{where} has the unknown key", key, ENTRY_KEYS) for key in params if key not in ENTRY_KEYS]
    messages += _check_queues(where, params.get("QUEUES", []))
    options = params.get("OPTIONS", {})
    if not isinstance(options, Mapping):
        hint = "Leave it out when there are none."
        return [*messages, _error("E004", f"{where}['OPTIONS'] must be a dict, not {options!r}.", hint)]
    messages += [
        _unknown(f"{where}['OPTIONS'] has the unknown key", key, backend.known_options)
        for key in options
        if key not in backend.known_options
    ]
    problems = Problems()
    retention_of(backend.alias, problems)
    return messages + [_error("E002", sentence, None) for sentence in problems.found]


def check_database(backend: "VTasksBaseBackend") -> list[CheckMessage]:
    """What a database backend needs."""
    messages: list[CheckMessage] = []
    if not apps.is_installed("django_vtasks.db"):
        message = f"TASKS[{backend.alias!r}] keeps jobs in the database, but its app is not installed."
        messages.append(_error("E001", message, "Add 'django_vtasks.db' to INSTALLED_APPS and run migrate."))
    alias = backend.options.get("DATABASE")
    if alias is not None and alias not in django_settings.DATABASES:
        message = f"TASKS[{backend.alias!r}]['OPTIONS']['DATABASE'] is {alias!r}, which DATABASES does not have."
        messages.append(_error("E005", message, f"Name one of {sorted(django_settings.DATABASES)}."))
    return messages


def check_valkey(backend: "VTasksBaseBackend") -> list[CheckMessage]:
    """What a Valkey backend needs."""
    where, options = f"TASKS[{backend.alias!r}]['OPTIONS']", backend.options
    messages: list[CheckMessage] = []
    cache = options.get("cache_alias")
    if cache is None and not options.get("BROKER_URL"):
        hint = "Name an alias of CACHES in 'cache_alias', or give a URL in 'BROKER_URL'."
        messages.append(_error("E006", f"{where} does not say where the server is.", hint))
    if cache is None and options.get("BROKER_URL"):
        messages += _check_urls(where, options)
    if cache is not None and cache not in django_settings.CACHES:
        message = f"{where}['cache_alias'] is {cache!r}, which CACHES does not have."
        messages.append(_error("E007", message, f"Name one of {sorted(django_settings.CACHES)}."))
    if find_spec("valkey") is None and find_spec("redis") is None:
        hint = "pip install 'django-vtasks[valkey]' (or 'django-vtasks[redis]')."
        messages.append(_error("E008", f"{where} needs a client library, and none is installed.", hint))
    if not zstd.available():
        hint = "pip install 'django-vtasks[valkey]', or use Python 3.14."
        message = "Jobs of more than 1024 bytes cannot be written or read: there is no zstd in this Python."
        messages.append(Caution(message, hint=hint, id="django_vtasks.W012"))
    return messages


def _check_urls(where: str, options: Mapping[str, Any]) -> list[CheckMessage]:
    from ..stores.valkey.endpoints import parse_urls
    from .valkey import broker_urls

    try:
        parse_urls(broker_urls(options["BROKER_URL"]), cluster=bool(options.get("CLUSTER_MODE")))
    except InvalidOptions as error:
        hint = "Write it like 'valkey://localhost:6379/0'."
        return [_error("E006", f"{where}['BROKER_URL'] cannot be used: {error}.", hint)]
    return []


def _check_queues(where: str, queues: Any) -> list[CheckMessage]:
    if isinstance(queues, list | tuple | set | frozenset):
        wrong = [name for name in queues if not isinstance(name, str) or not name]
        hint = "A queue's name is text."
        return [_error("E003", f"{where}['QUEUES'] contains {name!r}.", hint) for name in wrong]
    hint = "Give a list of names, [] to accept any name, or leave it out to accept only 'default'."
    return [_error("E003", f"{where}['QUEUES'] must be a list of names, not {queues!r}.", hint)]


def _unknown(what: str, key: Any, known: frozenset[str]) -> CheckMessage:
    near = get_close_matches(str(key), known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(sorted(known))}."
    return Caution(f"{what} {key!r}, which has no effect.", hint=hint, id="django_vtasks.W010")


def _error(number: str, message: str, hint: str | None) -> CheckMessage:
    return Error(message, hint=hint, id=f"django_vtasks.{number}")

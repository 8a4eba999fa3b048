"""Database aliases for tests: from a URL to a migrated alias of `django.db.connections`, and back to empty."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from django.apps import apps
from django.db import connections

from tests.project.dburl import settings_from_url
from tests.support.servers import unavailable


def url_of(alias: str) -> str:
    """Return the URL of the database behind an alias, for processes that a test starts."""
    entry = connections[alias].settings_dict
    if connections[alias].vendor == "sqlite":
        return f"sqlite://{entry['NAME']}"
    scheme = "mysql" if connections[alias].vendor == "mysql" else "postgresql"
    login = quote(entry["USER"]) + (f":{quote(entry['PASSWORD'])}" if entry["PASSWORD"] else "")
    return f"{scheme}://{login}@{entry['HOST']}:{entry['PORT']}/{entry['NAME']}"


def migrated_alias(alias: str, url: str, blocker: Any) -> Iterator[str]:
    """Add `alias` to `django.db.connections`, create and migrate its test database; drop both in the end."""
    entry = settings_from_url(url)
    entry["TEST"] = {"NAME": entry["NAME"] if alias == "sqlite" else f"test_{alias}_{_worker()}"}
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: entry})[alias]
    creation = connections[alias].creation
    with blocker.unblock():
        creation.create_test_db(verbosity=0, autoclobber=True)
    yield alias
    with blocker.unblock():
        creation.destroy_test_db(entry["NAME"], verbosity=0)
    connections.settings.pop(alias)


@contextmanager
def temporary_alias(alias: str, url: str, **entry: Any) -> Iterator[str]:
    """An alias for a URL, for as long as the block runs."""
    settings = settings_from_url(url) | entry
    connections.settings[alias] = connections.configure_settings({"default": {}, alias: settings})[alias]
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        connections.settings.pop(alias)


def empty(alias: str) -> None:
    """Delete every row of the library's own tables and of the test project's."""
    connection = connections[alias]
    with connection.constraint_checks_disabled(), connection.cursor() as cursor:
        for table in _tables():
            cursor.execute(f"DELETE FROM {connection.ops.quote_name(table)}")
    connection.close()


def require_mysqlclient() -> None:
    """Skip (fail when `CI` is set) where Django cannot talk to MariaDB."""
    if importlib.util.find_spec("MySQLdb") is None:
        unavailable("mysqlclient is missing: apt-get install default-libmysqlclient-dev pkg-config, then make venv")


def _tables() -> list[str]:
    labels = {"db", "django_vtasks", "project"}
    models = [model for model in apps.get_models() if model._meta.app_label in labels and model._meta.managed]
    return [model._meta.db_table for model in models]


def _worker() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


def closing[T](function: Callable[[str], T], alias: str) -> T:
    """What a function returns for an alias; closes the connection, which is the calling thread's own."""
    try:
        return function(alias)
    finally:
        connections[alias].close()

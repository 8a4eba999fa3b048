"""Settings of the small project that the tests use, in the test process and in processes that tests start.

`VTASKS_TEST_DB` (sqlite, postgres or mariadb) and `VTASKS_TEST_DB_URL` choose the default database of a started
process; inside pytest the default is an SQLite file and other vendors are aliases (`tests/support/databases.py`).
`VTASKS_TEST_SETTINGS` is a JSON object of settings for a started process; they win over the ones below.
"""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
from pathlib import Path

from tests.project.dburl import settings_from_url

SECRET_KEY = "tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.project.urls"
STATIC_URL = "/static/"


def _installed(*names: str) -> list[str]:
    """Leave out what does not exist yet."""
    try:
        return [name for name in names if (spec := importlib.util.find_spec(name)) is not None and spec.origin]
    except ModuleNotFoundError:
        return []


INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    *_installed("django_vtasks", "django_vtasks.db"),
    "tests.project",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def _default_database() -> dict[str, object]:
    url = os.environ.get("VTASKS_TEST_DB_URL", "")
    vendor = os.environ.get("VTASKS_TEST_DB", "sqlite")
    if url:
        return settings_from_url(url)
    if vendor != "sqlite":
        raise RuntimeError(f"VTASKS_TEST_DB={vendor} needs VTASKS_TEST_DB_URL, e.g. postgresql://user@host:port/name")
    file = Path(tempfile.gettempdir()) / f"vtasks-tests-{os.getpid()}.sqlite3"
    return settings_from_url("sqlite://") | {"TEST": {"NAME": str(file)}}


DATABASES = {"default": _default_database()}

TASKS = {"default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend"}}

globals().update(json.loads(os.environ.get("VTASKS_TEST_SETTINGS", "{}")))

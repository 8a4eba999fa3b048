"""Settings of the demo. Everything it writes is in one folder: `.demo`, or the one `DEMO_DIR` names."""

import os
from pathlib import Path

from django_vtasks.scheduler import crontab

HERE = Path(__file__).resolve().parent
DEMO_DIR = Path(os.environ.get("DEMO_DIR") or HERE.parents[2] / ".demo")

SECRET_KEY = "only for the demo, which listens on the loopback address alone"
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "gallery.urls"
USE_TZ = True
TIME_ZONE = "UTC"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_vtasks",
    "django_vtasks.db",
    "gallery",
]

MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
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

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DEMO_DIR / "db.sqlite3",
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
        },
    }
}

STATIC_URL = "/static/"
MEDIA_URL = "/media/"
MEDIA_ROOT = DEMO_DIR / "media"

# --- the task queue

TASKS = {"default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend"}}

if os.environ.get("DEMO_VALKEY_URL"):
    # The same demo on Valkey or Redis: only this setting changes.
    TASKS["default"] = {
        "BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend",
        "OPTIONS": {"BROKER_URL": os.environ["DEMO_VALKEY_URL"]},
    }

VTASKS_CONCURRENCY = 4

VTASKS_SCHEDULE = {
    "heartbeat": {
        "task": "gallery.tasks.heartbeat",
        "schedule": 10,
        "description": "Counts, so that the front page shows that a scheduler runs",
    },
    "tidy": {
        "task": "gallery.tasks.tidy",
        "schedule": crontab(hour=4, minute=30),
        "overlap": "skip",
        "description": "Deletes pictures that are older than a week",
    },
}

"""Django settings for this project and for the 3.2 line, which read the same ones."""

import os
from urllib.parse import urlsplit

SECRET_KEY = "benchmark"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STORE, URL = os.environ["BENCH_STORE"], os.environ["BENCH_URL"]
INSTALLED_APPS = ["django_vtasks", "django_vtasks.db"]
VTASKS_QUEUES = ["default"]
VTASKS_RESULT_TTL = int(os.environ.get("BENCH_RESULT_TTL", "0"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
TASKS = {"default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend"}}
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
if STORE == "valkey":
    INSTALLED_APPS.remove("django_vtasks.db")
    TASKS = {
        "default": {"BACKEND": "django_vtasks.backends.valkey.ValkeyTaskBackend", "OPTIONS": {"BROKER_URL": URL}},
    }
elif STORE == "postgres":
    parts = urlsplit(URL)
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
        "CONN_MAX_AGE": 600,
    }
else:
    DATABASES["default"] |= {
        "NAME": URL,
        "CONN_MAX_AGE": 600,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }

"""From a database URL to an entry of DATABASES; imports nothing that a worker process would not have."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

ENGINES = {
    "sqlite": "django.db.backends.sqlite3",
    "postgres": "django.db.backends.postgresql",
    "postgresql": "django.db.backends.postgresql",
    "mysql": "django.db.backends.mysql",
    "mariadb": "django.db.backends.mysql",
}


def settings_from_url(url: str) -> dict[str, Any]:
    """Return the entry of DATABASES that a URL stands for; `sqlite:///path` is a file, `sqlite://` is memory."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        return {
            "ENGINE": ENGINES["sqlite"],
            "NAME": parts.path or ":memory:",
            "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
        }
    entry: dict[str, Any] = {
        "ENGINE": ENGINES[parts.scheme],
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }
    if entry["ENGINE"] == ENGINES["mysql"]:
        entry["OPTIONS"] = {"charset": "utf8mb4"}
    return entry

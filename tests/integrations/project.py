"""A small project that has another package installed, in a folder and in processes of its own."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.processes import ROOT, process_environment

BASE = """
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent
SECRET_KEY = "x" * 50
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL, MEDIA_URL = "/static/", "/media/"
MEDIA_ROOT = BASE_DIR / "media"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": BASE_DIR / "db.sqlite3",
        "OPTIONS": {
            "timeout": 60,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }
}
TASKS = {"default": {"BACKEND": "django_vtasks.backends.db.DatabaseTaskBackend", "QUEUES": []}}
ROOT_URLCONF = "urls"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_vtasks",
    "django_vtasks.db",
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
"""
URLS = """
from django.contrib import admin
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
"""
PRELUDE = "import django\ndjango.setup()\n"


def package(name: str) -> ModuleType:
    """The package under test; where it is missing the module is skipped, or fails when `CI` is set."""
    return importlib.import_module(name) if os.environ.get("CI") else pytest.importorskip(name)


class Project:
    """The folder with `settings.py`, `urls.py` and whatever a test writes there."""

    def __init__(self, folder: Path, settings: str = "", **files: str) -> None:
        self.folder = folder
        texts = {"settings": BASE + textwrap.dedent(settings), "urls": URLS} | files
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(text))

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end; returns what it printed. A failing one fails the test."""
        return self._run("-m", "django", *arguments)

    def python(self, code: str) -> str:
        """Run code as a web process of the project would; returns what it printed."""
        return self._run("-c", PRELUDE + textwrap.dedent(code)).strip()

    def work(self) -> str:
        """Run every job that is due, in a real worker; returns its log."""
        return self.manage("runworker", "--drain")

    def _run(self, *arguments: str) -> str:
        path = os.pathsep.join((str(self.folder), str(ROOT / "src")))
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=process_environment(PYTHONPATH=path, DJANGO_SETTINGS_MODULE="settings"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

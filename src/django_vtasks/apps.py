"""The Django app: registers the system checks, which load when they run."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from django.apps import AppConfig
from django.core import checks


class VTasksConfig(AppConfig):
    """The app `django_vtasks`."""

    name = "django_vtasks"
    verbose_name = "Tasks"

    def ready(self) -> None:
        """Register the checks, and load the framework so that its own check runs too."""
        from .framework import task_backends

        checks.register(_run_checks, "vtasks")
        for alias in task_backends:
            # Loads the driver, which an event loop would wait for at its first enqueue; opens nothing. What is wrong
            # with a backend is for the checks to say.
            with suppress(Exception):
                getattr(task_backends[alias], "client_store", None)


def _run_checks(app_configs: Any, **kwargs: Any) -> Sequence[checks.CheckMessage]:
    from .checks import run_checks

    return run_checks(app_configs, **kwargs)

"""System checks of one TASKS entry; they open nothing."""

from typing import TYPE_CHECKING

from django.core.checks import CheckMessage

if TYPE_CHECKING:
    from .base import VTasksBaseBackend


def check_backend(backend: "VTasksBaseBackend") -> list[CheckMessage]:
    """What is wrong with the entry of this backend."""
    del backend
    return []

"""System checks of the package, tag `vtasks`. Loaded when checks run, never at start."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage


def run_checks(_app_configs: Any = None, **_kwargs: Any) -> Sequence[CheckMessage]:
    """Everything that can be wrong with the settings of this package."""
    return []

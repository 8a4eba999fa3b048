"""System checks of the package, tag `vtasks`. Loaded when checks run, never at start; they open nothing.

W001 to W009 and W013 are about schedules, E002 and W011 about other settings; those of a TASKS entry are in
`backends.checking` and run with the framework's own check.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from .conf import DEFAULTS, settings_problems

GONE = {
    "VTASKS_BATCH_QUEUES": "Since 3.0 it is part of VTASKS_QUEUES: {name: {'batch': {'count': ..., 'timeout': ...}}}.",
    "VTASKS_COMPRESS_THRESHOLD": "Since 2.0 it cannot be changed.",
}
"""Settings of older lines, and what became of them."""


def run_checks(_app_configs: Any = None, **_kwargs: Any) -> Sequence[CheckMessage]:
    """Everything that is wrong with the settings of this package."""
    from .scheduling.sources import check_problems

    wrong: list[CheckMessage] = [Error(sentence, id="django_vtasks.E002") for sentence in settings_problems()]
    for number, message, hint in check_problems():
        wrong.append(Caution(message, hint=hint, id=f"django_vtasks.{number}"))
    return wrong + [
        _unknown(name) for name in dir(django_settings) if name.startswith("VTASKS_") and name not in DEFAULTS
    ]


def _unknown(name: str) -> CheckMessage:
    near = get_close_matches(name, DEFAULTS, n=1)
    hint = GONE.get(name) or (f"Did you mean {near[0]}?" if near else "See the reference of settings.")
    return Caution(f"The setting {name} has no effect.", hint=hint, id="django_vtasks.W011")

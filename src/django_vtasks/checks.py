"""System checks of the package, tag `vtasks`. Loaded when checks run, never at start; they open nothing.

W001 to W009 are about `VTASKS_SCHEDULE`, E002 about other settings; those of a TASKS entry are in
`backends.checking` and run with the framework's own check.
"""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from .conf import settings_problems


def run_checks(_app_configs: Any = None, **_kwargs: Any) -> Sequence[CheckMessage]:
    """Everything that is wrong with the settings of this package."""
    from .scheduling.sources import check_problems

    wrong: list[CheckMessage] = [Error(sentence, id="django_vtasks.E002") for sentence in settings_problems()]
    for number, message, hint in check_problems():
        wrong.append(Caution(message, hint=hint, id=f"django_vtasks.{number}"))
    return wrong

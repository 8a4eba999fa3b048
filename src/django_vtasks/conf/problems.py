"""Collects everything that is wrong with a configuration, so that it is reported in one go."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from ..jobs.errors import InvalidOptions


class InvalidSettings(InvalidOptions, ImproperlyConfigured):
    """Raised when settings or backend options are wrong; the message lists every problem found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a number may be: `above` excludes the bound, `least` includes it."""

    least: float | None = None
    above: float | None = None
    whole: bool = False

    def problem(self, value: float) -> str | None:
        """What is wrong with the number, None when nothing is."""
        if not math.isfinite(value):
            return "a finite number"
        if self.whole and value != int(value):
            return "a whole number"
        if self.least is not None and value < self.least:
            return f"at least {self.least:g}"
        if self.above is not None and value <= self.above:
            return f"greater than {self.above:g}"
        return None


COUNT = Bounds(least=1, whole=True)
WHOLE = Bounds(least=0, whole=True)
SECONDS = Bounds(above=0)
SECONDS_OR_ZERO = Bounds(least=0)


class Problems:
    """The problems found so far, as sentences."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, sentence: str) -> None:
        """Note one."""
        self.found.append(sentence)

    def number(self, name: str, value: Any, bounds: Bounds, *, default: float | None = None) -> float | None:
        """The value as a float when it is within the bounds; None stays None; else the problem is noted."""
        if value is None:
            return default
        if isinstance(value, timedelta) and not bounds.whole:
            value = value.total_seconds()
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.add(f"{name} must be a number, not {value!r}.")
            return default
        wrong = bounds.problem(value)
        if wrong:
            self.add(f"{name} must be {wrong}, not {value!r}.")
            return default
        return float(value)

    def whole(self, name: str, value: Any, bounds: Bounds, *, default: int) -> int:
        """As `number`, for whole numbers."""
        number = self.number(name, value, bounds)
        return default if number is None else int(number)

    def text(self, name: str, value: Any) -> str | None:
        """The value when it is text; an empty one counts as absent."""
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            self.add(f"{name} must be text, not {value!r}.")
            return None
        return value

    def keys(
        self, name: str, given: Iterable[str], known: Iterable[str], hints: Mapping[str, str] | None = None
    ) -> None:
        """Note every key that is not known, with the one probably meant."""
        choices = sorted(known)
        for key in given:
            if key in choices:
                continue
            near = get_close_matches(str(key), choices, n=1)
            hint = (hints or {}).get(key) or (f"did you mean {near[0]!r}?" if near else f"known are {choices}.")
            self.add(f"{name} has the unknown key {key!r}: {hint}")

    def raise_if_any(self) -> None:
        """Raise InvalidSettings (an ImproperlyConfigured) that lists them all; return when there are none."""
        if not self.found:
            return
        if len(self.found) == 1:
            raise InvalidSettings(self.found[0])
        lines = "\n".join(f"  - {sentence}" for sentence in self.found)
        raise InvalidSettings(f"{len(self.found)} settings are wrong:\n{lines}")

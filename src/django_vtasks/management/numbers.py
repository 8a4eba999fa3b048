"""Numbers on a command line: types for argparse that say which are taken."""

import argparse
import math
from collections.abc import Callable


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """The type of whole numbers within bounds."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"a whole number is needed, not {text!r}") from None
        if number < least or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"a number {bounds} is needed, not {number}")
        return number

    return parse


def seconds(text: str) -> float:
    """The type of durations."""
    return _seconds(text, "0 or more", 0)


def interval(least: float) -> Callable[[str], float]:
    """The type of the time between two looks at something."""
    return lambda text: _seconds(text, f"at least {least:g}", least)


def _seconds(text: str, bounds: str, least: float) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a number of seconds is needed, not {text!r}") from None
    if not (math.isfinite(number) and number >= least):
        raise argparse.ArgumentTypeError(f"a finite number of seconds, {bounds}, is needed, not {text!r}")
    return number

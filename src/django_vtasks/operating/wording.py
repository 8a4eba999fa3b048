"""Times, durations and numbers as an operator reads them. Pure."""

from datetime import UTC, datetime

from ..jobs.texts import visible

MINUTE, HOUR, DAY = 60, 3600, 86400


def duration(seconds: float) -> str:
    """A duration in its two largest units: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    whole = round(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return _two(whole, MINUTE, "min", 1, "s")
    if whole < DAY:
        return _two(whole, HOUR, "h", MINUTE, "min")
    return _two(whole, DAY, "d", HOUR, "h")


def _two(seconds: int, large: int, large_name: str, small: int, small_name: str) -> str:
    count, rest = divmod(seconds, large)
    rest //= small
    return f"{count} {large_name} {rest} {small_name}" if rest else f"{count} {large_name}"


def moment(epoch: float | None) -> str:
    """A moment in UTC, `2026-11-29 16:43:12 UTC`; a dash for none, the bare number for what is no date."""
    if epoch is None:
        return "-"
    try:
        return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(epoch)


def iso(epoch: float | None) -> str | None:
    """A moment for programs, in ISO 8601 with its zone; None for none or for what is no date."""
    if epoch is None:
        return None
    try:
        return datetime.fromtimestamp(epoch, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """A number with its noun: `1 job`, `2,000 jobs`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def shortened(text: str, length: int) -> str:
    """One line of at most `length` characters, all of which show."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 1]}…"


def short_class(dotted: str) -> str:
    """The last part of a dotted class path."""
    return dotted.rpartition(".")[2]

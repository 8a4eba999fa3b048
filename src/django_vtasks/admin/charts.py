"""Small charts of the last hour, as inline SVG: no script, and the colours of the admin's theme."""

from collections.abc import Callable, Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ..operating.history import History, Point
from ..operating.wording import counted, duration

WIDTH, HEIGHT = 180, 36
"""Units of the drawing; it is shown as wide as there is room."""

BAR = 0.7
"""The part of a minute's width that its bar takes."""


def done_chart(history: History) -> SafeString:
    """Bars for the jobs that ended in each minute, failed ones on top of those that succeeded."""
    points = history.points
    most = max((point.succeeded + point.failed for point in points), default=0)
    succeeded, failed = sum(point.succeeded for point in points), sum(point.failed for point in points)
    return _chart(
        f"Last hour: {counted(succeeded, 'job')} succeeded, {failed:,} failed; at most {most:,} in a minute",
        ("vt-chart-done", _bars(points, most, lambda _: 0, lambda point: point.succeeded)),
        ("vt-chart-failed", _bars(points, most, lambda point: point.succeeded, lambda point: point.failed)),
    )


def depth_chart(history: History) -> SafeString:
    """A step for how many jobs were ready at the end of each minute."""
    points = history.points
    depths = [point.depth or 0 for point in points]
    most = max(depths, default=0)
    oldest = max((point.oldest or 0.0 for point in points), default=0.0)
    return _chart(
        f"Last hour: at most {counted(most, 'job')} ready, the longest wait {duration(oldest)}",
        ("vt-chart-depth", _area(depths, most)),
    )


def _chart(title: str, *paths: tuple[str, str]) -> SafeString:
    drawn = format_html_join("", '<path class="{}" d="{}"/>', [one for one in paths if one[1]])
    return format_html(
        '<svg class="vt-chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">'
        "<title>{}</title>{}</svg>",
        *(WIDTH, HEIGHT, title, title, drawn),
    )


def _bars(points: Sequence[Point], most: int, base: Callable[[Point], int], size: Callable[[Point], int]) -> str:
    step = WIDTH / max(1, len(points))
    parts = []
    for place, point in enumerate(points):
        if size(point):
            # A bar that would be too low to see is drawn all the same.
            height = max(1.0, HEIGHT * size(point) / most)
            top = max(0.0, HEIGHT - HEIGHT * base(point) / most - height)
            parts.append(f"M{place * step:.1f} {top:.1f}h{step * BAR:.1f}v{height:.1f}h-{step * BAR:.1f}z")
    return "".join(parts)


def _area(values: Sequence[int], most: int) -> str:
    if not most:
        return ""
    step = WIDTH / len(values)
    tops = "".join(f"V{HEIGHT - HEIGHT * value / most:.1f}h{step:.1f}" for value in values)
    return f"M0 {HEIGHT}{tops}V{HEIGHT}z"

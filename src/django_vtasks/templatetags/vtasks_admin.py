"""Filters for moments and durations on the admin's pages."""

import time
from datetime import UTC, datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ..operating import wording

register = template.Library()

DASH = "\N{EN DASH}"


@register.filter
def moment(epoch: float | None) -> str | SafeString:
    """A moment as a distance from now, with the exact time for who points at it; a dash for none."""
    if not epoch:
        return DASH
    try:
        at = datetime.fromtimestamp(epoch, UTC)
    except (OverflowError, ValueError, OSError):
        return str(epoch)
    local = timezone.localtime(at)
    exact = local.strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    distance = epoch - time.time()
    text = f"in {wording.duration(distance)}" if distance > 0 else f"{wording.duration(-distance)} ago"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exact, text)


@register.filter
def exact(epoch: float | None) -> str:
    """A moment in the current time zone; a dash for none."""
    if not epoch:
        return DASH
    try:
        return timezone.localtime(datetime.fromtimestamp(epoch, UTC)).strftime("%Y-%m-%d %H:%M:%S %Z").strip()
    except (OverflowError, ValueError, OSError):
        return str(epoch)


@register.filter
def duration(seconds: float | None) -> str:
    """A duration in words; a dash for none."""
    return DASH if seconds is None else wording.duration(seconds)


@register.filter
def thousands(number: int | None) -> str:
    """A number with separators; a dash for none."""
    return DASH if number is None else f"{number:,}"

"""Texts from a store, as they may be written to a terminal, a page or a log. Pure."""

import re

_DECEIVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with every character that a terminal or browser obeys instead of showing it (escape sequences, changes
    of the direction of writing) as `\\uXXXX`, which keeps JSON the same. Newlines and tabs stay."""
    return _DECEIVING.sub(_escaped, text)


def visible_line(text: str) -> str:
    """As `visible`, with newlines and tabs as `\\n` and `\\t`: what is one line stays one."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"

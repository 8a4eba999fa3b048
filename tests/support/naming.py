"""Names of test cases: the same in every process, so that parallel runs collect the same tests."""

import re

LONGEST = 60
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def shown(value: object) -> str:
    """A value as it is written, without addresses, cut to a readable length."""
    text = _ADDRESS.sub("", repr(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."

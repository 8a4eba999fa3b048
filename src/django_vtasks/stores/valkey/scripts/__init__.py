"""The Lua scripts, one operation per file; the parts they share are in `shared`.

A line `-- include: a, b` stands for those parts. A part included inside a function costs nothing until it is called,
which matters since a script builds all its functions anew whenever it runs.
"""

import hashlib
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_INCLUDE = "-- include: "


class Script:
    """One script, complete with the parts it includes."""

    __slots__ = ("digest", "name", "source")

    def __init__(self, name: str, source: bytes) -> None:
        self.name = name
        self.source = source
        self.digest = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()

    def __repr__(self) -> str:
        return f"Script({self.name})"


@cache
def script(name: str) -> Script:
    """The script of one operation, read once per process."""
    lines = [*_part("base"), *_lines(f"{name}.lua")]
    return Script(name, "\n".join(lines).encode())


def _part(name: str) -> list[str]:
    return _lines(f"shared/{name}.lua")


def _lines(file: str) -> list[str]:
    lines: list[str] = []
    for line in map(str.strip, (_FOLDER / file).read_text().splitlines()):
        if line.startswith(_INCLUDE):
            for part in line.removeprefix(_INCLUDE).split(", "):
                lines += _part(part)
        elif line and not line.startswith("--"):
            lines.append(line)
    return lines

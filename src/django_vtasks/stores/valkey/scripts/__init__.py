"""The Lua scripts, one operation per file; the parts they share are in `shared`."""

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
    body = (_FOLDER / f"{name}.lua").read_text()
    includes = [line.removeprefix(_INCLUDE) for line in body.splitlines() if line.startswith(_INCLUDE)]
    shared = ["base", *", ".join(includes).split(", ")] if includes else ["base"]
    parts = [(_FOLDER / "shared" / f"{part}.lua").read_text() for part in shared]
    return Script(name, _without_comments("\n".join([*parts, body])).encode())


def _without_comments(source: str) -> str:
    lines = (line.strip() for line in source.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("--"))

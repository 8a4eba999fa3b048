"""What a mutation is: a fault that somebody could write, and who must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SRC = "src/django_vtasks/"
LUA = "stores/valkey/scripts/"
DB = "stores/database/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """A fault: texts replaced in files of the package, and who must notice."""

    name: str
    about: str
    changes: tuple[tuple[str, str, str], ...]
    scenarios: tuple[str, ...]
    stores: tuple[str, ...] = ("valkey", "postgres")

    def apply(self, root: Path) -> None:
        """Change the files under `root`. Raises LookupError when the product no longer has the text."""
        for name, old, new in self.changes:
            file = root / SRC / name
            text = file.read_text()
            if old not in text:
                raise LookupError(f"{self.name}: {name} has no {old!r} any more: adapt the mutation")
            file.write_text(text.replace(old, new))

"""Reads the source tree with `ast`: imports, calls, lengths. Judges nothing; `tests/test_architecture.py` does."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = "django_vtasks"

type Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module; `early` when it happens while the importing module loads."""

    name: str
    line: int
    early: bool

    @property
    def root(self) -> str:
        return self.name.partition(".")[0]

    def within(self, *packages: str) -> bool:
        return is_within(self.name, *packages)


@dataclass(frozen=True, kw_only=True)
class Module:
    """One source file and what was read off it."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path.name)

    @cached_property
    def length(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def imports(self) -> list[Import]:
        return list(self._imports(self.tree, early=True))

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """Dotted names of what is called, with `import x as y` and `from x import y` resolved."""
        found = [(dotted(node.func), node) for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return [(self._resolve(name), node) for name, node in found if name]

    @cached_property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    @cached_property
    def functions(self) -> list[tuple[str, Function]]:
        """Every function with its qualified name."""
        return list(self._functions(self.tree, ""))

    @cached_property
    def comment_blocks(self) -> list[tuple[int, int]]:
        """First line and length of each run of comment lines that stand alone."""
        blocks: list[tuple[int, int]] = []
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type != tokenize.COMMENT or token.line[: token.start[1]].strip():
                continue
            first, length = blocks[-1] if blocks else (0, 0)
            if blocks and token.start[0] == first + length:
                blocks[-1] = (first, length + 1)
            else:
                blocks.append((token.start[0], 1))
        return blocks

    def _imports(self, node: ast.AST, *, early: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            late = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(child)
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(name=alias.name, line=child.lineno, early=early)
            elif isinstance(child, ast.ImportFrom):
                base = self._base_of(child)
                for alias in child.names:
                    name = f"{base}.{alias.name}"
                    # Other people's code is not looked into: `from django import tasks` counts as `django.tasks`.
                    name = name if is_module(name) or not base.startswith(PACKAGE) else base
                    yield Import(name=name, line=child.lineno, early=early)
            else:
                yield from self._imports(child, early=early and not late)

    def _base_of(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        drop = node.level - (1 if self.path.name == "__init__.py" else 0)
        base = parts[: len(parts) - drop]
        return ".".join([*base, node.module] if node.module else base)

    def _functions(self, node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            inner = f"{prefix}{child.name}." if named else prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{child.name}", child
            yield from self._functions(child, inner)

    def _resolve(self, name: str) -> str:
        head, dot, rest = name.partition(".")
        return f"{self._bound_names.get(head, head)}{dot}{rest}"

    @cached_property
    def _bound_names(self) -> dict[str, str]:
        names = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return names


def modules_under(folder: Path, package: str) -> list[Module]:
    """Every Python file below `folder` as a module of `package`."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
        found.append(Module(name=name, path=path))
    return found


def within(modules: list[Module], *packages: str) -> list[Module]:
    """The modules that are one of `packages` or below it."""
    return [module for module in modules if is_within(module.name, *packages)]


def is_within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def is_module(name: str) -> bool:
    """Whether a dotted name of this repository is a module (and not something defined in one)."""
    base = (SRC if name.startswith(PACKAGE) else ROOT).joinpath(*name.split("."))
    return base.with_suffix(".py").is_file() or (base / "__init__.py").is_file()


def is_stdlib(name: str) -> bool:
    root = name.partition(".")[0]
    return root in sys.stdlib_module_names or root == "__future__"


def dotted(node: ast.AST) -> str:
    """`a.b.c` for a chain of names, else an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (base := dotted(node.value)):
        return f"{base}.{node.attr}"
    return ""


def body_length(function: Function) -> int:
    """Lines of a function from its first statement after the docstring to its end."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameter_count(function: Function) -> int:
    """Parameters without self or cls; `*args` and `**kwargs` count as one each."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    if positional and positional[0].arg in {"self", "cls"}:
        positional = positional[1:]
    return len(positional) + len(given.kwonlyargs) + bool(given.vararg) + bool(given.kwarg)


def early_cycles(modules: list[Module]) -> list[list[str]]:
    """Chains of modules that import each other while loading."""
    graph = {m.name: {i.name for i in m.imports if i.early and i.name != m.name} for m in modules}
    done: set[str] = set()
    cycles: list[list[str]] = []

    def visit(name: str, chain: list[str]) -> None:
        if name in chain:
            cycles.append([*chain[chain.index(name) :], name])
        elif name in graph and name not in done:
            for target in sorted(graph[name]):
                visit(target, [*chain, name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    return cycles


def text_files() -> list[Path]:
    """Files of the repository that a reader would open: tracked and new ones, ignored ones left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        paths = [Path(folder) / name for folder, _, names in os.walk(ROOT) for name in names]
        hidden = {".venv", "node_modules", "__pycache__", ".git"}
        paths = [path for path in paths if not hidden & set(path.parts)]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and dotted(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}

"""The project's modules, as text and syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("schema", "resolvers", "subscriptions", "store", "server")


def modules(*folders: str) -> Iterator[Path]:
    """Yield the Python files in some folders of the project, sub-folders included."""
    for folder in folders:
        yield from sorted(path for path in (ROOT / folder).rglob("*.py"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's syntax tree."""
    return tuple(ast.walk(ast.parse(path.read_text())))


def imported(tree: Iterable[ast.AST]) -> set[str]:
    """Return the top-level packages that a module imports, also inside functions."""
    found: set[str] = set()
    for node in tree:
        match node:
            case ast.Import(names=names):
                found |= {alias.name.partition(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition(".")[0])
    return found


def importers(*outsiders: str) -> set[str]:
    """Return the paths of the modules that import one of the given packages."""
    return {path.relative_to(ROOT).as_posix() for path in modules(*PACKAGES) if imported(nodes(path)) & set(outsiders)}

"""The project's own modules, as text and syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("schema", "resolvers", "subscriptions", "store", "server")


def modules(*folders: str) -> Iterator[Path]:
    """The Python files below some folders of the project."""
    for folder in folders:
        yield from sorted(path for path in (ROOT / folder).rglob("*.py"))


def imported(source: str) -> set[str]:
    """The top-level packages that a module imports anywhere, in functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {alias.name.partition(".")[0] for alias in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module.partition(".")[0])
    return found


def importers(*outsiders: str) -> set[str]:
    """Which modules of the packages import any of some outsiders, by path from the root."""
    return {
        path.relative_to(ROOT).as_posix() for path in modules(*PACKAGES) if imported(path.read_text()) & set(outsiders)
    }

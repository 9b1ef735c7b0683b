"""The navigation of the site: a list of pages, in which a folder stands for all its pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

Entry = str | dict[str, "str | list[Entry]"]
"""A page, a folder with a slash at its end, or a section: its title, and a page or a list of entries."""


def expanded(entries: list[Entry], pages: Path) -> list[Entry]:
    """Return the entries with the pages of folders in place of the folders, its index first."""
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, dict):
            (title, inner), *_ = entry.items()
            found.append({title: inner if isinstance(inner, str) else expanded(inner, pages)})
        elif entry.endswith("/"):
            names = sorted(
                (path.name for path in (pages / entry).glob("*.md")), key=lambda name: (name != "index.md", name)
            )
            found += [f"{entry}{name}" for name in names]
        else:
            found.append(entry)
    return found


def listed(entries: list[Entry]) -> Iterator[str]:
    """Yield the path of every page that the navigation lists, in order."""
    for entry in entries:
        if isinstance(entry, str):
            yield entry
            continue
        for inner in entry.values():
            yield from listed([inner] if isinstance(inner, str) else inner)

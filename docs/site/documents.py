"""The documents of the repository as pages of the site.

Documents are written for readers of the repository. On the site their links lead to pages, or to copies of files, and
their lists are indented by four spaces, as Python-Markdown needs it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SITE = Path(__file__).parent
DOCS = ROOT / "docs"

OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "web/client/README.md": "client-package.md",
}
"""Pages of documents that are not in `docs`."""

REPLACED = {"README.md": "start.md", "docs/adr": "adr/index.md", "docs/contract.graphql": "reference/schema/index.md"}
"""Pages that stand for files and folders which are no pages."""

UNSEARCHED = ("docs/adr/", "CHANGELOG.md", "CODE_OF_CONDUCT.md")
"""Beginnings of the paths of documents that the search leaves out. The list of decisions is in the search."""

_IMAGES = {".webp", ".svg", ".png"}
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^\[\]]*\]\([^()]*\))*)\]\(([^()\s]+)\)")
_ITEM = re.compile(r"( *)([-*]|\d+\.) +(?=\S)")


def documents() -> dict[str, str]:
    """Return the page of each document, both as paths: of the repository, and of the site."""
    found = {path.relative_to(ROOT).as_posix(): _page_of(path) for path in sorted(DOCS.rglob("*.md"))}
    return found | OUTSIDE


def _page_of(document: Path) -> str:
    page = document.relative_to(DOCS)
    if page.name == "README.md":
        # A folder with a single page needs no index.
        is_index = len(list(document.parent.glob("*.md"))) > 1
        page = page.with_name("index.md") if is_index else page.parent.with_suffix(".md")
    return page.as_posix()


def outside_fences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a document, and whether each is prose, not a part of a code block."""
    fence = ""
    for line in text.splitlines():
        mark = re.match(r" *(`{3,})", line)
        if mark and not fence:
            fence = mark[1]
            yield line, False
        elif fence:
            yield line, False
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = ""
        else:
            yield line, True


class Documents:
    """Writes the documents of the repository into a folder of pages."""

    def __init__(self, pages: Path) -> None:
        self._pages = pages
        self._pages_of = documents()

    def write(self) -> None:
        """Write every page, the list of decisions, and the files that pages link to."""
        for document, page in self._pages_of.items():
            text = (ROOT / document).read_text(encoding="utf-8")
            self._put(page, self.converted(text, document, page))
        self._put("adr/index.md", self._decisions())
        self._copied("docs/contract.graphql")

    def converted(self, text: str, document: str, page: str) -> str:
        """Return the text of a document as a page of the site."""
        lines = [
            _LINK.sub(lambda link: self._relinked(link, document, page), line) if is_prose else line
            for line, is_prose in outside_fences(text)
        ]
        head = "---\nsearch:\n  exclude: true\n---\n\n" if document.startswith(UNSEARCHED) else ""
        return head + with_wide_lists("\n".join(lines)) + "\n"

    def _relinked(self, link: re.Match[str], document: str, page: str) -> str:
        image, text, target = link.groups()
        if "](" in text:
            text = _LINK.sub(lambda inner: self._relinked(inner, document, page), text)
        if "://" in target or target.startswith(("#", "mailto:")):
            return f"{image}[{text}]({target})"
        path, _, anchor = target.partition("#")
        place = os.path.normpath(Path(document).parent / path)
        wanted = REPLACED.get(place) or self._pages_of.get(place) or self._copied(place)
        if wanted is None:
            return text
        address = os.path.relpath(wanted, Path(page).parent)
        return f"{image}[{text}]({address}{'#' if anchor else ''}{anchor})"

    def _copied(self, place: str) -> str | None:
        """Copy a file of the repository, so that browsers show it, and return its place; None for a folder."""
        source = ROOT / place
        if not source.is_file():
            return None
        copy = f"files/{place}" if source.suffix in _IMAGES else f"files/{place}.txt"
        (self._pages / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, self._pages / copy)
        return copy

    def _put(self, page: str, text: str) -> None:
        (self._pages / page).parent.mkdir(parents=True, exist_ok=True)
        (self._pages / page).write_text(text, encoding="utf-8")

    def _decisions(self) -> str:
        lines = ["# Decisions", "", "One decision on each page, with its reasons and consequences.", ""]
        for path in sorted((DOCS / "adr").glob("*.md")):
            heading = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{heading.replace('. ', chr(92) + '. ', 1)}]({path.name})")
        return "\n".join(lines) + "\n"


def with_wide_lists(text: str) -> str:
    """Return a document in which the contents of list items are indented by four spaces for each level."""
    lines: list[str] = []
    levels: list[tuple[int, int]] = []
    """For each open list item, the columns at which its marker and its contents begin."""
    for line, is_prose in outside_fences(text):
        indent = len(line) - len(line.lstrip(" "))
        if line.strip():
            item = _ITEM.match(line) if is_prose else None
            while levels and indent < (levels[-1][1] if item is None else levels[-1][0] + 1):
                if item is None and indent > levels[-1][0] and not is_prose:
                    break
                levels.pop()
            depth = len(levels)
            inside = levels[-1][1] if levels else 0
            if item is not None:
                if depth == 0 and lines and lines[-1].strip() and not _ITEM.match(lines[-1]) and lines[-1][0] != " ":
                    lines.append("")
                levels.append((indent, item.end()))
                line = f"{'    ' * depth}{item[2]}{' ' * (4 - len(item[2]))}{line[item.end() :]}"
            elif levels:
                line = "    " * depth + " " * max(0, indent - inside) + line.lstrip(" ")
        lines.append(line)
    return "\n".join(lines)

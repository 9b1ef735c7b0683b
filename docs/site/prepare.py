"""Write the sources of the documentation site: all documents with links that work there, and the generated pages.

Use: python -m docs.site.prepare FOLDER
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import yaml

from docs.site.command_pages import command_page
from docs.site.documents import ROOT, SITE, Documents
from docs.site.navigation import Entry, expanded
from docs.site.schema_pages import schema_pages


def prepare(folder: Path) -> None:
    """Write mkdocs.yml and the folder `pages`. What the folder had is removed."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    Documents(pages).write()
    generated = {"reference/commands.md": command_page()}
    generated |= {f"reference/schema/{name}.md": text for name, text in schema_pages().items()}
    for path, text in generated.items():
        (pages / path).parent.mkdir(parents=True, exist_ok=True)
        (pages / path).write_text(text, encoding="utf-8")
    (pages / "assets").mkdir()
    shutil.copy(SITE / "extra.css", pages / "assets" / "extra.css")
    (folder / "mkdocs.yml").write_text(configuration(pages), encoding="utf-8")


def configuration(pages: Path) -> str:
    """Return the configuration of the generator, with every page of the folders that its navigation names."""
    text = (SITE / "mkdocs.yml").read_text(encoding="utf-8")
    settings, _, navigation = text.partition("\nnav:\n")
    nav: list[Entry] = yaml.safe_load(navigation)
    return f"{settings}\n{yaml.safe_dump({'nav': expanded(nav, pages)}, sort_keys=False, allow_unicode=True)}"


if __name__ == "__main__":
    prepare((ROOT / sys.argv[1]).resolve())

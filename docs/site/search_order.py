"""The order of search results: pages that explain come before the reference.

The search of the site compares a word with titles, then with the path of a section (the titles of the pages above it),
then with texts. Among equal results the order of the index decides.

Use: python -m docs.site.search_order FOLDER, after the build. FOLDER is the one that was given to docs.site.prepare.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import yaml

from docs.site.documents import ROOT
from docs.site.navigation import listed


def order_search(folder: Path) -> None:
    """Sort the search index by the navigation, and shorten the paths of the reference: they repeat its titles."""
    settings = (folder / "mkdocs.yml").read_text(encoding="utf-8")
    pages = listed(yaml.safe_load(settings[settings.index("\nnav:") :])["nav"])
    places = {re.sub(r"(^|/)index$", r"\1", page.removesuffix(".md")).rstrip("/"): at for at, page in enumerate(pages)}
    index = folder / "html" / "search.json"
    content = json.loads(index.read_text(encoding="utf-8"))
    content["items"].sort(key=lambda item: places[_page(item)])
    for item in content["items"]:
        if _page(item).startswith("reference/"):
            del item["path"][2:]
    index.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def _page(item: dict[str, str]) -> str:
    return item["location"].partition("#")[0].rstrip("/")


if __name__ == "__main__":
    order_search((ROOT / sys.argv[1]).resolve())

"""The documentation site: navigation, links and generated pages; with its generator installed also the built pages."""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from graphql import build_schema

from docs.site.documents import documents, outside_fences, with_wide_lists
from docs.site.navigation import listed
from server.cli.commands import app
from tests.docs.conftest import needs_generator
from tests.docs.stories import DOCS


def pages(site: Path) -> dict[str, str]:
    folder = site / "pages"
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.md")}


def prose(text: str) -> str:
    return "\n".join(line for line, is_prose in outside_fences(text) if is_prose)


@cache
def anchors(text: str) -> set[str]:
    found = re.findall(r"\{ #([\w-]+)[\w -]* \}$", prose(text), re.MULTILINE)
    headings = re.findall(r"^#+ (.*?)(?: \{ #.*\})?$", prose(text), re.MULTILINE)
    return {*found, *(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)}


def navigation(site: Path) -> list[str]:
    settings = (site / "mkdocs.yml").read_text(encoding="utf-8")
    return list(listed(yaml.safe_load(settings[settings.index("\nnav:") :])["nav"]))


def test_the_navigation_lists_every_page_once(site: Path) -> None:
    assert sorted(navigation(site)) == sorted(pages(site))


def test_every_document_is_a_page(site: Path) -> None:
    assert {path.relative_to(DOCS.parent).as_posix() for path in DOCS.rglob("*.md")} <= set(documents())
    assert set(documents().values()) <= set(pages(site))


def test_links_between_sources_have_existing_targets(site: Path) -> None:
    texts = pages(site)
    broken = []
    for page, text in texts.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, anchor = target.partition("#")
            place = os.path.normpath(Path(page).parent / path) if path else page
            if not (site / "pages" / place).is_file() or (anchor and anchor not in anchors(texts[place])):
                broken.append((page, target))
    assert broken == []


def test_the_schema_pages_have_every_field_and_type(site: Path) -> None:
    schema = build_schema((DOCS / "contract.graphql").read_text(encoding="utf-8"))
    text = "\n".join(text for page, text in pages(site).items() if page.startswith("reference/schema/"))
    roots = (schema.query_type, schema.mutation_type, schema.subscription_type)
    wanted = {f"{root.name.lower()}-{name.lower()}" for root in roots if root for name in root.fields}
    built_in = {"Int", "Float", "String", "Boolean", "ID", *(root.name for root in roots if root)}
    names = {name for name in schema.type_map if not name.startswith("__") and name not in built_in}
    wanted |= {f"type-{name.lower()}" for name in names}
    assert len(wanted) > 300
    found = Counter(re.findall(r"\{ #([\w-]+)[\w -]* \}$", text, re.MULTILINE))
    assert {anchor for anchor in wanted if found[anchor] != 1} == set()


def test_the_page_of_commands_has_every_command(site: Path) -> None:
    text = pages(site)["reference/commands.md"]
    commands = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    assert [name for name in (*commands, "search rebuild") if f"`confab {name}`" not in text] == []


def test_lists_get_the_indentation_that_the_generator_needs() -> None:
    text = "Text\n- one\n  more\n  - inner\n    more\n\n  ```sh\n  echo\n    a\n  ```\n1. first\n\n   | a |\n\nEnd"
    wide = "Text\n\n-   one\n    more\n    -   inner\n        more\n\n    ```sh\n    echo\n      a\n    ```\n"
    assert with_wide_lists(text) == f"{wide}1.  first\n\n    | a |\n\nEnd"


class Links(HTMLParser):
    """Collects ids, links and loaded files of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and "href" in given and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given["href"])
        elif "src" in given:
            self.loaded.append(given["src"])


@cache
def parsed(page: Path) -> Links:
    return Links(page.read_text(encoding="utf-8"))


@needs_generator
def test_a_strict_build_passes_and_links_of_its_pages_have_targets(site: Path, built: Path) -> None:
    broken = []
    files = {path for path in built.rglob("*") if path.is_file()}
    html = [page for page in files if page.suffix == ".html" and page.name != "404.html"]
    assert len(html) == len(pages(site))
    for page in html:
        for target in (*parsed(page).links, *parsed(page).loaded):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            place = Path(os.path.normpath(page.parent / unquote(parts.path))) if parts.path else page
            place = place if place in files else place / "index.html"
            has_anchor = not parts.fragment or place.suffix != ".html"
            if place not in files or not (has_anchor or unquote(parts.fragment) in parsed(place).ids):
                broken.append((page.relative_to(built).as_posix(), target))
    assert broken == []


@needs_generator
def test_pages_load_nothing_from_other_hosts(built: Path) -> None:
    for page in built.rglob("*.html"):
        assert [address for address in parsed(page).loaded if urlsplit(address).netloc] == [], page
    for style in built.rglob("*.css"):
        assert re.findall(r"url\(\s*[\"']?(?:https?:)?//[^)]*", style.read_text(encoding="utf-8")) == [], style


@needs_generator
def test_the_search_index_has_the_pages(built: Path) -> None:
    index = (built / "search.json").read_text(encoding="utf-8")
    assert "limits/" in index
    assert "reference/schema/search/" in index

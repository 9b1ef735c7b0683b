"""Names in documents exist: files, headings, settings, make targets, modules, commands."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from server.cli.commands import app
from server.settings import Settings, variable

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
MAKE = "\n".join(path.read_text() for path in (ROOT / "Makefile", ROOT / "web" / "web.mk"))

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def found(pattern: str, page: Path) -> set[str]:
    return set(re.findall(pattern, page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_links_have_existing_targets(page: Path) -> None:
    for link in found(r"\]\(([^)\s]+)\)", page):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(target), f"{page.name} links to {link}"


@pages
def test_named_files_exist(page: Path) -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    # Built files need not exist.
    made = (ROOT / ".gitignore").read_text().split()
    for name in found(r"`((?:[\w.-]+/)+[\w.-]*)`", page):
        if name.split("/")[0] in folders and f"{name.rstrip('/')}/" not in made:
            assert (ROOT / name).exists(), f"{page.name} names {name}"


@pages
def test_named_settings_targets_modules_and_commands_exist(page: Path) -> None:
    settings = {variable(field) for field in Settings.model_fields}
    for name in found(r"`[^`\n]*?\b(CONFAB_(?!TEST_)[A-Z0-9_]*[A-Z0-9])\b", page):
        assert name in settings or any(each.startswith(f"{name}_") for each in settings), f"{page.name}: {name}"
    targets = set(re.findall(r"^([a-z-]+):", MAKE, re.MULTILINE))
    assert found(r"`make (?:-B )?([a-z-]+)", page) <= targets
    for module in found(r"python -m ((?:tests|bench|server)[\w.]*)", page):
        assert importlib.util.find_spec(module), f"{page.name}: python -m {module}"
    commands = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    commands |= {str(group.typer_instance.info.name) for group in app.registered_groups if group.typer_instance}
    assert found(r"`(?:\.venv/bin/)?confab ([a-z][a-z-]*)", page) <= commands

"""Every block of code of the documents is run by a test, or what can be checked of it is checked."""

from __future__ import annotations

import json
import re

import pytest

from server.settings import Settings
from tests.docs.blocks import CLASSES, NAMED, OTHERS, PARSED, ROOT, SHELL, SHOWN, Block, blocks
from tests.docs.shell_names import unknown_names

CHECKED = {SHELL, SHOWN, PARSED, NAMED, OTHERS}
BLOCKS = blocks()
SCRIPTS = [block for block in BLOCKS if block.language == "sh" or block.kind == SHELL]


def of_kind(kind: str) -> list[Block]:
    found = [block for block in BLOCKS if block.kind == kind]
    assert found
    return found


def test_every_block_is_in_a_class() -> None:
    assert [(block.page, block.language, block.text) for block in BLOCKS if block.kind is None] == []


def test_every_class_has_a_block_and_every_named_test_exists() -> None:
    used = {block.kind for block in BLOCKS}
    for page, languages, kind in CLASSES:
        assert kind in used, (page, languages)
        if kind not in CHECKED:
            assert (ROOT / kind).is_file(), kind


@pytest.mark.parametrize("block", SCRIPTS, ids=lambda block: block.page)
def test_names_in_a_shell_script_exist(block: Block) -> None:
    assert unknown_names(block.text) == []


@pytest.mark.parametrize(
    "script",
    [
        *("confab chek", "confab check --reparir", "confab search rebild", "make runn", "make bench FOO=1"),
        *("cat deploy/nothing", "python -m servr", "CONFAB_NOTHING=1 confab serve", "sytemctl restart x"),
        *("helm install confab deploy/helm/confab --set image.repo=1", "systemctl restart confab@8001 confab-worker"),
        "if test -e x; then sytemctl stop y; fi",
    ],
)
def test_a_name_that_does_not_exist_is_found(script: str) -> None:
    assert unknown_names(script) != []


@pytest.mark.parametrize("block", of_kind(PARSED), ids=lambda block: block.page)
def test_json_is_valid(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", of_kind(NAMED), ids=lambda block: block.language)
def test_names_of_a_sample_are_in_its_files(block: Block) -> None:
    folder = (ROOT / block.page).parent
    files = [path for path in folder.rglob("*") if path.suffix in (".swift", ".kt")]
    code = "\n".join(path.read_text() for path in files)
    shown = re.sub(r'//.*|"[^"]*"', "", block.text)
    types = {name for name in re.findall(r"\b([A-Z]\w+)\(", shown) if name not in ("URL", "File")}
    arguments = set(re.findall(r"[(,]\s*(\w+)(?:: | = )", shown)) - {"path"}
    assert types and arguments
    declared = {name for name in types if re.search(rf"\b(class|struct|fun|actor|object) {name}\b", code)}
    assert declared == types
    assert {name for name in arguments if not re.search(rf"\b{name}: ", code)} == set()


def test_payloads_that_are_shown_are_json() -> None:
    lines = [line for block in of_kind(SHOWN) for line in block.text.splitlines() if line.startswith('{"')]
    assert len(lines) == 3
    for line in lines:
        json.loads(line.replace(", ...", ""))


def test_the_shown_budget_is_the_default() -> None:
    (block,) = [block for block in BLOCKS if block.language == "http"]
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    size, per_second = defaults["work_budget"], defaults["work_per_second"]
    assert f'RateLimit-Policy: "work";q={size};w={size // per_second}' in block.text.splitlines()

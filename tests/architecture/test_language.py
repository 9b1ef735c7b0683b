"""Plain English: rules of the house style that a machine can check."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import PACKAGES, ROOT, modules, nodes

PYTHON = [*PACKAGES, "tests", "bench"]
AVOIDED = re.compile(r"\b(anew|whoever|whom|nobody's|told|beside|of late|by and by|as it comes)\b", re.IGNORECASE)
NO_SENTENCE = re.compile(r"(What|Who|Whose|Those|Whether|How)\b")
LOG_CALLS = {"debug", "info", "warning", "error", "exception", "critical"}
WIDEST = 120
MOST_MODULES = 16
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "web").glob("*/README.md")]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every docstring, also of those that follow an attribute."""
    for node in nodes(path):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for position, statement in enumerate(body):
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if is_text and isinstance(statement.value.value, str) and (position or isinstance(node, DOCUMENTED)):
                yield statement.lineno, statement.value.value


def comments(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every comment of a Python or Lua file."""
    if path.suffix == ".lua":
        for number, line in enumerate(path.read_text().splitlines(), 1):
            _, found, comment = line.partition("--")
            if found:
                yield number, comment
        return
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a Markdown file that are not in a code block."""
    in_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield number, line


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("folder", PYTHON)
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    found = [at(path, n) for path in modules(folder) for n, text in docstrings(path) if NO_SENTENCE.match(text.strip())]
    assert found == []


@pytest.mark.parametrize("folder", PYTHON)
def test_docstrings_and_comments_avoid_archaic_words(folder: str) -> None:
    files = [*modules(folder), *(ROOT / folder).rglob("*.lua")]
    suspects = [path for path in files if AVOIDED.search(path.read_text())]
    texts = [(path, *found) for path in suspects for found in comments(path)]
    texts += [(path, *found) for path in suspects if path.suffix == ".py" for found in docstrings(path)]
    assert [at(path, line) for path, line, text in texts if AVOIDED.search(text)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_documents_avoid_archaic_words(path: Path) -> None:
    is_glossary = path.name == "GLOSSARY.md"
    assert is_glossary or [at(path, line) for line, text in prose(path) if AVOIDED.search(text)] == []


def test_lines_of_documents_and_scripts_are_at_most_120_columns_wide() -> None:
    wide = [
        at(path, number)
        for path in DOCUMENTS
        for number, line in prose(path)
        if len(re.sub(r"<!--.*?-->", "", line)) > WIDEST and not line.startswith(("|", "!")) and "](" not in line
    ]
    wide += [
        at(path, number)
        for path in [*ROOT.glob("store/**/*.lua"), ROOT / "schema" / "schema.graphql"]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > WIDEST and path.suffix == ".lua"
    ]
    assert wide == []


def test_log_events_are_names_and_not_sentences() -> None:
    sentences = [
        at(path, node.lineno)
        for path in modules(*PACKAGES)
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LOG_CALLS
        and "log" in ast.unparse(node.func.value)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and not re.fullmatch(r"[a-z][a-z0-9_]*", str(node.args[0].value))
    ]
    assert sentences == []


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for path in modules(*PACKAGES):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(at(path, node.lineno))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_folder_has_too_many_modules() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in modules(*PACKAGES):
        counts[path.parent.relative_to(ROOT).as_posix()] += 1
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("folder", ["tests"])
def test_names_of_tests_are_shorter_than_80_characters(folder: str) -> None:
    long = [
        node.name
        for path in modules(folder)
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and len(node.name) >= 80
    ]
    assert long == []

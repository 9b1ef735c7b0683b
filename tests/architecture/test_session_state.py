"""State of sessions has one home: nothing above the store knows how it is stored."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.sessions.fields import FIELDS
from tests.architecture.sources import ROOT, modules

OPERATORS = frozenset(
    [
        "$set",
        "$unset",
        "$setOnInsert",
        "$inc",
        "$max",
        "$min",
        "$push",
        "$pull",
        "$addToSet",
        "$each",
        "$slice",
        "$in",
        "$nin",
        "$or",
        "$and",
        "$not",
        "$expr",
        "$exists",
        "$eq",
        "$ne",
        "$lt",
        "$lte",
        "$gt",
        "$gte",
        "$cond",
        "$ifNull",
        "$match",
        "$group",
        "$sort",
    ]
)
STORED = frozenset(field.stored for field in FIELDS if len(field.stored) > 1)
"""Stored names that nothing else is called by."""

ABOVE_STORE = ("schema", "resolvers", "subscriptions", "server")
EXEMPT = {"server/embedded/mongod.py": "configures the replica set of a MongoDB of its own"}

sources = pytest.mark.parametrize("package", ABOVE_STORE)


def trees(package: str) -> Iterator[tuple[str, ast.AST]]:
    for path in modules(package):
        name = Path(path).relative_to(ROOT).as_posix()
        if name not in EXEMPT:
            yield name, ast.parse(path.read_text())


def texts(tree: ast.AST) -> Iterator[str]:
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def keys(tree: ast.AST) -> Iterator[ast.expr]:
    """The keys of displayed dictionaries, and what is subscribed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from (key for key in node.keys if key is not None)
        elif isinstance(node, ast.Subscript):
            yield node.slice


@sources
def test_no_operator_of_mongodb_is_used_above_the_store(package: str) -> None:
    found = {name: used for name, tree in trees(package) if (used := OPERATORS.intersection(texts(tree)))}
    assert found == {}


@sources
def test_no_stored_name_of_a_field_is_used_above_the_store(package: str) -> None:
    found = [
        (name, key.value)
        for name, tree in trees(package)
        for key in keys(tree)
        if isinstance(key, ast.Constant) and key.value in STORED
    ]
    assert found == []


@sources
def test_no_record_of_a_session_is_built_or_read_above_the_store(package: str) -> None:
    modules_of_records = {"store.sessions.records", "store.sessions.session_rows"}
    found = []
    for name, tree in trees(package):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr == "stored":
                found.append((name, node.lineno))
            if isinstance(node, ast.ImportFrom) and node.module == "store.sessions.fields":
                found += [(name, node.lineno) for alias in node.names if alias.name in ("record_of", "FENCE")]
            if isinstance(node, ast.ImportFrom) and node.module in modules_of_records:
                found += [(name, node.lineno) for alias in node.names if alias.name not in ("Tick", "SessionRows")]
    assert found == []

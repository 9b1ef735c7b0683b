"""The numbers of docs/limits.md are those of the contract and of the settings."""

from __future__ import annotations

import re

import pytest
from graphql import GraphQLInputObjectType, GraphQLObjectType, build_schema

from server.settings import Settings, variable
from tests.docs.stories import DOCS

SCHEMA = build_schema((DOCS / "contract.graphql").read_text(encoding="utf-8"))
DEFAULTS = {variable(name): str(field.default) for name, field in Settings.model_fields.items()}
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]*\d[^|]*) \| (`[^|]+`) \|$", (DOCS / "limits.md").read_text(), re.MULTILINE)


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+", re.sub(r"(?<=\d),(?=\d{3})", "", text)))


def numbers_of(source: str) -> set[str]:
    """Return the numbers in the default of a setting, or in the description of a type or a field."""
    if source.startswith("CONFAB_"):
        return {DEFAULTS[source]}
    name, _, field = source.partition(".")
    described = SCHEMA.type_map[name]
    if field:
        assert isinstance(described, GraphQLObjectType | GraphQLInputObjectType)
        return numbers(described.fields[field].description or "")
    return numbers(described.description or "")


def test_the_page_has_rows_with_sources() -> None:
    assert len(ROWS) > 30


@pytest.mark.parametrize(("what", "limit", "sources"), ROWS, ids=[row[0] for row in ROWS])
def test_a_limit_is_the_one_of_its_source(what: str, limit: str, sources: str) -> None:
    known = set[str]().union(*(numbers_of(source) for source in re.findall(r"`([^`]+)`", sources)))
    assert numbers(limit) <= known, what

"""The schema has the shape that the contract promises; `not_built.txt` lists the parts that are not built yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from graphql import build_schema

from schema.sdl import print_sdl
from tests.schema.schema_shape import demanded, descriptions_of, different, missing, shapes_of

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "docs" / "contract.graphql"
NOT_BUILT = Path(__file__).with_name("not_built.txt")
MOST_NOT_BUILT = 66
"""The length of the list when the contract last grew. Lower it when something is built: the list only shrinks."""
COMMITTED = ROOT / "schema" / "schema.graphql"
ORIGINAL = ROOT.parent / "shared" / "contract.graphql"

SMALL = """
    type Query { one(a: Int = 1, b: [String!]): Thing! two: Kind }
    interface Named { name: String! }
    type Thing implements Named { name: String! }
    enum Kind { A B }
    union Any = Thing
    input Filter { text: String! = "x" }
"""


def test_the_committed_schema_is_what_the_code_prints() -> None:
    assert COMMITTED.read_text() == print_sdl(), "run `make schema`"


@pytest.mark.skipif(not ORIGINAL.exists(), reason="the contract's original is not beside this checkout")
def test_the_contract_here_is_the_original_byte_for_byte() -> None:
    assert CONTRACT.read_bytes() == ORIGINAL.read_bytes()


def test_what_is_built_has_the_shape_that_the_contract_promises() -> None:
    contract = shapes_of(build_schema(CONTRACT.read_text()))
    built = shapes_of(build_schema(print_sdl()))
    assert different(contract, built) == {}


def test_nothing_is_demanded_of_clients_that_the_contract_does_not_tell_them_of() -> None:
    contract = shapes_of(build_schema(CONTRACT.read_text()))
    schema = build_schema(print_sdl())
    assert demanded(contract, shapes_of(schema), schema) == []


def test_descriptions_are_those_of_the_contract() -> None:
    contract = descriptions_of(build_schema(CONTRACT.read_text()))
    schema = build_schema(print_sdl())
    built = descriptions_of(schema)
    described = shapes_of(schema).keys() & contract.keys()
    assert {c: built.get(c) for c in described} == {c: contract[c] for c in described}


def test_the_printed_schema_has_lines_of_at_most_120_characters() -> None:
    assert [line for line in print_sdl().splitlines() if len(line) > 120] == []


def test_the_list_of_missing_parts_is_exact_and_only_shrinks() -> None:
    contract = shapes_of(build_schema(CONTRACT.read_text()))
    assert missing(contract, shapes_of(build_schema(print_sdl()))) == NOT_BUILT.read_text().split()
    assert len(NOT_BUILT.read_text().split()) <= MOST_NOT_BUILT


@pytest.mark.parametrize(
    ("was", "becomes", "coordinate"),
    [
        ("a: Int = 1", "a: Int = 2", "Query.one(a:)"),
        ("a: Int = 1", "a: Int", "Query.one(a:)"),
        ("b: [String!]", "b: [String]", "Query.one(b:)"),
        ("): Thing!", "): Thing", "Query.one"),
        ("interface Named", "type Named", "Named"),
        ('text: String! = "x"', "text: String!", "Filter.text"),
    ],
)
def test_another_shape_is_noticed(was: str, becomes: str, coordinate: str) -> None:
    changed = SMALL.replace(" implements Named", "").replace(was, becomes)
    contract, built = (shapes_of(build_schema(text)) for text in (SMALL, changed))
    assert list(different(contract, built)) == [coordinate]


@pytest.mark.parametrize(
    ("was", "becomes", "coordinate"),
    [
        (" two: Kind", "", "Query.two"),
        ("a: Int = 1, ", "", "Query.one(a:)"),
        (" implements Named", "", "Thing&Named"),
        ("enum Kind { A B }", "enum Kind { A }", "Kind.B"),
        ("union Any = Thing", "union Any = Query", "Any|Thing"),
        ('input Filter { text: String! = "x" }', "", "Filter"),
    ],
)
def test_a_missing_part_is_noticed_and_named_once(was: str, becomes: str, coordinate: str) -> None:
    contract, built = (shapes_of(build_schema(text)) for text in (SMALL, SMALL.replace(was, becomes)))
    assert missing(contract, built) == [coordinate]


def test_only_additions_that_clients_must_give_are_noticed() -> None:
    text = SMALL.replace("a: Int = 1", "a: Int = 1, c: Int!, d: Int, e: Int! = 1")
    text = text.replace('String! = "x"', 'String! = "x" more: ID! less: ID')
    text = text.replace("two: Kind", "two: Kind three(x: ID!): Int!")
    schema = build_schema(text)
    assert demanded(shapes_of(build_schema(SMALL)), shapes_of(schema), schema) == ["Filter.more", "Query.one(c:)"]

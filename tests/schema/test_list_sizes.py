"""Lists without `first`: each declares its size, and what it really holds counts while an operation is executed."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import (
    GraphQLInterfaceType,
    GraphQLObjectType,
    get_named_type,
    is_introspection_type,
    is_leaf_type,
    parse,
)

from schema.base.list_sizes import find_list_size
from schema.execution.query_cost import check_cost, count_items, needs_size, page_types
from schema.execution.query_limits import QueryLimits
from schema.root import SCHEMA

CORE = SCHEMA._schema


def cost(source, **variables):
    return check_cost(CORE, parse(source), None, variables, QueryLimits())


def test_every_list_of_objects_declares_its_size():
    """New lists count as a page of default size until they declare how much they hold: see schema/base/list_sizes."""
    without_size = [
        f"{type_.name}.{name}"
        for type_ in CORE.type_map.values()
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType) and not is_introspection_type(type_)
        for name, field in type_.fields.items()
        if needs_size(field) and type_ not in page_types(CORE) and find_list_size(field) is None
    ]
    assert without_size == []


def test_the_arguments_that_give_sizes_exist():
    for type_ in CORE.type_map.values():
        for field in type_.fields.values() if isinstance(type_, GraphQLObjectType) else ():
            size = find_list_size(field)
            assert size is None or size.argument is None or size.argument in field.args


@pytest.mark.parametrize(
    ("source", "variables", "rows"),
    [
        ('{ users(ids: ["a", "b", "c"]) { id } }', {}, 3),
        ('{ users(ids: "a") { id } }', {}, 1),
        ("query ($ids: [ID!]!) { users(ids: $ids) { id } }", {"ids": ["a"] * 150}, 150),
        ("query ($ids: [ID!]!) { users(ids: $ids) { id } }", {"ids": "a"}, 1),
        ('query ($ids: [ID!]! = ["a", "b"]) { users(ids: $ids) { id } }', {}, 2),
        ("mutation ($l: [UserInput!]!) { upsertUsers(input: $l) { id } }", {"l": [{}] * 70}, 70),
        ("mutation ($l: [ID!]!) { assignCategory(conversationIds: $l) { id } }", {"l": ["a"] * 70}, 70),
        ("mutation ($l: [ID!]) { markManyRead(conversationIds: $l) { id } }", {"l": ["a"] * 70}, 70),
        ("mutation { markManyRead { id } }", {}, 100),
        ("mutation { markManyRead(conversationIds: null) { id } }", {}, 100),
        ("mutation ($l: [DeliveryMark!]!) { ackManyDelivered(marks: $l) { id } }", {"l": [{}] * 70}, 70),
        ("{ sessionCategories { lastMessage { mentions { id } } } }", {}, 50 + 50 * 10),
        ('{ group(id: "g") { visibleRanges { fromSeq } } }', {}, 10),
        ("subscription { syncSession { sessions { id } } }", {}, 100),
        ("{ syncSessions(first: 30) { sessions { id } } }", {}, 30),
    ],
)
def test_lists_count_their_declared_number_of_items(source, variables, rows):
    assert cost(source, **variables).nodes == rows


def test_items_of_lists_in_arguments_count_one_value_each():
    assert cost('{ users(ids: ["a", "b"]) { id } }').values == 1 + 2 + 2
    assert count_items({"input": {"mentions": ["a", "b"], "content": "x"}, "l": [["a"], ["b"]], "n": 1}) == 2 + 2 + 2
    assert count_items(None) == 0


def test_items_of_very_deep_lists_count():
    value: Any = []
    for _ in range(5_000):
        value = [{"in": value}]
    assert count_items({"v": value}) == 5_000


def test_the_first_screen_with_all_channels_and_rights_is_allowed():
    cost("{ ready { workspaces { viewerPermissions channels { edges { node { id name viewerPermissions } } } } } }")


def test_a_list_of_scalars_is_one_value():
    with_rights = cost("{ ready { workspaces { id viewerPermissions } } }")
    without = cost("{ ready { workspaces { id } } }")
    assert (with_rights.nodes, with_rights.values) == (without.nodes, without.values + without.nodes)
    sized = [
        f"{type_.name}.{name}"
        for type_ in CORE.type_map.values()
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType)
        for name, field in type_.fields.items()
        if is_leaf_type(get_named_type(field.type)) and find_list_size(field) is not None
    ]
    assert sized == []

"""Limits on rows and values: the sizes of nested pages multiply."""

from __future__ import annotations

import pytest
from graphql import parse, validate

from schema.execution.query_cost import CostAnalysis, check_cost, make_size_key
from schema.execution.query_limits import QueryLimits
from schema.root import SCHEMA as SERVED
from tests.schema.limits_schema import LIMITS, SCHEMA, check_all_limits, doubling_fragments, expect_limit_refusal


def expect_cost_refusal(source, variables=None, name=None):
    return expect_limit_refusal(check_all_limits, source, variables, name)


MEMBERS = "{ edges { node { members(first: %s) { edges { node { user { id } } } } } } }"


def cost(source, variables=None, name=None):
    """Return rows and values, taken from the refusals of limits below zero."""
    document = parse(source)
    assert validate(SCHEMA, document) == []

    def read_limit(**limits):
        limits_used = {"max_nodes": 10**10, "max_values": 10**10} | limits
        _, read_limit, _ = expect_limit_refusal(
            check_cost, SCHEMA, document, name, variables, QueryLimits(**limits_used)
        )
        return read_limit

    return read_limit(max_nodes=-1), read_limit(max_values=-1)


def test_fields_without_pages_cost_one_value_each():
    assert cost("{ me { id friend { id } } }") == (0, 4)


def test_a_page_costs_its_rows_and_their_values():
    assert cost("{ sessions(first: 10) { edges { node { id unread } } } }") == (10, 1 + 10 * 4)


def test_nested_pages_multiply():
    source = "{ groups(first: 20) " + MEMBERS % 30 + " }"
    assert cost(source) == (20 + 20 * 30, 1 + 20 * (2 + 1 + 30 * 4))


def test_a_missing_page_size_takes_the_default():
    assert cost("{ sessions { edges { node { id } } } }")[0] == 50
    assert cost("{ changes { sessions { id } } }")[0] == 100
    assert cost("{ messages { edges { node { id } } } }")[0] == LIMITS.default_page
    assert cost("{ sessions(first: null) { edges { node { id } } } }")[0] == 50


def test_the_defaults_of_the_served_schema_are_used():
    document = parse("{ syncSessions { sessions { id } } }")
    limits = QueryLimits(max_nodes=0)
    assert expect_limit_refusal(check_cost, SERVED._schema, document, None, None, limits) == ("max_nodes", 100, 0)


def test_first_and_last_both_count():
    assert cost("{ messages(last: 7) { edges { node { id } } } }")[0] == 7
    assert cost("{ messages(first: 3, last: 7) { edges { node { id } } } }")[0] == 7


def test_page_sizes_come_from_variables_and_their_defaults():
    source = "query Q($n: Int = 20) { sessions(first: $n) { edges { node { id } } } }"
    assert cost(source, {"n": 7})[0] == 7
    assert cost(source, {})[0] == 20
    assert cost(source, None)[0] == 20
    assert cost(source, {"n": None})[0] == 50


def test_a_page_size_may_be_a_whole_float():
    source = "query Q($n: Int) { sessions(first: $n) { edges { node { id } } } }"
    assert cost(source, {"n": 100.0})[0] == 100
    assert make_size_key(7.0) == make_size_key(7) != make_size_key(8.0)


@pytest.mark.parametrize("invalid_value", ["100", [1], {"a": 1}, 1.5])
def test_a_variable_of_the_wrong_type_counts_as_the_default_page(invalid_value):
    source = "query Q($n: Int) { sessions(first: $n) { edges { node { id } } } }"
    assert cost(source, {"n": invalid_value})[0] == LIMITS.default_page


@pytest.mark.parametrize(("page_size", "counted_size"), [(101, 100), (2**31 - 1, 100), (0, 1), (-5, 1)])
def test_a_page_size_that_the_field_refuses_counts_within_its_limits(page_size, counted_size):
    assert (
        cost("query Q($n: Int) { sessions(first: $n) { edges { node { id } } } }", {"n": page_size})[0] == counted_size
    )


def test_pages_are_found_in_fragments_and_interfaces():
    source = """
      { ... { node(id: "1") { ... on User { ... { ...G } } } } }
      fragment G on User { groups(first: 4) { edges { ...E } } }
      fragment E on GroupEdge { node { members(first: 5) { edges { node { user { id } } } } } }
    """
    assert cost(source)[0] == 4 + 4 * 5
    assert cost("{ ... { sessions(first: 3) { edges { node { id } } } } }")[0] == 3


def test_a_list_without_a_page_argument_is_no_page():
    assert cost("{ changes(first: 10) { sessions { id } } }")[0] == 10


def test_100_groups_with_50_members_pass_and_with_100_are_refused():
    source = (
        "query ($n: Int) { groups(first: 100) { edges { node { members(first: $n) { edges { node { "
        "user { id } } } } } } } }"
    )
    check_all_limits(source, {"n": 50})
    assert expect_cost_refusal(source, {"n": 100}) == ("max_nodes", 100 + 100 * 100, 10_000)


def test_rows_with_too_many_values_are_refused():
    row = " ".join(f"f{n}: friend {{ id name }}" for n in range(30))
    source = (
        f"{{ groups(first: 100) {{ edges {{ node {{ members(first: 90) {{ edges {{ node {{ user {{ "
        f"{row} }} }} }} }} }} }} }} }}"
    )
    assert expect_cost_refusal(source)[0] == "max_values"


def test_only_the_executed_operation_is_counted():
    source = "query A { me { id } } query B { groups(first: 100) " + MEMBERS % 100 + " }"
    check_all_limits(source, None, "A")
    assert expect_cost_refusal(source, None, "B")[0] == "max_nodes"


def test_the_cost_of_a_fragment_is_computed_once():
    document = parse(doubling_fragments(30))
    analysis = CostAnalysis(SCHEMA, document, None, {}, LIMITS)
    assert expect_limit_refusal(analysis.check)[0] == "max_values"
    assert analysis.visits == 1 + 1 + 2 * 30 + 1

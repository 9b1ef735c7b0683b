"""Bounds on rows and values: pages inside pages multiply."""

from __future__ import annotations

import pytest
from graphql import parse, validate

from schema.execution.query_cost import CostAnalysis, check_cost
from schema.execution.query_limits import QueryLimits
from schema.root import SCHEMA as SERVED
from tests.schema.limits_schema import LIMITS, SCHEMA, check, doubling, refusal


def cost_refusal(source, variables=None, name=None):
    return refusal(check, source, variables, name)


MEMBERS = "{ edges { node { members(first: %s) { edges { node { user { id } } } } } } }"


def cost(source, variables=None, name=None):
    """Rows and values, as the refusals of limits of nothing tell them."""
    document = parse(source)
    assert validate(SCHEMA, document) == []

    def found(**limits):
        generous = {"max_nodes": 10**10, "max_values": 10**10} | limits
        _, found, _ = refusal(check_cost, SCHEMA, document, name, variables, QueryLimits(**generous))
        return found

    return found(max_nodes=-1), found(max_values=-1)


def test_fields_without_pages_cost_a_value_each_and_no_rows():
    assert cost("{ me { id friend { id } } }") == (0, 4)


def test_a_page_costs_its_rows_and_what_each_of_them_holds():
    assert cost("{ sessions(first: 10) { edges { node { id unread } } } }") == (10, 1 + 10 * 4)


def test_pages_inside_pages_multiply():
    source = "{ groups(first: 20) " + MEMBERS % 30 + " }"
    assert cost(source) == (20 + 20 * 30, 1 + 20 * (2 + 1 + 30 * 4))


def test_a_page_not_asked_for_is_the_schemas_default_or_else_ours():
    assert cost("{ sessions { edges { node { id } } } }")[0] == 50
    assert cost("{ changes { sessions { id } } }")[0] == 100
    assert cost("{ messages { edges { node { id } } } }")[0] == LIMITS.default_page
    assert cost("{ sessions(first: null) { edges { node { id } } } }")[0] == 50


def test_the_defaults_of_our_own_schema_are_read():
    document = parse("{ syncSessions { sessions { id } } }")
    limits = QueryLimits(max_nodes=0)
    assert refusal(check_cost, SERVED._schema, document, None, None, limits) == ("max_nodes", 100, 0)


def test_first_and_last_are_both_looked_at():
    assert cost("{ messages(last: 7) { edges { node { id } } } }")[0] == 7
    assert cost("{ messages(first: 3, last: 7) { edges { node { id } } } }")[0] == 7


def test_pages_are_read_from_variables_and_their_defaults():
    source = "query Q($n: Int = 20) { sessions(first: $n) { edges { node { id } } } }"
    assert cost(source, {"n": 7})[0] == 7
    assert cost(source, {})[0] == 20
    assert cost(source, None)[0] == 20
    assert cost(source, {"n": None})[0] == 50


@pytest.mark.parametrize("nonsense", ["100", [1], {"a": 1}, 1.5])
def test_a_variable_of_the_wrong_type_is_left_to_execution(nonsense):
    source = "query Q($n: Int) { sessions(first: $n) { edges { node { id } } } }"
    assert cost(source, {"n": nonsense})[0] == LIMITS.default_page


@pytest.mark.parametrize(("asked", "counted"), [(101, 100), (2**31 - 1, 100), (0, 1), (-5, 1)])
def test_a_page_that_the_field_will_refuse_is_not_too_complex(asked, counted):
    assert cost("query Q($n: Int) { sessions(first: $n) { edges { node { id } } } }", {"n": asked})[0] == counted


def test_pages_are_found_through_fragments_of_every_kind_and_interfaces():
    source = """
      { ... { node(id: "1") { ... on User { ... { ...G } } } } }
      fragment G on User { groups(first: 4) { edges { ...E } } }
      fragment E on GroupEdge { node { members(first: 5) { edges { node { user { id } } } } } }
    """
    assert cost(source)[0] == 4 + 4 * 5
    assert cost("{ ... { sessions(first: 3) { edges { node { id } } } } }")[0] == 3


def test_a_list_named_like_a_page_elsewhere_is_no_page():
    assert cost("{ changes(first: 10) { sessions { id } } }")[0] == 10


def test_a_hundred_groups_with_fifty_members_pass_and_with_a_hundred_do_not():
    source = "query ($n: Int) { groups(first: 100) { edges { node { members(first: $n) { edges { node { user { id } } } } } } } }"
    check(source, {"n": 50})
    assert cost_refusal(source, {"n": 100}) == ("max_nodes", 100 + 100 * 100, 10_000)


def test_few_rows_with_many_values_each_are_refused():
    row = " ".join(f"f{n}: friend {{ id name }}" for n in range(30))
    source = f"{{ groups(first: 100) {{ edges {{ node {{ members(first: 90) {{ edges {{ node {{ user {{ {row} }} }} }} }} }} }} }} }}"
    assert cost_refusal(source)[0] == "max_values"


def test_only_the_operation_that_runs_is_counted():
    source = "query A { me { id } } query B { groups(first: 100) " + MEMBERS % 100 + " }"
    check(source, None, "A")
    assert cost_refusal(source, None, "B")[0] == "max_nodes"


def test_the_cost_of_a_fragment_is_worked_out_once():
    document = parse(doubling(30))
    survey = CostAnalysis(SCHEMA, document, None, {}, LIMITS)
    assert refusal(survey.check)[0] == "max_values"
    assert survey.visits == 1 + 1 + 2 * 30 + 1

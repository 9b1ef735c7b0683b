"""Limits on the text and shape of a document, and that checking them is always cheap."""

from __future__ import annotations

import dataclasses

import pytest
from graphql import GraphQLError, get_introspection_query, parse, validate

from schema.execution.query_cost import check_cost
from schema.execution.query_limits import QueryLimits, parse_limited
from schema.execution.query_shape import ShapeAnalysis, check_shape
from tests.schema.limits_schema import LIMITS, SCHEMA, check_all_limits, doubling_fragments, expect_limit_refusal


def expect_shape_refusal(source):
    return expect_limit_refusal(check_shape, parse(source), LIMITS)


def test_a_query_within_all_limits_passes():
    check_all_limits(
        "query Q($n: Int) { me { ...U } sessions(first: $n) { edges { node { id } } } } fragment U on User { id }"
    )


@pytest.mark.parametrize("source", ["", "{", "{ me { id }", "query", '{ me(a: "', "{ me } }", '"""', "\x00"])
def test_a_syntax_error_is_invalid_input_with_its_place(source):
    with pytest.raises(GraphQLError) as caught:
        parse_limited(source, LIMITS)
    assert caught.value.extensions == {"code": "INVALID_INPUT", "retryable": False}
    assert caught.value.locations


def test_a_text_too_long_is_refused_before_it_is_parsed():
    source = "{ me { id } } " + " " * 50_000
    assert expect_limit_refusal(parse_limited, source, LIMITS) == ("max_characters", len(source), 50_000)


@pytest.mark.parametrize("token", ["a", "#\n", '""', '"""x"""', "1", "...", "@a", "{}", "$"])
def test_too_many_tokens_of_any_kind_are_refused(token):
    assert expect_limit_refusal(parse_limited, "{ " + f"{token} " * 4_000, LIMITS)[::2] == ("max_tokens", 3_000)


def test_tokens_are_counted_only_up_to_the_limit():
    parse_limited("{ " + "a " * 2_998 + "}", LIMITS)
    assert expect_limit_refusal(parse_limited, "{ " + "a " * 2_999 + "}", LIMITS) == ("max_tokens", 3_001, 3_000)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("[", "]"), ("{a:", "}"), ("{", "}"), ("(", ")"), ("{a(b:[", "])}")],
    ids=["lists", "objects", "selection sets", "parentheses", "all"],
)
@pytest.mark.parametrize("levels", [100, 1_000, 100_000])
def test_deep_nesting_never_exhausts_the_stack(opening, closing, levels):
    source = "{ dear(filter: " + opening * levels + closing * levels + ") }"
    limit, _, _ = expect_limit_refusal(parse_limited, source, LIMITS)
    assert limit in ("max_brackets", "max_characters", "max_tokens")


def test_unclosed_deep_nesting_is_refused():
    assert expect_limit_refusal(parse_limited, "{a" * 1_000, LIMITS)[0] == "max_brackets"


def test_brackets_in_strings_and_comments_do_not_count():
    brackets = "[{(" * 100
    source = f'{{ dear(filter: {{text: "{brackets}\\"{brackets}"}}) }} # {brackets}\n'
    check_all_limits(source)
    check_all_limits(f'{{ dear(filter: {{text: """{brackets}"{brackets}\\"""{brackets}"""}}) }}')


def test_brackets_after_a_string_count_again():
    source = '{ dear(filter: {text: "", and: ' + "[" * 100 + "]" * 100 + "}) }"
    assert expect_limit_refusal(parse_limited, source, LIMITS)[0] == "max_brackets"


def nested_fields(levels):
    return "{ me { " + "friend { " * (levels - 2) + "id" + " }" * levels


def test_a_depth_of_15_passes_and_16_is_refused():
    check_all_limits(nested_fields(15))
    assert expect_shape_refusal(nested_fields(16)) == ("max_depth", 16, 15)


def test_thirty_levels_are_refused():
    assert expect_shape_refusal(nested_fields(30)) == ("max_depth", 30, 15)


def test_depth_is_counted_through_fragments():
    def source(levels):
        half = "friend { " * 6 + "...B" + " }" * 6
        rest = "friend { " * (levels - 8) + "id" + " }" * (levels - 8)
        return f"{{ me {{ ...A }} }} fragment A on User {{ {half} }} fragment B on User {{ {rest} }}"

    check_all_limits(source(15))
    assert expect_shape_refusal(source(16)) == ("max_depth", 16, 15)


def test_fragments_add_no_depth():
    check_all_limits("{ me { " + "... on User { " * 30 + "id" + " }" * 30 + " } }")


def test_fifty_aliases_of_one_field_are_refused():
    aliases = " ".join(f"a{n}: me {{ id }}" for n in range(50))
    assert expect_shape_refusal(f"{{ {aliases} }}") == ("max_aliases", 50, 30)


def test_thirty_aliases_pass():
    check_all_limits("{ me { " + " ".join(f"a{n}: id" for n in range(30)) + " } }")


def test_aliases_are_counted_at_every_spread_of_their_fragment():
    fragment = "fragment F on User { a: id b: id c: id d: id e: id f: id }"
    spread = " ".join(["friend { ...F "] * 6) + "} " * 6
    assert expect_shape_refusal(f"{{ me {{ {spread} }} }} {fragment}") == ("max_aliases", 36, 30)


def test_a_field_repeated_without_an_alias_is_refused():
    assert expect_shape_refusal("{ me { " + "id " * 500 + "} }")[::2] == ("max_repeats", 5)
    assert expect_shape_refusal("{ me { " + "...F " * 6 + "} } fragment F on User { id }")[0] == "max_repeats"


def test_too_many_root_fields_are_refused_also_in_fragments():
    limits = QueryLimits(max_aliases=1_000)
    fields = " ".join(f"a{n}: __typename" for n in range(51))
    assert expect_limit_refusal(check_shape, parse(f"{{ {fields} }}"), limits)[0] == "max_root_fields"
    source = f"{{ ...F }} fragment F on Query {{ {fields} }}"
    assert expect_limit_refusal(check_shape, parse(source), limits) == ("max_root_fields", 51, 50)


@pytest.mark.parametrize("levels", [10, 18, 30, 90])
def test_doubling_fragments_are_refused_after_one_visit_each(levels):
    document = parse(doubling_fragments(levels))
    analysis = ShapeAnalysis(document, LIMITS)
    assert expect_limit_refusal(analysis.check)[::2] == ("max_fields", 1_000)
    assert analysis.visits == 1 + 1 + 2 * levels + 1


def test_the_reported_number_of_fields_includes_fragments():
    assert expect_shape_refusal(doubling_fragments(10)) == ("max_fields", 1 + 2**10, 1_000)


def test_doubling_with_fields_is_refused_after_one_visit_each():
    chain = " ".join(f"fragment F{n} on User {{ friend {{ ...F{n + 1} }} ...F{n + 1} }}" for n in range(30))
    document = parse(f"{{ me {{ ...F0 }} }} {chain} fragment F30 on User {{ id }}")
    analysis = ShapeAnalysis(document, LIMITS)
    expect_limit_refusal(analysis.check)
    assert analysis.visits == 1 + 1 + 3 * 30 + 1


def test_a_long_chain_of_fragments_never_exhausts_the_stack():
    chain = " ".join(f"fragment F{n} on User {{ ...F{n + 1} }}" for n in range(2_000))
    document = parse(f"{{ me {{ ...F0 }} }} {chain} fragment F2000 on User {{ id }}")
    limits = dataclasses.replace(LIMITS, max_fragments=3_000)
    assert expect_limit_refusal(check_shape, document, limits) == ("max_nesting", 101, 100)
    assert expect_limit_refusal(check_shape, document, LIMITS) == ("max_fragments", 2_001, 100)


def test_a_chain_of_fragments_includes_parts_measured_before():
    chain = " ".join(f"fragment F{n} on User {{ ...F{n + 1} }}" for n in range(98))
    prefix = " ".join(f"fragment G{n} on User {{ ...G{n + 1} }}" for n in range(50))
    source = f"{{ ...F0 ...G0 }} {chain} fragment F98 on User {{ id }} {prefix} fragment G50 on User {{ ...F0 }}"
    limits = dataclasses.replace(LIMITS, max_fragments=200)
    assert expect_limit_refusal(check_shape, parse(source), limits) == ("max_nesting", 1 + 51 + 99, 100)


@pytest.mark.parametrize(
    "fragments",
    [
        "fragment A on User { ...A }",
        "fragment A on User { friend { ...B } } fragment B on User { ...A ...A }",
        "fragment A on User { ...B ...C } fragment B on User { ...C ...A } fragment C on User { ...A ...B }",
    ],
)
def test_cycles_are_left_to_validation(fragments):
    document = parse(f"{{ me {{ ...A }} }} {fragments}")
    analysis = ShapeAnalysis(document, LIMITS)
    analysis.check()
    assert analysis.visits < 10
    assert any("Cannot spread fragment" in error.message for error in validate(SCHEMA, document))


def test_unknown_fragments_are_left_to_validation():
    check_shape(parse("{ me { ...Nowhere } }"), LIMITS)


def test_too_many_directives_are_refused_at_every_position():
    directives = "@include(if: true) " * 50
    for source in (
        f"{{ me {{ id {directives} }} }}",
        f"{{ me {{ ... {directives} {{ id }} }} }}",
        f"{{ me {{ ...F {directives} }} }} fragment F on User {{ id }}",
        f"{{ me {{ ...F }} }} fragment F on User {directives} {{ id }}",
        f"query {directives} {{ me {{ id }} }}",
        f"query ($a: Int {directives}) {{ me {{ id }} }}",
    ):
        assert expect_shape_refusal(source) == ("max_directives", 50, 5)


def test_too_many_operations_in_one_document_are_refused():
    source = " ".join(f"query Q{n} {{ me {{ id }} }}" for n in range(21))
    assert expect_shape_refusal(source) == ("max_operations", 21, 20)


def test_the_limits_apply_to_every_operation_of_a_document():
    assert expect_shape_refusal("query A { me { id } } query B " + nested_fields(16))[0] == "max_depth"


def test_the_limits_apply_to_each_operation_separately():
    aliases = " ".join(f"a{n}: id" for n in range(30))
    check_shape(parse(f"query A {{ me {{ {aliases} }} }} query B {{ me {{ {aliases} }} }}"), LIMITS)


@pytest.mark.parametrize("options", [False, True], ids=["plain", "with everything"])
@pytest.mark.parametrize("type_depth", [9, 13])
def test_the_introspection_of_graphiql_passes(options, type_depth):
    source = get_introspection_query(
        descriptions=True,
        specified_by_url=options,
        directive_is_repeatable=options,
        schema_description=options,
        input_value_deprecation=options,
        experimental_directive_deprecation=options,
        one_of=options,
        type_depth=type_depth,
    )
    document = parse_limited(source, LIMITS)
    check_shape(document, LIMITS)
    check_cost(SCHEMA, document, None, None, LIMITS)


def test_introspection_does_not_add_to_the_depth_of_other_fields():
    check_shape(parse(nested_fields(15)[:-1] + " __schema { types { name } } }"), LIMITS)


def test_nested_introspection_lists_are_refused():
    source = '{ __type(name: "User") { %s name %s } }'
    allowed = source % ("fields { type { " * 2, "} } " * 2)
    check_shape(parse(allowed), LIMITS)
    assert expect_shape_refusal(source % ("fields { type { " * 3, "} } " * 3)) == ("max_introspection_lists", 3, 2)
    mixed = "{ __schema { types { possibleTypes { interfaces { fields { name } } } } } }"
    assert expect_shape_refusal(mixed) == ("max_introspection_lists", 3, 2)


def test_introspection_lists_are_found_through_fragments():
    fragment = "fragment T on __Type { fields { type { fields { type { name } } } } }"
    assert (
        expect_shape_refusal("{ __schema { types { interfaces { ...T } } } } " + fragment)[0]
        == "max_introspection_lists"
    )


def test_a_deep_chain_of_of_type_is_refused():
    source = '{ __type(name: "User") { ' + "ofType { " * 25 + "name" + " }" * 25 + " } }"
    assert expect_shape_refusal(source) == ("max_introspection_depth", 27, 20)


def test_fields_named_like_introspection_are_no_introspection():
    check_shape(parse("{ fields { fields { fields { interfaces { possibleTypes } } } } }"), LIMITS)

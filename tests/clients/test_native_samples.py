"""The Swift and Kotlin samples have no syntax errors, and use what Apollo's compilers make of the operations.

Nothing here compiles them: that needs Xcode and Gradle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter_kotlin
import tree_sitter_swift
from graphql import GraphQLEnumType, GraphQLInputObjectType, GraphQLScalarType, is_specified_scalar_type
from graphql.pyutils import snake_to_camel
from tree_sitter import Language, Node, Parser

from tests.clients.native_operations import (
    CONTRACT,
    FRAGMENTS,
    OPERATIONS,
    class_name,
    generated,
    used_types,
    variables,
)
from tests.clients.programs import GUIDE

SWIFT = GUIDE / "swift"
KOTLIN = GUIDE / "kotlin"
SWIFT_FILES = sorted(SWIFT.rglob("*.swift"))
KOTLIN_FILES = sorted(path for path in KOTLIN.rglob("*.kt*") if path.suffix in {".kt", ".kts"})
PARSERS = {
    ".swift": Parser(Language(tree_sitter_swift.language())),
    ".kt": Parser(Language(tree_sitter_kotlin.language())),
    ".kts": Parser(Language(tree_sitter_kotlin.language())),
}
GENERATED = generated()
TYPES = used_types()
INPUTS = {name: type_ for name, type_ in TYPES.items() if isinstance(type_, GraphQLInputObjectType)}
ENUMS = {name: type_ for name, type_ in TYPES.items() if isinstance(type_, GraphQLEnumType)}
SCALARS = {name for name, type_ in TYPES.items() if isinstance(type_, GraphQLScalarType)}
ALL_FIELDS = {field for type_ in CONTRACT.type_map.values() for field in getattr(type_, "fields", {})}
SELECTED = frozenset[str]().union(*(each.fields for each in GENERATED.values()))
ENUM_CASES = {snake_to_camel(value.lower(), upper=False) for type_ in ENUMS.values() for value in type_.values}
NOT_OF_THE_API = {"count", "first", "name", "url"}
"""Fields of the contract that the operations do not select, with names that strings, lists and files have too."""


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def parsed(path: Path) -> Node:
    return PARSERS[path.suffix].parse(path.read_bytes()).root_node


def code(paths: list[Path]) -> str:
    """Return the text of files without comments and without what is inside string literals."""
    texts = []
    for path in paths:
        text = bytearray(path.read_bytes())
        for node in walk(parsed(path)):
            if "comment" in node.type or node.type in {"line_str_text", "string_content"}:
                text[node.start_byte : node.end_byte] = b" " * (node.end_byte - node.start_byte)
        texts.append(text.decode())
    return "\n".join(texts)


SWIFT_CODE = code(SWIFT_FILES)
KOTLIN_CODE = code(KOTLIN_FILES)


@pytest.mark.parametrize("path", SWIFT_FILES + KOTLIN_FILES, ids=lambda path: path.name)
def test_a_file_has_no_syntax_errors(path: Path) -> None:
    wrong = [node for node in walk(parsed(path)) if node.type == "ERROR" or node.is_missing]
    assert [(node.start_point.row + 1, node.type) for node in wrong] == []


def test_syntax_errors_are_found() -> None:
    for suffix, text in ((".swift", b"func a( { }"), (".kt", b"fun a( { }")):
        assert PARSERS[suffix].parse(text).root_node.has_error


@pytest.mark.parametrize("path", SWIFT_FILES + KOTLIN_FILES, ids=lambda path: path.name)
def test_nothing_is_unwrapped_by_force(path: Path) -> None:
    forced = {"!", "bang", "!!", "as!", "try!"}
    found = [
        (node.start_point.row + 1, node.parent.type)
        for node in walk(parsed(path))
        if node.type in forced and node.parent and node.parent.type not in {"prefix_expression", "unary_expression"}
    ]
    assert found == []


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("text", [SWIFT_CODE, KOTLIN_CODE], ids=["swift", "kotlin"])
def test_each_operation_is_used(text: str, name: str) -> None:
    assert re.search(rf"\b{class_name(OPERATIONS[name])}\(", text)


def test_every_generated_type_in_swift_exists() -> None:
    known = {*GENERATED, *INPUTS, *ENUMS, *SCALARS, *map(class_name, OPERATIONS.values())}
    used = set(re.findall(r"\bConfabAPI\.([A-Z]\w*(?:\.[A-Z]\w*)*)", SWIFT_CODE))
    assert len(used) > 30
    assert used - known == set()


def test_every_generated_type_in_kotlin_exists() -> None:
    known = {
        "graphql": {path for path in GENERATED if path not in FRAGMENTS} | set(map(class_name, OPERATIONS.values())),
        "graphql.fragment": set(FRAGMENTS),
        "graphql.type": {*INPUTS, *ENUMS},
    }
    imported = re.findall(r"^import example\.chat\.(graphql(?:\.\w+)*)\.([A-Z]\w+)$", KOTLIN_CODE, re.MULTILINE)
    assert len(imported) > 30
    assert [(package, name) for package, name in imported if name not in known[package]] == []
    # All classes of selection sets are directly inside that of the operation or fragment.
    inner = {f"{path.partition('.')[0]}.{path.rpartition('.')[2]}" for path in GENERATED}
    names = "|".join(name for _, name in imported)
    nested = set(re.findall(rf"\b((?:{names})\.[A-Z][a-z]\w*(?:\.[A-Z][a-z]\w*)*)\b", KOTLIN_CODE))
    assert nested
    assert nested - inner == set()


def test_every_field_that_the_samples_read_is_selected() -> None:
    for text in (SWIFT_CODE, KOTLIN_CODE):
        read = set(re.findall(r"\.([a-z]\w*)", text))
        own = set(re.findall(r"\b(?:let|var|val|func|fun|case) (\w+)", text))
        assert len(read & SELECTED) > 40
        assert (read & ALL_FIELDS) - SELECTED - own - ENUM_CASES - NOT_OF_THE_API == set()


@pytest.mark.parametrize(("text", "prefix"), [(SWIFT_CODE, "as"), (KOTLIN_CODE, "on")], ids=["swift", "kotlin"])
def test_the_fields_of_each_event_are_selected(text: str, prefix: str) -> None:
    read = re.findall(rf"\.{prefix}([A-Z]\w+)(?:\??\.(\w+))?", text)
    assert len({name for name, _ in read}) > 12
    for name, field in read:
        found = [each for path, each in GENERATED.items() if path.endswith(f".As{name}")]
        assert found, name
        assert not field or field == "let" or any(field in each.fields for each in found), (name, field)
    events = {path.rpartition(".As")[2] for path in GENERATED if ".As" in path and path.count(".") == 3}
    assert {name for name, _ in read} == events


SWIFT_BINDING = r"if let (\w+) = event\.as(\w+)(.*?)(?=event\.|$)"
KOTLIN_BINDING = r"event\.on(\w+)\?\.let \{(?: (\w+) ->)?(.*?)(?=event\.|$)"


def test_the_fields_of_each_bound_event_are_selected() -> None:
    swift = re.findall(SWIFT_BINDING, SWIFT_CODE, re.DOTALL)
    kotlin = re.findall(KOTLIN_BINDING, KOTLIN_CODE, re.DOTALL)
    bound = swift + [(variable or "it", name, rest) for name, variable, rest in kotlin]
    assert len(bound) > 15
    for variable, name, rest in bound:
        read = set(re.findall(rf"\b{variable}\.(\w+)", rest))
        # Typing is in two subscriptions, with the same selection.
        for each in (each for path, each in GENERATED.items() if path.endswith(f"Events.As{name}")):
            assert read <= each.fields, (name, read - each.fields)


def test_a_position_is_kept_for_every_event_that_has_one() -> None:
    events = [each for each in GENERATED.values() if re.search(r"Events\.As\w+$", each.path)]
    for each in events:
        name = each.path.rpartition(".As")[2]
        fields = CONTRACT.type_map[name].fields  # type: ignore[attr-defined]
        for position in {"cursor", "rev"} & set(fields):
            assert position in each.fields, name
            assert f"as{name}?.{position}" in SWIFT_CODE
            assert f"on{name}?.{position}" in KOTLIN_CODE


def _calls(text: str, names: dict[str, list[str]], prefix: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield each call of these constructors: its name, the labels of its arguments, and how many it has."""
    for match in re.finditer(rf"{prefix}\b({'|'.join(names)})\(", text):
        depth, start, arguments = 1, match.end(), []
        for at in range(match.end(), len(text)):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[at], 0)
            if depth == 0 or (depth == 1 and text[at] == ","):
                arguments.append(text[start:at].strip())
                start = at + 1
            if depth == 0:
                break
        given = [each for each in arguments if each]
        labels = [label.group(1) for each in given if (label := re.match(r"(\w+)\s*[:=](?!=)", each))]
        yield match.group(1), labels, len(given)


CONSTRUCTORS = {class_name(each): variables(each) for each in OPERATIONS.values()} | {
    name: list(type_.fields) for name, type_ in INPUTS.items()
}


def _required(name: str) -> set[str]:
    fields = INPUTS[name].fields if name in INPUTS else {}
    return {each for each, field in fields.items() if str(field.type).endswith("!") and not field.default_value}


def test_swift_passes_the_arguments_of_operations_and_inputs_in_order() -> None:
    calls = list(_calls(SWIFT_CODE, CONSTRUCTORS, r"ConfabAPI\."))
    assert {name for name, _, _ in calls} >= {class_name(each) for each in OPERATIONS.values()}
    for name, labels, count in calls:
        assert len(labels) == count, name
        assert labels == [each for each in CONSTRUCTORS[name] if each in labels], name
        # The constructor of an operation has no default values.
        needed = _required(name) if name in INPUTS else set(CONSTRUCTORS[name])
        assert needed <= set(labels), name


def test_kotlin_passes_the_arguments_of_operations_and_inputs() -> None:
    for name, labels, count in _calls(KOTLIN_CODE, CONSTRUCTORS, r"(?<!class )"):
        assert set(labels) <= set(CONSTRUCTORS[name]), name
        assert count == len(CONSTRUCTORS[name]) or name in INPUTS, name
        if name in INPUTS and labels:
            assert _required(name) <= set(labels), name


def test_every_enum_value_exists() -> None:
    pairs = re.findall(rf"\b({'|'.join(ENUMS)})\.([A-Z]+(?:_[A-Z]+)*)\b", KOTLIN_CODE)
    assert len(pairs) > 8
    assert [(name, value) for name, value in pairs if value not in ENUMS[name].values] == []
    cases = re.findall(r"(?:[!=]= |\.case\()\.(\w+)\b", SWIFT_CODE)
    assert len(cases) > 8
    assert set(cases) - {"background"} <= ENUM_CASES  # of SwiftUI


def test_every_custom_scalar_is_mapped() -> None:
    custom = {name for name in SCALARS if not is_specified_scalar_type(CONTRACT.type_map[name])}
    assert {"Timestamp", "Cursor"} <= custom
    folder = SWIFT / "Sources" / "ConfabChat" / "Generated" / "Schema" / "CustomScalars"
    assert {path.stem for path in folder.iterdir()} == custom
    for name in custom:
        assert re.search(rf"(typealias|struct) {name}\b", (folder / f"{name}.swift").read_text())
    build = (KOTLIN / "build.gradle.kts").read_text()
    assert set(re.findall(r'mapScalar\w*\("(\w+)"', build)) == custom
    # Milliseconds since 1970 are larger than 2^31.
    assert 'mapScalarToKotlinLong("Timestamp")' in build


def test_the_paths_of_both_configurations_exist() -> None:
    config = json.loads((SWIFT / "apollo-codegen-config.json").read_text())
    operations = sorted(GUIDE.glob("graphql/*.graphql"))
    for pattern in config["input"]["schemaSearchPaths"]:
        assert (SWIFT / pattern).is_file()
    found = {path.resolve() for each in config["input"]["operationSearchPaths"] for path in SWIFT.glob(each)}
    assert found == {path.resolve() for path in operations}
    assert (SWIFT / config["output"]["schemaTypes"]["path"]).is_dir()
    name = config["output"]["schemaTypes"]["moduleType"]["embeddedInTarget"]["name"]
    assert f'name: "{name}"' in (SWIFT / "Package.swift").read_text()
    build = (KOTLIN / "build.gradle.kts").read_text()
    (schema,) = re.findall(r'schemaFiles\.from\("(.+)"\)', build)
    (folder,) = re.findall(r'srcDir\("(.+)"\)', build)
    assert (KOTLIN / schema).is_file()
    assert sorted((KOTLIN / folder).resolve().glob("*.graphql")) == [path.resolve() for path in operations]
    (package,) = re.findall(r'packageName\.set\("(.+)"\)', build)
    assert package == "example.chat.graphql"

"""The operations that the Swift and Kotlin samples share, and the names that Apollo's compilers make of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from graphql import (
    DocumentNode,
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLNamedType,
    GraphQLScalarType,
    OperationDefinitionNode,
    TypeInfo,
    TypeInfoVisitor,
    Visitor,
    build_schema,
    get_named_type,
    is_composite_type,
    parse,
    print_ast,
    separate_operations,
    type_from_ast,
    visit,
)
from graphql.language import (
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    SelectionSetNode,
    VariableDefinitionNode,
)

from tests.clients.programs import GUIDE, ROOT

CONTRACT = build_schema((ROOT / "docs" / "contract.graphql").read_text())
FILES = sorted((GUIDE / "graphql").glob("*.graphql"))
DOCUMENT = parse("\n".join(path.read_text() for path in FILES))
FRAGMENTS = {each.name.value: each for each in DOCUMENT.definitions if isinstance(each, FragmentDefinitionNode)}
OPERATIONS = {
    each.name.value: each for each in DOCUMENT.definitions if isinstance(each, OperationDefinitionNode) and each.name
}
BUILT_IN = {"Int", "Float", "String", "Boolean", "ID"}


def texts() -> dict[str, str]:
    """Return each operation as it is sent: with the fragments it needs."""
    return {name: print_ast(document) for name, document in separate_operations(DOCUMENT).items()}


def class_name(operation: OperationDefinitionNode) -> str:
    """Return the name that both compilers give to an operation."""
    assert operation.name
    return operation.name.value + operation.operation.value.capitalize()


def variables(operation: OperationDefinitionNode) -> list[str]:
    return [each.variable.name.value for each in operation.variable_definitions or ()]


def _is_list(type_: object) -> bool:
    return "[" in str(type_)


def _upper(name: str) -> str:
    return name[0].upper() + name[1:]


@dataclass(frozen=True)
class Selected:
    """A class that the compilers generate for a selection set: where it is, and the fields it has."""

    path: str
    fields: frozenset[str]


def selections(root: str, selection: SelectionSetNode, parent: GraphQLNamedType) -> Iterator[Selected]:
    """Yield the classes of a selection set and those inside it. Lists of `edges` have the class `Edge`."""
    fields = set()
    for each in selection.selections:
        if isinstance(each, FieldNode):
            name = each.name.value
            fields.add(name)
            field = getattr(parent, "fields", {}).get(name)
            named = get_named_type(field.type) if field else None
            if field and each.selection_set and is_composite_type(named):
                inner = _upper(name).removesuffix("s") if _is_list(field.type) else _upper(name)
                yield from selections(f"{root}.{inner}", each.selection_set, named)
        elif isinstance(each, InlineFragmentNode) and each.type_condition:
            condition = each.type_condition.name.value
            fields.add(f"as{condition}")
            yield from selections(f"{root}.As{condition}", each.selection_set, CONTRACT.type_map[condition])
        elif isinstance(each, FragmentSpreadNode):
            fields.add(each.name.value)
    yield Selected(root, frozenset(fields))


def generated() -> dict[str, Selected]:
    """Return all classes of selection sets by their path, such as `HistoryQuery.Data.Messages.Edge`."""
    found: list[Selected] = []
    for operation in OPERATIONS.values():
        root = CONTRACT.get_root_type(operation.operation)
        assert root
        found += selections(f"{class_name(operation)}.Data", operation.selection_set, root)
    for name, fragment in FRAGMENTS.items():
        found += selections(name, fragment.selection_set, CONTRACT.type_map[fragment.type_condition.name.value])
    return {each.path: each for each in found}


def used_types() -> dict[str, GraphQLNamedType]:
    """Return the enums, inputs and custom scalars that the operations refer to, which the compilers generate."""
    found: dict[str, GraphQLNamedType] = {}

    def add(named: GraphQLNamedType | None) -> None:
        is_known = named is None or named.name in found or named.name in BUILT_IN
        if is_known or not isinstance(named, GraphQLEnumType | GraphQLInputObjectType | GraphQLScalarType):
            return
        found[named.name] = named
        if isinstance(named, GraphQLInputObjectType):
            for field in named.fields.values():
                add(get_named_type(field.type))

    info = TypeInfo(CONTRACT)

    class Collector(Visitor):
        def enter_field(self, *_: object) -> None:
            add(get_named_type(info.get_type()))

        def enter_variable_definition(self, node: VariableDefinitionNode, *_: object) -> None:
            add(get_named_type(type_from_ast(CONTRACT, node.type)))

    visit(DOCUMENT, TypeInfoVisitor(info, Collector()))
    return found


def single(name: str) -> DocumentNode:
    return separate_operations(DOCUMENT)[name]

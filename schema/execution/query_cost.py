"""Limits the rows and values of an operation. Pages and lists inside one another multiply.

A list field with a list argument, such as `users(ids:)`, has one row for each item of the argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentSpreadNode,
    GraphQLArgument,
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    ListTypeNode,
    ListValueNode,
    NonNullTypeNode,
    NullValueNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    ValueNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
    is_list_type,
    value_from_ast_untyped,
)

from schema.execution.query_limits import MAX_COUNT, QueryLimits, fragments_of, limit_error

_PAGE_ARGUMENTS = ("first", "last")


def check_cost(
    schema: GraphQLSchema,
    document: DocumentNode,
    operation_name: str | None,
    variables: Mapping[str, Any] | None,
    limits: QueryLimits,
) -> None:
    """Check that the operation returns no more rows and values than the limits allow if every page is full.

    The document must have passed `check_shape` and validation.

    Raises:
        GraphQLError: QUERY_TOO_COMPLEX.
    """
    CostAnalysis(schema, document, operation_name, variables or {}, limits).check()


def size_variables(document: DocumentNode) -> tuple[str, ...]:
    """Return the variables that give page sizes or are lists: the operation's cost depends on them."""
    names: dict[str, None] = {}
    for operation in document.definitions:
        for definition in getattr(operation, "variable_definitions", None) or ():
            given = definition.type.type if isinstance(definition.type, NonNullTypeNode) else definition.type
            if isinstance(given, ListTypeNode):
                names[definition.variable.name.value] = None
    stack: list[Any] = list(document.definitions)
    while stack:
        node = stack.pop()
        for argument in getattr(node, "arguments", None) or ():
            if argument.name.value in _PAGE_ARGUMENTS and isinstance(argument.value, VariableNode):
                names[argument.value.name.value] = None
        selection_set = getattr(node, "selection_set", None)
        if selection_set is not None:
            stack.extend(selection_set.selections)
    return tuple(names)


def measured(value: object) -> object:
    """Return what the cost depends on, of a variable's value: the number of items of a list, else the value."""
    return (len(value),) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Cost:
    """Rows and values that a selection set adds for each object, with full pages."""

    nodes: int = 0
    values: int = 0


class CostAnalysis:
    """Measures one valid operation with its variables."""

    def __init__(
        self,
        schema: GraphQLSchema,
        document: DocumentNode,
        operation_name: str | None,
        variables: Mapping[str, Any],
        limits: QueryLimits,
    ) -> None:
        self.visits = 0
        """Selections visited so far."""
        self._schema = schema
        self._limits = limits
        self._fragments = fragments_of(document)
        self._fragment_costs: dict[str, Cost] = {}
        self._operations = [
            node
            for node in document.definitions
            if isinstance(node, OperationDefinitionNode)
            and (operation_name is None or (node.name is not None and node.name.value == operation_name))
        ]
        self._variables = dict(variables)
        for operation in self._operations:
            for definition in operation.variable_definitions or ():
                if definition.default_value is not None:
                    default = value_from_ast_untyped(definition.default_value)
                    self._variables.setdefault(definition.variable.name.value, default)

    def check(self) -> None:
        """Measure the operation. Raises GraphQLError for the first limit that it exceeds."""
        for operation in self._operations:
            cost = self._of_selection_set(operation.selection_set, self._schema.get_root_type(operation.operation))
            if cost.nodes > self._limits.max_nodes:
                raise limit_error("max_nodes", self._limits.max_nodes, cost.nodes, "rows if every page is full")
            if cost.values > self._limits.max_values:
                raise limit_error("max_values", self._limits.max_values, cost.values, "values if every page is full")

    def _of_selection_set(self, selections: SelectionSetNode | None, on: GraphQLNamedType | None) -> Cost:
        if selections is None:
            return Cost()
        parts = [self._of_selection(selection, on) for selection in selections.selections]
        return Cost(
            nodes=min(MAX_COUNT, sum(part.nodes for part in parts)),
            values=min(MAX_COUNT, sum(part.values for part in parts)),
        )

    def _of_selection(self, selection: SelectionNode, on: GraphQLNamedType | None) -> Cost:
        self.visits += 1
        match selection:
            case FieldNode():
                return self._of_field(selection, on)
            case InlineFragmentNode():
                condition = selection.type_condition
                narrowed = on if condition is None else self._schema.get_type(condition.name.value)
                return self._of_selection_set(selection.selection_set, narrowed)
            case FragmentSpreadNode():
                return self._of_fragment(selection.name.value)
            case _:
                return Cost()

    def _of_fragment(self, name: str) -> Cost:
        if name not in self._fragment_costs:
            self._fragment_costs[name] = Cost()
            definition = self._fragments.get(name)
            if definition is not None:
                on = self._schema.get_type(definition.type_condition.name.value)
                self._fragment_costs[name] = self._of_selection_set(definition.selection_set, on)
        return self._fragment_costs[name]

    def _of_field(self, node: FieldNode, on: GraphQLNamedType | None) -> Cost:
        field = on.fields.get(node.name.value) if isinstance(on, GraphQLObjectType | GraphQLInterfaceType) else None
        content = self._of_selection_set(node.selection_set, get_named_type(field.type) if field is not None else None)
        rows = self._rows(node, field) if field is not None else None
        if rows is None:
            return Cost(content.nodes, 1 + content.values)
        return Cost(rows * (1 + content.nodes), 1 + rows * content.values)

    def _rows(self, node: FieldNode, field: GraphQLField) -> int | None:
        """Return the largest number of rows of a page or list; None if the field is neither."""
        if _is_paged(field):
            return self._page_size(node, field)
        lists = [name for name, argument in field.args.items() if is_list_type(get_nullable_type(argument.type))]
        if not lists or not is_list_type(get_nullable_type(field.type)):
            return None
        given = {argument.name.value: argument.value for argument in node.arguments or ()}
        return min(MAX_COUNT, sum(self._list_size(given.get(name)) for name in lists))

    def _list_size(self, value: ValueNode | None) -> int:
        """Return the number of items of a list argument. One item may be given without a list."""
        if isinstance(value, ListValueNode):
            return len(value.values)
        items = self._variables.get(value.name.value) if isinstance(value, VariableNode) else value
        if items is None or isinstance(items, NullValueNode):
            return self._limits.default_list
        return len(items) if isinstance(items, list) else 1

    def _page_size(self, node: FieldNode, field: GraphQLField) -> int:
        arguments = {argument.name.value: self._value(argument.value) for argument in node.arguments or ()}
        sizes = [
            arguments[name] if arguments.get(name) is not None else _default(field.args[name])
            for name in _PAGE_ARGUMENTS
            if name in field.args
        ]
        size = max((each for each in sizes if isinstance(each, int)), default=self._limits.default_page)
        return min(max(size, 1), self._limits.max_page)

    def _value(self, value: ValueNode) -> Any:
        match value:
            case VariableNode():
                return self._variables.get(value.name.value)
            case IntValueNode():
                return int(value.value)
            case _:
                return None


def _default(argument: GraphQLArgument) -> Any:
    """Return the default of an argument, of a Strawberry schema or one built from SDL."""
    default = argument.default
    if default is None:
        return argument.default_value
    return default.value if default.literal is None else value_from_ast_untyped(default.literal)


def _is_paged(field: GraphQLField) -> bool:
    return any(name in field.args for name in _PAGE_ARGUMENTS)

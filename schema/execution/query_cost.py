"""How many rows an operation leads to, and how many values: pages inside pages multiply."""

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
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    ValueNode,
    VariableNode,
    get_named_type,
    value_from_ast_untyped,
)

from schema.execution.query_limits import MANY, QueryLimits, fragments_of, refuse

_PAGE_ARGUMENTS = ("first", "last")


def check_cost(
    schema: GraphQLSchema,
    document: DocumentNode,
    operation_name: str | None,
    variables: Mapping[str, Any] | None,
    limits: QueryLimits,
) -> None:
    """The operation leads to no more rows and values than the limits say, if every page is full.

    For documents that passed `check_shape` and validation. Raises GraphQLError.
    """
    CostSurvey(schema, document, operation_name, variables or {}, limits).check()


def page_variables(document: DocumentNode) -> tuple[str, ...]:
    """The variables that an operation's cost depends on: those that say how long a page is to be."""
    names: dict[str, None] = {}
    waiting: list[Any] = list(document.definitions)
    while waiting:
        node = waiting.pop()
        for argument in getattr(node, "arguments", None) or ():
            if argument.name.value in _PAGE_ARGUMENTS and isinstance(argument.value, VariableNode):
                names[argument.value.name.value] = None
        selection_set = getattr(node, "selection_set", None)
        if selection_set is not None:
            waiting.extend(selection_set.selections)
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a selection set leads to, per object that it is applied to, with full pages."""

    nodes: int = 0
    values: int = 0


class CostSurvey:
    """One look at a valid operation with its variables."""

    def __init__(
        self,
        schema: GraphQLSchema,
        document: DocumentNode,
        operation_name: str | None,
        variables: Mapping[str, Any],
        limits: QueryLimits,
    ) -> None:
        self.visits = 0
        """Selections looked at so far."""
        self._schema = schema
        self._limits = limits
        self._fragments = fragments_of(document)
        self._costs: dict[str, Cost] = {}
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
        """Raises GraphQLError for the first limit that is passed."""
        for operation in self._operations:
            cost = self._of_set(operation.selection_set, self._schema.get_root_type(operation.operation))
            if cost.nodes > self._limits.max_nodes:
                raise refuse("max_nodes", self._limits.max_nodes, cost.nodes, "rows if every page is full")
            if cost.values > self._limits.max_values:
                raise refuse("max_values", self._limits.max_values, cost.values, "values if every page is full")

    def _of_set(self, selections: SelectionSetNode | None, on: GraphQLNamedType | None) -> Cost:
        if selections is None:
            return Cost()
        parts = [self._of_selection(selection, on) for selection in selections.selections]
        return Cost(
            nodes=min(MANY, sum(part.nodes for part in parts)),
            values=min(MANY, sum(part.values for part in parts)),
        )

    def _of_selection(self, selection: SelectionNode, on: GraphQLNamedType | None) -> Cost:
        self.visits += 1
        match selection:
            case FieldNode():
                return self._of_field(selection, on)
            case InlineFragmentNode():
                condition = selection.type_condition
                narrowed = on if condition is None else self._schema.get_type(condition.name.value)
                return self._of_set(selection.selection_set, narrowed)
            case FragmentSpreadNode():
                return self._of_fragment(selection.name.value)
            case _:
                return Cost()

    def _of_fragment(self, name: str) -> Cost:
        if name not in self._costs:
            self._costs[name] = Cost()
            definition = self._fragments.get(name)
            if definition is not None:
                on = self._schema.get_type(definition.type_condition.name.value)
                self._costs[name] = self._of_set(definition.selection_set, on)
        return self._costs[name]

    def _of_field(self, node: FieldNode, on: GraphQLNamedType | None) -> Cost:
        field = on.fields.get(node.name.value) if isinstance(on, GraphQLObjectType | GraphQLInterfaceType) else None
        inside = self._of_set(node.selection_set, get_named_type(field.type) if field is not None else None)
        rows = self._page(node, field) if field is not None and _is_paged(field) else None
        if rows is None:
            return Cost(inside.nodes, 1 + inside.values)
        return Cost(rows * (1 + inside.nodes), 1 + rows * inside.values)

    def _page(self, node: FieldNode, field: GraphQLField) -> int:
        given = {argument.name.value: self._value(argument.value) for argument in node.arguments or ()}
        sizes = [
            given[name] if given.get(name) is not None else _default(field.args[name])
            for name in _PAGE_ARGUMENTS
            if name in field.args
        ]
        asked = max((size for size in sizes if isinstance(size, int)), default=self._limits.default_page)
        return min(max(asked, 1), self._limits.max_page)

    def _value(self, value: ValueNode) -> Any:
        match value:
            case VariableNode():
                return self._variables.get(value.name.value)
            case IntValueNode():
                return int(value.value)
            case _:
                return None


def _default(argument: GraphQLArgument) -> Any:
    """As strawberry gives it, or as a schema built from SDL has it."""
    default = argument.default
    if default is None:
        return argument.default_value
    return default.value if default.literal is None else value_from_ast_untyped(default.literal)


def _is_paged(field: GraphQLField) -> bool:
    return any(name in field.args for name in _PAGE_ARGUMENTS)

"""Limits the rows and values of an operation before it is executed. Lists inside lists multiply.

A page counts as full, a list without `first` as large as declared at its field (`schema.base.list_sizes`), and the
items of lists in arguments as one value each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
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
    ListValueNode,
    NullValueNode,
    ObjectValueNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    ValueNode,
    VariableNode,
    get_named_type,
    get_nullable_type,
    is_introspection_type,
    is_leaf_type,
    is_list_type,
    value_from_ast_untyped,
)

from schema.base.list_sizes import find_list_size
from schema.execution.query_limits import MAX_COUNT, QueryLimits, fragments_of, limit_error

_PAGE_ARGUMENTS = ("first", "last")

NOT_GIVEN = object()
"""The value of a variable that is missing."""


def check_cost(
    schema: GraphQLSchema,
    document: DocumentNode,
    operation_name: str | None,
    variables: Mapping[str, Any] | None,
    limits: QueryLimits,
) -> Cost:
    """Check that the operation returns no more rows and values than the limits allow if every page is full.

    The document must have passed `check_shape` and validation.

    Returns:
        These rows and values, without the items of lists in the variables.

    Raises:
        GraphQLError: QUERY_TOO_COMPLEX.
    """
    return CostAnalysis(schema, document, operation_name, variables or {}, limits).check()


def size_variables(schema: GraphQLSchema, document: DocumentNode) -> tuple[str, ...]:
    """Return the variables that may decide the sizes of pages and lists: the operation's cost depends on them."""
    sizing = _size_arguments(schema)
    names: dict[str, None] = {}
    stack: list[Any] = list(document.definitions)
    while stack:
        node = stack.pop()
        for argument in getattr(node, "arguments", None) or ():
            if argument.name.value in sizing and isinstance(argument.value, VariableNode):
                names[argument.value.name.value] = None
        selection_set = getattr(node, "selection_set", None)
        if selection_set is not None:
            stack.extend(selection_set.selections)
    return tuple(names)


def count_selections(document: DocumentNode) -> int:
    """Return the number of fields and fragments that are selected in a document: the steps of analysing its cost."""
    count = 0
    stack: list[Any] = list(document.definitions)
    while stack:
        selection_set = getattr(stack.pop(), "selection_set", None)
        if selection_set is not None:
            count += len(selection_set.selections)
            stack.extend(selection_set.selections)
    return count


def make_size_key(value: Any) -> object:
    """Return the part of a variable's value that determines the cost, as a key for remembered costs."""
    if value is None or value is NOT_GIVEN or _is_whole_number(value):
        return value
    return (len(value),) if isinstance(value, list) else "other"


def count_items(value: Any) -> int:
    """Return the number of items in the lists of a value of variables, also of lists inside objects and lists.

    Not recursive, because JSON may be nested more deeply than Python calls can be.
    """
    items = 0
    remaining = [value]
    while remaining:
        each = remaining.pop()
        if isinstance(each, dict):
            remaining += [part for part in each.values() if isinstance(part, (dict, list))]
        elif isinstance(each, list):
            items += len(each)
            remaining += [part for part in each if isinstance(part, (dict, list))]
    return items


def _is_whole_number(value: Any) -> bool:
    """Return whether GraphQL's Int accepts a number. It accepts 100.0."""
    return type(value) is int or (type(value) is float and value.is_integer())


@lru_cache(maxsize=8)
def _size_arguments(schema: GraphQLSchema) -> frozenset[str]:
    """Return the names of the arguments that decide the size of a page or list."""
    sizes = [find_list_size(field) for field in _all_fields(schema)]
    return frozenset(_PAGE_ARGUMENTS) | {size.argument for size in sizes if size is not None and size.argument}


@lru_cache(maxsize=8)
def page_types(schema: GraphQLSchema) -> frozenset[GraphQLNamedType]:
    """Return the types of pages, such as connections. Their lists hold the rows of the page."""
    return frozenset(get_named_type(field.type) for field in _all_fields(schema) if _is_paged(field))


def _all_fields(schema: GraphQLSchema) -> Iterator[GraphQLField]:
    for type_ in schema.type_map.values():
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType):
            yield from type_.fields.values()


def needs_size(field: GraphQLField) -> bool:
    """Return True for a list of objects that is no page."""
    is_list = is_list_type(get_nullable_type(field.type))
    return is_list and not is_leaf_type(get_named_type(field.type)) and not _is_paged(field)


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

    def check(self) -> Cost:
        """Measure the operation. Raises GraphQLError for the first limit that it exceeds."""
        cost = Cost()
        for operation in self._operations:
            cost = self._of_selection_set(operation.selection_set, self._schema.get_root_type(operation.operation))
            if cost.nodes > self._limits.max_nodes:
                raise limit_error("max_nodes", self._limits.max_nodes, cost.nodes, "rows if every page is full")
            if cost.values > self._limits.max_values:
                raise limit_error("max_values", self._limits.max_values, cost.values, "values if every page is full")
        return cost

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
        arguments = {argument.name.value: argument.value for argument in node.arguments or ()}
        values = 1 + sum([_literal_items(value) for value in arguments.values()])
        rows = self._rows(field, on, arguments) if field is not None else None
        if rows is None:
            return Cost(content.nodes, values + content.values)
        return Cost(rows * (1 + content.nodes), values + rows * content.values)

    def _rows(self, field: GraphQLField, on: GraphQLNamedType | None, given: Mapping[str, ValueNode]) -> int | None:
        """Return the rows of a page or list; None if the field is neither, or if its rows are those of a page."""
        if _is_paged(field):
            return self._page_size(field, given)
        size = find_list_size(field)
        if size is None:
            return self._limits.default_page if self._needs_size(field, on) else None
        return size.items if size.argument is None else self._items(given.get(size.argument), size.items)

    def _needs_size(self, field: GraphQLField, on: GraphQLNamedType | None) -> bool:
        """Return True for a list of objects whose items are not the rows of a page. Introspection has other limits."""
        return (
            needs_size(field)
            and on not in page_types(self._schema)
            and not (on is not None and is_introspection_type(on))
        )

    def _items(self, value: ValueNode | None, otherwise: int) -> int:
        """Return the number of items of an argument. A value that is no list is coerced to a list of one."""
        given = self._variables.get(value.name.value) if isinstance(value, VariableNode) else value
        if given is None or isinstance(given, NullValueNode):
            return otherwise
        if isinstance(given, ListValueNode):
            return len(given.values)
        return len(given) if isinstance(given, list) else 1

    def _page_size(self, field: GraphQLField, given: Mapping[str, ValueNode]) -> int:
        arguments = {name: self._value(value) for name, value in given.items() if name in _PAGE_ARGUMENTS}
        sizes = [
            arguments[name] if arguments.get(name) is not None else _default(field.args[name])
            for name in _PAGE_ARGUMENTS
            if name in field.args
        ]
        size = max((each for each in sizes if _is_whole_number(each)), default=self._limits.default_page)
        return int(min(max(size, 1), self._limits.max_page))

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


def _literal_items(value: ValueNode) -> int:
    """Return the number of items in the lists of an argument in the document."""
    match value:
        case ListValueNode(values=items):
            return len(items) + sum(map(_literal_items, items))
        case ObjectValueNode(fields=fields):
            return sum([_literal_items(field.value) for field in fields])
        case _:
            return 0

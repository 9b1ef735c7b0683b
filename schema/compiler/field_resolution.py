"""Resolves fields: reads an attribute, or calls the resolver as directly as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeAlias

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    GraphQLField,
    GraphQLObjectType,
    GraphQLResolveInfo,
    GraphQLSchema,
    OperationDefinitionNode,
    default_field_resolver,
)
from graphql.execution.values import get_argument_values
from graphql.pyutils import gather_with_cancel, is_awaitable
from graphql.type import GraphQLResolveInfoHelpers
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types import Info
from strawberry.types.field import StrawberryField

from schema.compiler.arguments import ArgumentConverters, ConvertArguments
from schema.compiler.execution import ExecutionState, ResponsePath, finish_in_background, resolver_path
from schema.compiler.record_fields import RecordField

Resolve: TypeAlias = Callable[[Any, ResponsePath, ExecutionState], Any]
"""Returns the value of a field of a source, or an awaitable of it. Raises the resolver's exceptions."""

_HELPERS = GraphQLResolveInfoHelpers(
    gather=lambda values: gather_with_cancel(*values),
    track=finish_in_background,
)


@dataclass(frozen=True, slots=True)
class OperationSource:
    """The parsed operation that all its selected fields share."""

    schema: GraphQLSchema
    definition: OperationDefinitionNode
    fragments: dict[str, FragmentDefinitionNode]
    hide_suggestions: bool
    argument_converters: ArgumentConverters | None
    """None if Strawberry must call the resolvers itself, because it does more than convert their arguments."""


@dataclass(frozen=True, slots=True)
class SelectedField:
    """One selected field of a type."""

    operation: OperationSource
    parent: GraphQLObjectType
    definition: GraphQLField
    nodes: list[FieldNode]

    @property
    def name(self) -> str:
        """The field's name in the schema, which is not its alias."""
        return self.nodes[0].name.value

    def info(self, path: ResponsePath, state: ExecutionState) -> GraphQLResolveInfo[Any]:
        """Return the info object that graphql-core gives to resolvers."""
        operation = self.operation
        return GraphQLResolveInfo(
            self.name,
            self.nodes,
            self.definition.type,
            self.parent,
            resolver_path(path),
            operation.schema,
            operation.fragments,
            state.root,
            operation.definition,
            state.variables,
            state.context,
            is_awaitable,
            None,
            _HELPERS,
        )


class LazyInfo(Info[Any, Any]):
    """Strawberry's info, which builds graphql-core's info on first use. Most resolvers only read `context`."""

    __slots__ = ("context",)

    context: Any
    """The context of the execution."""

    def __init__(
        self, definition: StrawberryField, field: SelectedField, path: ResponsePath, state: ExecutionState
    ) -> None:
        self._field = definition
        self._call = (field, path, state)
        self.context = state.context

    @cached_property
    def _raw_info(self) -> GraphQLResolveInfo[Any]:  # type: ignore[override]
        field, path, state = self._call
        return field.info(path, state)


def attribute_of(field: GraphQLField) -> str | None:
    """Return the path of the attribute that holds the field's value; None if the field has a resolver."""
    definition = field.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    if not getattr(field.resolve, "_is_default", False):
        return None
    if type(definition) is RecordField:
        return definition.attribute
    if type(definition) is StrawberryField and definition.default_resolver is getattr:
        return definition.python_name
    return None


def resolver_of(field: SelectedField) -> Resolve:
    """Return the fastest function that resolves a field."""
    name = attribute_of(field.definition)
    if name is not None:
        return _attribute_reader(name)
    return _direct_call(field) or _graphql_core_call(field)


def _attribute_reader(name: str) -> Resolve:
    read = attrgetter(name)
    return lambda source, path, state: read(source)


@dataclass(frozen=True, slots=True)
class DirectCall:
    """A resolver that is called with its source, and by keyword with its info if `info_name` is set."""

    function: Callable[..., Any]
    info_name: str | None
    definition: StrawberryField


def direct_call_of(field: SelectedField) -> DirectCall | None:
    """Return the function that Strawberry would call, if it takes its source by position."""
    definition = field.definition.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    converters = field.operation.argument_converters
    if (
        converters is None
        or type(definition) is not StrawberryField
        or definition.base_resolver is None
        or definition.extensions
        or definition.is_subscription
    ):
        return None
    resolver = definition.base_resolver
    function, info = resolver.wrapped_func, resolver.info_parameter
    other_sources = (resolver.root_parameter, resolver.parent_parameter)
    if resolver.self_parameter is None or other_sources != (None, None) or not callable(function):
        return None
    return DirectCall(function, info.name if info is not None else None, definition)


def takes_arguments(field: SelectedField) -> bool:
    """Return whether the field has arguments."""
    return bool(field.definition.args or field.nodes[0].arguments)


def _direct_call(field: SelectedField) -> Resolve | None:
    call = direct_call_of(field)
    if call is None:
        return None
    function, name, definition = call.function, call.info_name, call.definition
    if takes_arguments(field):
        converters = field.operation.argument_converters
        assert converters is not None
        return _direct_call_with_arguments(
            function, name, definition, field, converters.for_arguments(definition.arguments)
        )
    if name is None:
        return lambda source, path, state: function(source)
    return lambda source, path, state: function(source, **{name: LazyInfo(definition, field, path, state)})


def _direct_call_with_arguments(
    function: Callable[..., Any],
    info_name: str | None,
    definition: StrawberryField,
    field: SelectedField,
    convert: ConvertArguments,
) -> Resolve:
    core_field, node, hide_suggestions = field.definition, field.nodes[0], field.operation.hide_suggestions

    def call(source: Any, path: ResponsePath, state: ExecutionState) -> Any:
        values = get_argument_values(core_field, node, state.variables, None, hide_suggestions)
        info = LazyInfo(definition, field, path, state)
        arguments = convert(values, info)
        if info_name is not None:
            arguments[info_name] = info
        return function(source, **arguments)

    return call


def _graphql_core_call(field: SelectedField) -> Resolve:
    """Call the resolver as graphql-core does."""
    function = field.definition.resolve or default_field_resolver
    if not field.definition.args and not field.nodes[0].arguments:
        return lambda source, path, state: function(source, field.info(path, state))
    definition, node, hide_suggestions = field.definition, field.nodes[0], field.operation.hide_suggestions

    def call(source: Any, path: ResponsePath, state: ExecutionState) -> Any:
        info = field.info(path, state)
        return function(source, info, **get_argument_values(definition, node, state.variables, None, hide_suggestions))

    return call

"""How the value of a field is come by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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

from schema.compiler.arguments import Arguments, Inputs
from schema.compiler.execution import ResponsePath, Run, path_of, settle

Resolve: TypeAlias = Callable[[Any, ResponsePath, Run], Any]
"""The value of a field of a source, which may have to be awaited. Raises what the resolver raises."""

_HELPERS = GraphQLResolveInfoHelpers(gather=lambda values: gather_with_cancel(*values), track=settle)


@dataclass(frozen=True, slots=True)
class OperationSource:
    """What all fields of an operation have in common."""

    schema: GraphQLSchema
    definition: OperationDefinitionNode
    fragments: dict[str, FragmentDefinitionNode]
    hide_suggestions: bool
    inputs: Inputs | None
    """How arguments are converted, where resolvers may be called without Strawberry: nothing is to be done around each of them."""


@dataclass(frozen=True, slots=True)
class Field:
    """One selected field of a type."""

    operation: OperationSource
    parent: GraphQLObjectType
    definition: GraphQLField
    nodes: list[FieldNode]

    @property
    def name(self) -> str:
        return self.nodes[0].name.value

    def info(self, spot: ResponsePath, run: Run) -> GraphQLResolveInfo[Any]:
        """What graphql-core hands to resolvers."""
        operation = self.operation
        return GraphQLResolveInfo(
            self.name,
            self.nodes,
            self.definition.type,
            self.parent,
            path_of(spot),
            operation.schema,
            operation.fragments,
            run.root,
            operation.definition,
            run.variables,
            run.context,
            is_awaitable,
            None,
            _HELPERS,
        )


class LazyInfo(Info[Any, Any]):
    """Strawberry's info. Most resolvers want its context and nothing else of it."""

    def __init__(self, definition: StrawberryField, field: Field, spot: ResponsePath, run: Run) -> None:
        self._field = definition
        self._place = (field, spot, run)
        self._made: GraphQLResolveInfo[Any] | None = None

    @property
    def context(self) -> Any:
        return self._place[2].context

    @property
    def _raw_info(self) -> GraphQLResolveInfo[Any]:  # type: ignore[override]
        if self._made is None:
            field, spot, run = self._place
            self._made = field.info(spot, run)
        return self._made


def attribute_of(field: GraphQLField) -> str | None:
    """The attribute that is the field's value, where nothing but `getattr` comes between."""
    definition = field.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    if (
        getattr(field.resolve, "_is_default", False)
        and type(definition) is StrawberryField
        and definition.default_resolver is getattr
    ):
        return definition.python_name
    return None


def resolver_of(field: Field) -> Resolve:
    """How to come by a field's value."""
    name = attribute_of(field.definition)
    if name is not None:
        return _attribute(name)
    return _directly(field) or _as_graphql_core_does(field)


def _attribute(name: str) -> Resolve:
    return lambda source, spot, run: getattr(source, name)


def _directly(field: Field) -> Resolve | None:
    """Calls the function itself that Strawberry would call, where that takes its source by position."""
    definition = field.definition.extensions.get(GraphQLCoreConverter.DEFINITION_BACKREF)
    inputs = field.operation.inputs
    if (
        inputs is None
        or type(definition) is not StrawberryField
        or definition.base_resolver is None
        or definition.extensions
        or definition.is_subscription
    ):
        return None
    resolver = definition.base_resolver
    function, info = resolver.wrapped_func, resolver.info_parameter
    others = (resolver.root_parameter, resolver.parent_parameter)
    if resolver.self_parameter is None or others != (None, None) or not callable(function):
        return None
    name = info.name if info is not None else None
    if field.definition.args or field.nodes[0].arguments:
        return _with_arguments(function, name, definition, field, inputs.arguments(definition.arguments))
    if name is None:
        return lambda source, spot, run: function(source)
    return lambda source, spot, run: function(source, **{name: LazyInfo(definition, field, spot, run)})


def _with_arguments(
    function: Callable[..., Any], info_name: str | None, definition: StrawberryField, field: Field, convert: Arguments
) -> Resolve:
    described, node, hide_suggestions = field.definition, field.nodes[0], field.operation.hide_suggestions

    def call(source: Any, spot: ResponsePath, run: Run) -> Any:
        values = get_argument_values(described, node, run.variables, None, hide_suggestions)
        info = LazyInfo(definition, field, spot, run)
        given = convert(values, info)
        if info_name is not None:
            given[info_name] = info
        return function(source, **given)

    return call


def _as_graphql_core_does(field: Field) -> Resolve:
    function = field.definition.resolve or default_field_resolver
    if not field.definition.args and not field.nodes[0].arguments:
        return lambda source, spot, run: function(source, field.info(spot, run))
    definition, node, hide_suggestions = field.definition, field.nodes[0], field.operation.hide_suggestions

    def call(source: Any, spot: ResponsePath, run: Run) -> Any:
        info = field.info(spot, run)
        return function(source, info, **get_argument_values(definition, node, run.variables, None, hide_suggestions))

    return call

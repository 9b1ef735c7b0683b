"""Plans the steps for each object of a selection, once per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from graphql import (
    GraphQLAbstractType,
    GraphQLError,
    GraphQLLeafType,
    GraphQLList,
    GraphQLObjectType,
    GraphQLOutputType,
    Node,
    TypeNameMetaFieldDef,
    Undefined,
    default_type_resolver,
    is_abstract_type,
    is_leaf_type,
    is_list_type,
    is_non_null_type,
)
from graphql.execution import Executor
from graphql.execution.collect_fields import FieldDetails, FragmentDetails, collect_fields, collect_subfields
from graphql.execution.executor import invalid_return_type_error
from graphql.execution.values import VariableValues
from graphql.pyutils import is_awaitable, is_iterable
from strawberry.types import get_object_definition
from strawberry.types.cast import get_strawberry_type_cast

from schema.compiler.execution import PENDING, Complete, ExecutionState, ResponsePath
from schema.compiler.field_resolution import OperationSource, SelectedField, attribute_of, resolver_of
from schema.compiler.leaf_values import leaf_serializer, passthrough_class, serialize_leaf

Step = Callable[[Any, dict[str, Any], "ResponsePath | None", ExecutionState], None]
"""Puts one or more fields of a source into an object of the response at a path (None: the response itself). Raises the
GraphQLError of a field that may not be null."""

CompleteObject = Callable[[Any, ResponsePath, ExecutionState], dict[str, Any]]

Details = list[FieldDetails]


class Planner:
    """Plans the steps of one operation, for certain values of the variables in its directives."""

    def __init__(
        self,
        operation: OperationSource,
        fragments: dict[str, FragmentDetails],
        variables: VariableValues,
        executor: Executor[Any],
    ) -> None:
        self._operation = operation
        self._fragments = fragments
        self._variables = variables
        self._executor = executor
        self.field_count = 0
        """Fields planned so far. Grows when an interface or union resolves to a type for the first time."""

    def plan_root(self, root: GraphQLObjectType) -> list[Step]:
        """Return a step for each root field of the operation."""
        operation = self._operation
        grouped = collect_fields(
            operation.schema, self._fragments, self._variables, root, operation.definition, operation.hide_suggestions
        ).grouped_field_set
        return self._steps(root, grouped, groups_attributes=False)

    # Fields

    def _object_completer(self, type_: GraphQLObjectType, details: Details) -> CompleteObject:
        """Return a function that builds the response's object from a source of the type."""
        operation = self._operation
        try:
            grouped = collect_subfields(
                operation.schema,
                self._fragments,
                self._variables,
                operation.definition,
                type_,
                details,
                operation.hide_suggestions,
            ).grouped_field_set
        except GraphQLError as error:
            # The condition of a @skip or @include is null. It is an error only if an object is reached.
            return _always_raise(error.message, error.nodes)
        steps = self._steps(type_, grouped, groups_attributes=True)

        def complete_object(source: Any, path: ResponsePath, state: ExecutionState) -> dict[str, Any]:
            out: dict[str, Any] = {}
            for step in steps:
                step(source, out, path, state)
            return out

        return complete_object

    def _steps(
        self, type_: GraphQLObjectType, grouped: Mapping[str, Details], *, groups_attributes: bool
    ) -> list[Step]:
        steps: list[Step] = []
        adjacent: list[_LeafAttribute] = []

        def flush() -> None:
            if adjacent:
                steps.append(_read_attributes(adjacent) if len(adjacent) > 1 else adjacent[0].full_step)
                adjacent.clear()

        for key, details in grouped.items():
            name = details[0].node.name.value
            definition = self._operation.schema.get_field(type_, name)
            if definition is None:
                continue
            if definition is TypeNameMetaFieldDef:
                flush()
                steps.append(_constant(key, type_.name))
                continue
            self.field_count += 1
            field = SelectedField(self._operation, type_, definition, [detail.node for detail in details])
            step = self._step(key, field, details)
            attribute, leaf = attribute_of(definition), _leaf_type(definition.type)
            if attribute is not None and leaf is not None and groups_attributes:
                adjacent.append(_LeafAttribute(key, attribute, leaf, is_non_null_type(definition.type), step))
            else:
                flush()
                steps.append(step)
        flush()
        return steps

    def _step(self, key: str, field: SelectedField, details: Details) -> Step:
        type_name, nodes = field.parent.name, field.nodes
        nullable = not is_non_null_type(field.definition.type)
        resolve, complete = resolver_of(field), self._completer(field.definition.type, field, details)

        sync_class: type | None = None

        def step(source: Any, out: dict[str, Any], parent_path: ResponsePath | None, state: ExecutionState) -> None:
            nonlocal sync_class
            path = (parent_path, key, type_name, out, nullable)
            try:
                value = resolve(source, path, state)
                # Most values of a field have one class, which is not awaitable: it is checked once.
                if type(value) is not sync_class:
                    if is_awaitable(value):
                        out[key] = None
                        state.pending.append((value, path, nodes, complete))
                        return
                    sync_class = type(value)
                completed = complete(value, path, state)
                out[key] = None if completed is PENDING else completed
            except Exception as raw:
                state.record_error(raw, nodes, path)
                out[key] = None

        return step

    # Values

    def _completer(self, type_: GraphQLOutputType, field: SelectedField, details: Details) -> Complete:
        required = is_non_null_type(type_)
        named: GraphQLOutputType = type_.of_type if is_non_null_type(type_) else type_
        null_error = f"Cannot return null for non-nullable field {field.parent}.{field.name}." if required else None
        if is_leaf_type(named):
            return _with_null_check(lambda value, path, state: serialize_leaf(named, value), null_error)
        if is_list_type(named):
            return _with_null_check(self._list(named, field, details), null_error)
        if is_abstract_type(named):
            return _with_null_check(self._abstract(named, field, details), null_error)
        assert isinstance(named, GraphQLObjectType)
        return _with_null_check(self._object(named, field, details), null_error)

    def _list(self, type_: GraphQLList[Any], field: SelectedField, details: Details) -> Complete:
        nodes = field.nodes
        item_nullable = not is_non_null_type(type_.of_type)
        complete_item = self._completer(type_.of_type, field, details)

        def complete(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
            if type(value) is not list:
                if hasattr(value, "__aiter__"):
                    state.pending.append((_collect(value), path, nodes, complete))
                    return PENDING
                if not is_iterable(value):
                    raise GraphQLError(
                        f"Expected Iterable, but did not find one for field '{field.parent}.{field.name}'."
                    )
            items: list[Any] = []
            sync_class: type | None = None
            for index, item in enumerate(value):
                item_path = (path, index, None, items, item_nullable)
                try:
                    # Most items have one class, which is not awaitable: it is checked once.
                    if type(item) is not sync_class:
                        if is_awaitable(item):
                            items.append(None)
                            state.pending.append((item, item_path, nodes, complete_item))
                            continue
                        sync_class = type(item)
                    completed = complete_item(item, item_path, state)
                    items.append(None if completed is PENDING else completed)
                except Exception as raw:
                    state.record_error(raw, nodes, item_path)
                    items.append(None)
            return items

        return complete

    def _object(self, type_: GraphQLObjectType, field: SelectedField, details: Details) -> Complete:
        complete_object, nodes, is_type_of = self._object_completer(type_, details), field.nodes, type_.is_type_of
        if is_type_of is None:
            return complete_object
        depends_on_class = _depends_on_class_alone(type_)
        checked_classes: set[type] = set()

        def complete(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
            if value.__class__ in checked_classes and get_strawberry_type_cast(value) is None:
                return complete_object(value, path, state)
            is_of_type = is_type_of(value, field.info(path, state))
            if is_awaitable(is_of_type):

                def complete_checked(is_of_type: Any, path: ResponsePath, state: ExecutionState) -> Any:
                    if not is_of_type:
                        raise invalid_return_type_error(type_, value, details)
                    return complete_object(value, path, state)

                state.pending.append((is_of_type, path, nodes, complete_checked))
                return PENDING
            if not is_of_type:
                raise invalid_return_type_error(type_, value, details)
            if depends_on_class and get_strawberry_type_cast(value) is None:
                checked_classes.add(value.__class__)
            return complete_object(value, path, state)

        return complete

    def _abstract(self, type_: GraphQLAbstractType, field: SelectedField, details: Details) -> Complete:
        resolve_type, nodes = type_.resolve_type or default_type_resolver, field.nodes
        depends_on_class = _depends_on_class_alone(type_)
        by_name: dict[str, Complete] = {}
        by_class: dict[type, Complete] = {}

        def completer_of(name: Any, value: Any, path: ResponsePath, state: ExecutionState) -> Complete:
            complete = by_name.get(name) if isinstance(name, str) else None
            if complete is None:
                info = field.info(path, state)
                concrete = self._executor.ensure_valid_runtime_type(name, type_, details, info, value)
                complete = by_name[name] = self._object(concrete, field, details)
            return complete

        def complete(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
            if value.__class__ in by_class and get_strawberry_type_cast(value) is None:
                return by_class[value.__class__](value, path, state)
            name = resolve_type(value, field.info(path, state), type_)
            if is_awaitable(name):
                state.pending.append((name, path, nodes, lambda n, p, s: completer_of(n, value, p, s)(value, p, s)))
                return PENDING
            complete_concrete = completer_of(name, value, path, state)
            definition = get_object_definition(value)
            if (
                depends_on_class
                and definition is not None
                and definition.origin is value.__class__
                and definition.name == name
                and not definition.is_graphql_generic
                and get_strawberry_type_cast(value) is None
            ):
                by_class[value.__class__] = complete_concrete
            return complete_concrete(value, path, state)

        return complete


class _LeafAttribute:
    """A scalar or an enum that is an attribute of the source."""

    def __init__(self, key: str, attribute: str, type_: GraphQLLeafType, required: bool, full_step: Step) -> None:
        self.key = key
        self.attribute = attribute
        self.passthrough_class = passthrough_class(type_)
        self.serialize = leaf_serializer(type_, nullable=not required)
        self.full_step = full_step
        """Handles also awaitables, errors and nulls that are not allowed."""


def _read_attributes(leaves: Sequence[_LeafAttribute]) -> Step:
    """Read adjacent attributes together. If one of them needs its full step, all are read again one by one."""
    read = attrgetter(*(leaf.attribute for leaf in leaves))
    keys = tuple(leaf.key for leaf in leaves)
    passthrough_classes = tuple(leaf.passthrough_class for leaf in leaves)
    serializers = tuple(leaf.serialize for leaf in leaves)
    full_steps = tuple(leaf.full_step for leaf in leaves)

    def step(source: Any, out: dict[str, Any], parent_path: ResponsePath | None, state: ExecutionState) -> None:
        try:
            for key, value, passthrough, serialize in zip(
                keys, read(source), passthrough_classes, serializers, strict=True
            ):
                out[key] = value if type(value) is passthrough else serialize(value)
        except Exception:
            for full_step in full_steps:
                full_step(source, out, parent_path, state)

    return step


def _always_raise(message: str, nodes: Sequence[Node] | None) -> CompleteObject:
    def complete_object(source: Any, path: ResponsePath, state: ExecutionState) -> dict[str, Any]:
        raise GraphQLError(message, nodes)

    return complete_object


def _constant(key: str, value: str) -> Step:
    def step(source: Any, out: dict[str, Any], parent_path: ResponsePath | None, state: ExecutionState) -> None:
        out[key] = value

    return step


def _with_null_check(complete_value: Complete, null_error: str | None) -> Complete:
    """Complete null before other values: return it, or raise TypeError if there is a `null_error`.

    A value that is an exception is raised.
    """

    def complete(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
        if value is None or value is Undefined:
            if null_error is None:
                return None
            raise TypeError(null_error)
        if isinstance(value, Exception):
            raise value
        return complete_value(value, path, state)

    return complete


def _leaf_type(type_: GraphQLOutputType) -> GraphQLLeafType | None:
    named = type_.of_type if is_non_null_type(type_) else type_
    return named if is_leaf_type(named) else None


def _depends_on_class_alone(type_: GraphQLObjectType | GraphQLAbstractType) -> bool:
    """Return True if an object's class alone decides its GraphQL type, unless the object is cast."""
    definition = type_.extensions.get("strawberry-definition")
    if definition is None:
        return False
    return getattr(definition, "is_type_of", None) is None and getattr(definition, "resolve_type", None) is None


async def _collect(values: Any) -> list[Any]:
    return [value async for value in values]

"""Plans the steps for each object of a selection, once per operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import GeneratorType
from typing import Any

from graphql import (
    GraphQLAbstractType,
    GraphQLError,
    GraphQLLeafType,
    GraphQLList,
    GraphQLObjectType,
    GraphQLOutputType,
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

from schema.compiler.deferred import Deferred
from schema.compiler.execution import PENDING, Complete, ExecutionState, ResponsePath
from schema.compiler.field_resolution import OperationSource, SelectedField, attribute_of, resolver_of
from schema.compiler.leaf_values import serialize_leaf
from schema.compiler.object_code import (
    CompleteObject,
    PlannedField,
    Step,
    TypeNameField,
    generate_object_function,
)
from schema.compiler.prefetching import PlannedPrefetch, prefetch_of, start_prefetches
from schema.compiler.steps import always_raise, settle, step

Details = list[FieldDetails]

Known = dict[type, Complete]
"""Completes values of some classes, which are known to be of a field's type. They are not awaitable and no errors."""

GENERATE_AFTER = 100
"""Objects of a selection that are completed before its function is generated, which costs about as much as these."""

_MAX_GENERATED_FIELDS = 200
"""No function is generated for a selection with more fields: it would occupy the process for too long."""


class Planner:
    """Plans the steps of one operation, for certain values of the variables in its directives."""

    def __init__(
        self,
        operation: OperationSource,
        fragments: dict[str, FragmentDetails],
        variables: VariableValues,
        executor: Executor[Any],
        generate_after: int = GENERATE_AFTER,
    ) -> None:
        self._operation = operation
        self._fragments = fragments
        self._variables = variables
        self._executor = executor
        self._generate_after = generate_after
        self.field_count = 0
        """Fields planned so far. Grows when an interface or union resolves to a type for the first time."""

    def plan_root(self, root: GraphQLObjectType) -> list[Step]:
        """Return a step for each root field of the operation."""
        operation = self._operation
        grouped = collect_fields(
            operation.schema, self._fragments, self._variables, root, operation.definition, operation.hide_suggestions
        ).grouped_field_set
        return [step(each) for each in self._plan_fields(root, grouped)]

    # Fields

    def _object_completer(self, type_: GraphQLObjectType, details: Details, known: Known) -> CompleteObject:
        """Return a function that builds the response's object from a source of the type.

        After a number of objects it is replaced in `known` by a generated function.
        """
        try:
            grouped = self._subfields(type_, details)
        except GraphQLError as error:
            # The condition of a @skip or @include is null. It is an error only if an object is reached.
            return always_raise(error.message, error.nodes)
        planned = list(self._plan_fields(type_, grouped))
        steps = [step(each) for each in planned]

        def complete_each(source: Any, path: ResponsePath, state: ExecutionState) -> dict[str, Any]:
            out: dict[str, Any] = {}
            state.values += len(steps)
            for put in steps:
                put(source, out, path, state)
            return out

        if len(planned) > _MAX_GENERATED_FIELDS:
            return complete_each
        completed = 0
        generated: CompleteObject | None = None

        def complete_object(source: Any, path: ResponsePath, state: ExecutionState) -> dict[str, Any]:
            nonlocal completed, generated
            if generated is None:
                completed += 1
                if completed <= self._generate_after:
                    return complete_each(source, path, state)
                generated = generate_object_function(type_.name, planned, complete_each)
                for class_ in [class_ for class_, complete in known.items() if complete is complete_object]:
                    known[class_] = generated
            return generated(source, path, state)

        return complete_object

    def _subfields(self, type_: GraphQLObjectType, details: Details) -> Mapping[str, Details]:
        """Return the selected fields of an object type by key. Raises GraphQLError for a null condition."""
        operation = self._operation
        return collect_subfields(
            operation.schema,
            self._fragments,
            self._variables,
            operation.definition,
            type_,
            details,
            operation.hide_suggestions,
        ).grouped_field_set

    def _plan_fields(
        self, type_: GraphQLObjectType, grouped: Mapping[str, Details]
    ) -> Iterator[PlannedField | TypeNameField]:
        for key, details in grouped.items():
            definition = self._operation.schema.get_field(type_, details[0].node.name.value)
            if definition is None:
                continue
            if definition is TypeNameMetaFieldDef:
                yield TypeNameField(key, type_.name)
                continue
            self.field_count += 1
            field = SelectedField(self._operation, type_, definition, [detail.node for detail in details])
            known: Known = {}
            complete = self._completer(definition.type, field, details, known)
            yield PlannedField(
                key,
                field,
                attribute_of(definition),
                _leaf_type(definition.type),
                is_non_null_type(definition.type),
                resolver_of(field),
                settle(field, complete),
                known,
            )

    # Values

    def _completer(self, type_: GraphQLOutputType, field: SelectedField, details: Details, known: Known) -> Complete:
        required = is_non_null_type(type_)
        named: GraphQLOutputType = type_.of_type if is_non_null_type(type_) else type_
        null_error = f"Cannot return null for non-nullable field {field.parent}.{field.name}." if required else None
        if is_leaf_type(named):
            return _with_null_check(lambda value, path, state: serialize_leaf(named, value), null_error)
        if is_list_type(named):
            return _with_null_check(self._list(named, field, details, known), null_error)
        if is_abstract_type(named):
            return _with_null_check(self._abstract(named, field, details, known), null_error)
        assert isinstance(named, GraphQLObjectType)
        return _with_null_check(self._object(named, field, details, known), null_error)

    def _list(self, type_: GraphQLList[Any], field: SelectedField, details: Details, known: Known) -> Complete:
        nodes = field.nodes
        item_nullable = not is_non_null_type(type_.of_type)
        known_items: Known = {}
        complete_item = self._completer(type_.of_type, field, details, known_items)
        prefetches = self._prefetches_of(type_.of_type, details)
        has_leaves = _leaf_type(type_.of_type) is not None

        def complete(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
            if type(value) is not list:
                if hasattr(value, "__aiter__"):
                    state.pending.append((_collect(value), path, nodes, complete))
                    return PENDING
                if not is_iterable(value):
                    raise GraphQLError(
                        f"Expected Iterable, but did not find one for field '{field.parent}.{field.name}'."
                    )
            if prefetches and isinstance(value, list):
                future = start_prefetches(prefetches, value, state.context)
                if future is not None:
                    state.pending.append((Deferred(future, lambda _: value), path, nodes, complete_items))
                    return PENDING
            return complete_items(value, path, state)

        def complete_items(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
            return complete_rest([], enumerate(value), path, state)

        def complete_rest(items: list[Any], rest: Any, path: ResponsePath, state: ExecutionState) -> Any:
            sync_class: type | None = None
            for index, item in rest:
                item_path = (path, index, None, items, item_nullable)
                try:
                    complete_known = known_items.get(item.__class__)
                    if complete_known is not None and get_strawberry_type_cast(item) is None:
                        completed = complete_known(item, item_path, state)
                    else:
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
                state.items_left -= 1
                if state.items_left < 0 and state.must_yield():
                    state.unfinished.append((rest, path, nodes, partial(complete_rest, items)))
                    return PENDING
            if has_leaves:
                state.values += len(items)
            return items

        known[list] = complete
        return complete

    def _prefetches_of(self, type_: GraphQLOutputType, details: Details) -> list[PlannedPrefetch]:
        """Return the prefetch functions of the fields selected of a type, and of objects that are its attributes."""
        named = type_.of_type if is_non_null_type(type_) else type_
        if not isinstance(named, GraphQLObjectType):
            return []
        definition = named.extensions.get("strawberry-definition")
        if definition is None:
            return []
        try:
            grouped = self._subfields(named, details)
        except GraphQLError:
            return []
        functions: dict[Any, None] = {}
        below: list[PlannedPrefetch] = []
        for subfield in grouped.values():
            field = self._operation.schema.get_field(named, subfield[0].node.name.value)
            prefetch = prefetch_of(field) if field is not None else None
            attribute = attribute_of(field) if field is not None else None
            if prefetch is not None:
                functions[prefetch] = None
            elif field is not None and attribute is not None:
                below += [
                    each.below(definition.origin, attribute) for each in self._prefetches_of(field.type, subfield)
                ]
        own = [PlannedPrefetch((), definition.origin, tuple(functions))] if functions else []
        return own + below

    def _object(self, type_: GraphQLObjectType, field: SelectedField, details: Details, known: Known) -> Complete:
        complete_object, nodes = self._object_completer(type_, details, known), field.nodes
        is_type_of = type_.is_type_of
        if is_type_of is None:

            def complete_any(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
                if not isinstance(value, GeneratorType):
                    known.setdefault(value.__class__, complete_object)
                return complete_object(value, path, state)

            return complete_any
        depends_on_class = _depends_on_class_alone(type_)

        def complete_unknown(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
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
                known.setdefault(value.__class__, complete_object)
            return complete_object(value, path, state)

        return _with_known_classes(known, complete_unknown)

    def _abstract(self, type_: GraphQLAbstractType, field: SelectedField, details: Details, known: Known) -> Complete:
        resolve_type, nodes = type_.resolve_type or default_type_resolver, field.nodes
        depends_on_class = _depends_on_class_alone(type_)
        by_name: dict[str, tuple[Complete, Known]] = {}

        def completer_of(name: Any, value: Any, path: ResponsePath, state: ExecutionState) -> tuple[Complete, Known]:
            found = by_name.get(name) if isinstance(name, str) else None
            if found is None:
                info = field.info(path, state)
                concrete = self._executor.ensure_valid_runtime_type(name, type_, details, info, value)
                known_of_type: Known = {}
                found = by_name[name] = self._object(concrete, field, details, known_of_type), known_of_type
            return found

        def complete_unknown(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
            name = resolve_type(value, field.info(path, state), type_)
            if is_awaitable(name):
                state.pending.append((name, path, nodes, lambda n, p, s: completer_of(n, value, p, s)[0](value, p, s)))
                return PENDING
            complete_concrete, known_of_type = completer_of(name, value, path, state)
            definition = get_object_definition(value)
            if (
                depends_on_class
                and definition is not None
                and definition.origin is value.__class__
                and definition.name == name
                and not definition.is_graphql_generic
                and get_strawberry_type_cast(value) is None
            ):
                complete_object = known_of_type.get(value.__class__, complete_concrete)
                known[value.__class__] = complete_object
                return complete_object(value, path, state)
            return complete_concrete(value, path, state)

        return _with_known_classes(known, complete_unknown)


def _with_known_classes(known: Known, complete_unknown: Complete) -> Complete:
    """Complete values of known classes without another check of their type, also those that were awaited."""

    def complete(value: Any, path: ResponsePath, state: ExecutionState) -> Any:
        complete_known = known.get(value.__class__)
        if complete_known is not None and get_strawberry_type_cast(value) is None:
            return complete_known(value, path, state)
        return complete_unknown(value, path, state)

    return complete


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

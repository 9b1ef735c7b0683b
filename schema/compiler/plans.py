"""What is done for each object of a selection, decided once."""

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

from schema.compiler.execution import PENDING, Complete, ResponsePath, Run
from schema.compiler.field_resolution import Field, OperationSource, attribute_of, resolver_of
from schema.compiler.leaf_values import leaf_value, plain_class, quick_leaf

Step = Callable[[Any, dict[str, Any], "ResponsePath | None", Run], None]
"""Puts one or more fields of a source into an object of the response, which stands at a spot (None: the response itself). Raises the
GraphQLError of one that may not be null."""

Details = list[FieldDetails]


class Plans:
    """Plans of one operation, for certain values of the variables that its directives use."""

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
        self.fields = 0
        """How many are planned so far; more where a type is met for the first time."""

    def of_root(self, root: GraphQLObjectType) -> list[Step]:
        """A step for each of the operation's own fields."""
        operation = self._operation
        grouped = collect_fields(
            operation.schema, self._fragments, self._variables, root, operation.definition, operation.hide_suggestions
        ).grouped_field_set
        return self._steps(root, grouped, together=False)

    # --- fields

    def _fill(self, type_: GraphQLObjectType, details: Details) -> Callable[[Any, ResponsePath, Run], dict[str, Any]]:
        """What the selection shows of an object of the type."""
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
            # Null for a condition that has a default: known once it is looked at, and no matter where nothing is there.
            return _failing(error.message, error.nodes)
        steps = self._steps(type_, grouped, together=True)

        def fill(source: Any, spot: ResponsePath, run: Run) -> dict[str, Any]:
            out: dict[str, Any] = {}
            for step in steps:
                step(source, out, spot, run)
            return out

        return fill

    def _steps(self, type_: GraphQLObjectType, grouped: Mapping[str, Details], *, together: bool) -> list[Step]:
        steps: list[Step] = []
        plain: list[_Leaf] = []

        def flush() -> None:
            if plain:
                steps.append(_leaves(plain) if len(plain) > 1 else plain[0].step)
                plain.clear()

        for key, details in grouped.items():
            name = details[0].node.name.value
            definition = self._operation.schema.get_field(type_, name)
            if definition is None:
                continue
            if definition is TypeNameMetaFieldDef:
                flush()
                steps.append(_constant(key, type_.name))
                continue
            self.fields += 1
            field = Field(self._operation, type_, definition, [detail.node for detail in details])
            step = self._step(key, field, details)
            attribute, leaf = attribute_of(definition), _leaf_type(definition.type)
            if attribute is not None and leaf is not None and together:
                plain.append(_Leaf(key, attribute, leaf, is_non_null_type(definition.type), step))
            else:
                flush()
                steps.append(step)
        flush()
        return steps

    def _step(self, key: str, field: Field, details: Details) -> Step:
        type_name, nodes = field.parent.name, field.nodes
        nullable = not is_non_null_type(field.definition.type)
        resolve, complete = resolver_of(field), self._completer(field.definition.type, field, details)

        there: type | None = None

        def step(source: Any, out: dict[str, Any], around: ResponsePath | None, run: Run) -> None:
            nonlocal there
            spot = (around, key, type_name, out, nullable)
            try:
                value = resolve(source, spot, run)
                # A field's values are mostly of one class, none of which has to be waited for.
                if type(value) is not there:
                    if is_awaitable(value):
                        out[key] = None
                        run.pending.append((value, spot, nodes, complete))
                        return
                    there = type(value)
                done = complete(value, spot, run)
                out[key] = None if done is PENDING else done
            except Exception as raw:
                run.fail(raw, nodes, spot)
                out[key] = None

        return step

    # --- values

    def _completer(self, type_: GraphQLOutputType, field: Field, details: Details) -> Complete:
        required = is_non_null_type(type_)
        named: GraphQLOutputType = type_.of_type if is_non_null_type(type_) else type_
        missing = f"Cannot return null for non-nullable field {field.parent}.{field.name}." if required else None
        if is_leaf_type(named):
            return _present(lambda value, spot, run: leaf_value(named, value), missing)
        if is_list_type(named):
            return _present(self._list(named, field, details), missing)
        if is_abstract_type(named):
            return _present(self._abstract(named, field, details), missing)
        assert isinstance(named, GraphQLObjectType)
        return _present(self._object(named, field, details), missing)

    def _list(self, type_: GraphQLList[Any], field: Field, details: Details) -> Complete:
        nodes = field.nodes
        item_nullable = not is_non_null_type(type_.of_type)
        complete_item = self._completer(type_.of_type, field, details)

        def complete(value: Any, spot: ResponsePath, run: Run) -> Any:
            if type(value) is not list:
                if hasattr(value, "__aiter__"):
                    run.pending.append((_collect(value), spot, nodes, complete))
                    return PENDING
                if not is_iterable(value):
                    raise GraphQLError(
                        f"Expected Iterable, but did not find one for field '{field.parent}.{field.name}'."
                    )
            items: list[Any] = []
            there: type | None = None
            for index, item in enumerate(value):
                place = (spot, index, None, items, item_nullable)
                try:
                    # Items are mostly of one class, none of which has to be waited for.
                    if type(item) is not there:
                        if is_awaitable(item):
                            items.append(None)
                            run.pending.append((item, place, nodes, complete_item))
                            continue
                        there = type(item)
                    done = complete_item(item, place, run)
                    items.append(None if done is PENDING else done)
                except Exception as raw:
                    run.fail(raw, nodes, place)
                    items.append(None)
            return items

        return complete

    def _object(self, type_: GraphQLObjectType, field: Field, details: Details) -> Complete:
        fill, nodes, is_type_of = self._fill(type_, details), field.nodes, type_.is_type_of
        if is_type_of is None:
            return fill
        by_class = _decides_by_class(type_)
        known: set[type] = set()

        def complete(value: Any, spot: ResponsePath, run: Run) -> Any:
            if value.__class__ in known and get_strawberry_type_cast(value) is None:
                return fill(value, spot, run)
            answer = is_type_of(value, field.info(spot, run))
            if is_awaitable(answer):

                def judged(answer: Any, spot: ResponsePath, run: Run) -> Any:
                    if not answer:
                        raise invalid_return_type_error(type_, value, details)
                    return fill(value, spot, run)

                run.pending.append((answer, spot, nodes, judged))
                return PENDING
            if not answer:
                raise invalid_return_type_error(type_, value, details)
            if by_class and get_strawberry_type_cast(value) is None:
                known.add(value.__class__)
            return fill(value, spot, run)

        return complete

    def _abstract(self, type_: GraphQLAbstractType, field: Field, details: Details) -> Complete:
        resolve_type, nodes = type_.resolve_type or default_type_resolver, field.nodes
        by_class = _decides_by_class(type_)
        by_name: dict[str, Complete] = {}
        known: dict[type, Complete] = {}

        def plan_of(name: Any, value: Any, spot: ResponsePath, run: Run) -> Complete:
            complete = by_name.get(name) if isinstance(name, str) else None
            if complete is None:
                info = field.info(spot, run)
                concrete = self._executor.ensure_valid_runtime_type(name, type_, details, info, value)
                complete = by_name[name] = self._object(concrete, field, details)
            return complete

        def complete(value: Any, spot: ResponsePath, run: Run) -> Any:
            if value.__class__ in known and get_strawberry_type_cast(value) is None:
                return known[value.__class__](value, spot, run)
            name = resolve_type(value, field.info(spot, run), type_)
            if is_awaitable(name):
                run.pending.append((name, spot, nodes, lambda n, s, r: plan_of(n, value, s, r)(value, s, r)))
                return PENDING
            plan = plan_of(name, value, spot, run)
            definition = get_object_definition(value)
            if (
                by_class
                and definition is not None
                and definition.origin is value.__class__
                and definition.name == name
                and not definition.is_graphql_generic
                and get_strawberry_type_cast(value) is None
            ):
                known[value.__class__] = plan
            return plan(value, spot, run)

        return complete


class _Leaf:
    """A scalar or an enum that is an attribute of the source."""

    def __init__(self, key: str, attribute: str, type_: GraphQLLeafType, required: bool, step: Step) -> None:
        self.key = key
        self.attribute = attribute
        self.plain = plain_class(type_)
        self.quick = quick_leaf(type_, nullable=not required)
        self.step = step
        """What is done where something is out of the ordinary."""


def _leaves(leaves: Sequence[_Leaf]) -> Step:
    """Attributes that stand beside each other are read together; each for itself where one of them is out of the ordinary."""
    read = attrgetter(*(leaf.attribute for leaf in leaves))
    keys = tuple(leaf.key for leaf in leaves)
    plains = tuple(leaf.plain for leaf in leaves)
    quicks = tuple(leaf.quick for leaf in leaves)
    steps = tuple(leaf.step for leaf in leaves)

    def step(source: Any, out: dict[str, Any], around: ResponsePath | None, run: Run) -> None:
        try:
            for key, value, plain, quick in zip(keys, read(source), plains, quicks, strict=True):
                out[key] = value if type(value) is plain else quick(value)
        except Exception:
            for one in steps:
                one(source, out, around, run)

    return step


def _failing(message: str, nodes: Sequence[Node] | None) -> Callable[[Any, ResponsePath, Run], dict[str, Any]]:
    def fail(source: Any, spot: ResponsePath, run: Run) -> dict[str, Any]:
        raise GraphQLError(message, nodes)

    return fail


def _constant(key: str, value: str) -> Step:
    def step(source: Any, out: dict[str, Any], around: ResponsePath | None, run: Run) -> None:
        out[key] = value

    return step


def _present(inner: Complete, missing: str | None) -> Complete:
    """Null for what isn't there, or, where that may not be, TypeError. Raises an error that came as a value."""

    def complete(value: Any, spot: ResponsePath, run: Run) -> Any:
        if value is None or value is Undefined:
            if missing is None:
                return None
            raise TypeError(missing)
        if isinstance(value, Exception):
            raise value
        return inner(value, spot, run)

    return complete


def _leaf_type(type_: GraphQLOutputType) -> GraphQLLeafType | None:
    named = type_.of_type if is_non_null_type(type_) else type_
    return named if is_leaf_type(named) else None


def _decides_by_class(type_: GraphQLObjectType | GraphQLAbstractType) -> bool:
    """Whether what Strawberry says of the type of an object that isn't cast depends on its class alone."""
    definition = type_.extensions.get("strawberry-definition")
    if definition is None:
        return False
    return getattr(definition, "is_type_of", None) is None and getattr(definition, "resolve_type", None) is None


async def _collect(values: Any) -> list[Any]:
    return [value async for value in values]

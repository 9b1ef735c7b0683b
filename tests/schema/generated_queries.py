"""Random queries that fit a schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from graphql import (
    GraphQLArgument,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    is_composite_type,
    is_required_argument,
)
from hypothesis import strategies as st

T = TypeVar("T")


class RandomSource(Protocol):
    """Source of random choices: hypothesis, which shrinks failing examples, or a `random.Random`."""

    def randint(self, least: int, max_fields: int, /) -> int: ...

    def choice(self, values: Sequence[T], /) -> T: ...


class HypothesisSource:
    """Random choices made by hypothesis."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def randint(self, least: int, max_fields: int) -> int:
        return self._data.draw(st.integers(least, max_fields))

    def choice(self, values: Sequence[T]) -> T:
        return self._data.draw(st.sampled_from(values))


ValueWriter = Callable[[RandomSource, str, GraphQLArgument], str]
"""Returns the text of a value for an argument: (random source, argument name, argument)."""

_CONDITIONS = ("", "", "", "", "", "@skip(if: $yes)", "@include(if: $yes)", "@include(if: $no)", "@skip(if: false)")


class QueryWriter:
    """Writes one random document."""

    def __init__(self, schema: GraphQLSchema, rng: RandomSource, value: ValueWriter, depth: int, width: int) -> None:
        self._schema = schema
        self._rng = rng
        self._value = value
        self._depth = depth
        self._width = width
        self._aliases = 0
        self._fragments: list[str] = []
        self.used: set[str] = set()
        """Names of the selected fields."""

    def document(self, root: GraphQLObjectType, operation_kind: str, max_fields: int | None = None) -> str:
        """Return an operation with at most `most` root fields."""
        return self._operation(operation_kind, self._selection(root, self._depth, max_fields))

    def operation_of(self, operation_kind: str, field: str, type_: Any) -> str:
        """Return an operation of one root field of the given type."""
        return self._operation(operation_kind, f"{{ {field} {self._selection(type_, self._depth)} }}")

    def _operation(self, operation_kind: str, selection: str) -> str:
        variables = "($yes: Boolean = true, $no: Boolean = false)"
        text = f"{operation_kind} {variables} {selection}" + "".join(self._fragments)
        return (
            text
            if "$" in selection or any("$" in fragment for fragment in self._fragments)
            else text.replace(variables, "", 1)
        )

    def _selection(self, type_: Any, depth: int, max_fields: int | None = None) -> str:
        items = [self._selected_item(type_, depth) for _ in range(self._rng.randint(1, max_fields or self._width))]
        return "{ " + " ".join(items) + " }"

    def _selected_item(self, type_: Any, depth: int) -> str:
        rng = self._rng
        operation_kind = rng.randint(0, 9)
        condition = rng.choice(_CONDITIONS)
        if operation_kind == 0:
            return f"__typename {condition}"
        if depth > 0 and operation_kind == 1:
            return f"... {condition} {self._selection(type_, depth - 1)}"
        if depth > 0 and (operation_kind <= 4 and not isinstance(type_, GraphQLObjectType)):
            possible_type = rng.choice(self._schema.get_possible_types(type_))
            return f"... on {possible_type.name} {condition} {self._selection(possible_type, depth - 1)}"
        if depth > 0 and operation_kind == 2:
            name = f"F{len(self._fragments)}"
            self._fragments.append("")
            self._fragments[int(name[1:])] = f"\nfragment {name} on {type_.name} {self._selection(type_, depth - 1)}"
            return f"...{name} {condition}"
        if isinstance(type_, GraphQLUnionType):
            return f"__typename {condition}"
        return f"{self._field(type_, depth)}"

    def _field(self, type_: GraphQLObjectType | GraphQLInterfaceType, depth: int) -> str:
        rng = self._rng
        fields = {
            name: field
            for name, field in type_.fields.items()
            if depth > 0 or not is_composite_type(get_named_type(field.type))
        }
        if not fields:
            return "__typename"
        name = rng.choice(sorted(fields))
        field = fields[name]
        self.used.add(name)
        written_arguments = [
            f"{argument}: {self._value(rng, argument, definition)}"
            for argument, definition in field.args.items()
            if is_required_argument(definition) or rng.randint(0, 1)
        ]
        arguments = f"({', '.join(written_arguments)})" if written_arguments else ""
        alias = ""
        if field.args or rng.randint(0, 3) == 0:
            self._aliases += 1
            alias = f"a{self._aliases}: "
        field_type = get_named_type(field.type)
        selection = self._selection(field_type, depth - 1) if is_composite_type(field_type) else ""
        return f"{alias}{name}{arguments} {rng.choice(_CONDITIONS)} {selection}"

"""Queries that fit a schema, at random."""

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


class Chooser(Protocol):
    """Where chance comes from: hypothesis, which makes what fails small, or a random.Random."""

    def randint(self, least: int, most: int, /) -> int: ...

    def choice(self, values: Sequence[T], /) -> T: ...


class Drawn:
    """Chance as hypothesis has it."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def randint(self, least: int, most: int) -> int:
        return self._data.draw(st.integers(least, most))

    def choice(self, values: Sequence[T]) -> T:
        return self._data.draw(st.sampled_from(values))


Value = Callable[[Chooser, str, GraphQLArgument], str]
"""The text of a value for an argument with a name."""

_CONDITIONS = ("", "", "", "", "", "@skip(if: $yes)", "@include(if: $yes)", "@include(if: $no)", "@skip(if: false)")


class Writer:
    """Writes one document."""

    def __init__(self, schema: GraphQLSchema, chance: Chooser, value: Value, depth: int, width: int) -> None:
        self._schema = schema
        self._chance = chance
        self._value = value
        self._depth = depth
        self._width = width
        self._aliases = 0
        self._fragments: list[str] = []
        self.used: set[str] = set()
        """Names of the fields it selects."""

    def document(self, root: GraphQLObjectType, kind: str, most: int | None = None) -> str:
        """An operation, with at most so many fields of its own."""
        return self._whole(kind, self._selection(root, self._depth, most))

    def under(self, kind: str, field: str, type_: Any) -> str:
        """An operation of one field, which is of the type."""
        return self._whole(kind, f"{{ {field} {self._selection(type_, self._depth)} }}")

    def _whole(self, kind: str, selection: str) -> str:
        variables = "($yes: Boolean = true, $no: Boolean = false)"
        text = f"{kind} {variables} {selection}" + "".join(self._fragments)
        return (
            text if "$" in selection or any("$" in one for one in self._fragments) else text.replace(variables, "", 1)
        )

    def _selection(self, type_: Any, depth: int, most: int | None = None) -> str:
        parts = [self._part(type_, depth) for _ in range(self._chance.randint(1, most or self._width))]
        return "{ " + " ".join(parts) + " }"

    def _part(self, type_: Any, depth: int) -> str:
        chance = self._chance
        kind = chance.randint(0, 9)
        condition = chance.choice(_CONDITIONS)
        if kind == 0:
            return f"__typename {condition}"
        if depth > 0 and kind == 1:
            return f"... {condition} {self._selection(type_, depth - 1)}"
        if depth > 0 and (kind <= 4 and not isinstance(type_, GraphQLObjectType)):
            on = chance.choice(self._schema.get_possible_types(type_))
            return f"... on {on.name} {condition} {self._selection(on, depth - 1)}"
        if depth > 0 and kind == 2:
            name = f"F{len(self._fragments)}"
            self._fragments.append("")
            self._fragments[int(name[1:])] = f"\nfragment {name} on {type_.name} {self._selection(type_, depth - 1)}"
            return f"...{name} {condition}"
        if isinstance(type_, GraphQLUnionType):
            return f"__typename {condition}"
        return f"{self._field(type_, depth)}"

    def _field(self, type_: GraphQLObjectType | GraphQLInterfaceType, depth: int) -> str:
        chance = self._chance
        fields = {
            name: field
            for name, field in type_.fields.items()
            if depth > 0 or not is_composite_type(get_named_type(field.type))
        }
        if not fields:
            return "__typename"
        name = chance.choice(sorted(fields))
        field = fields[name]
        self.used.add(name)
        given = [
            f"{argument}: {self._value(chance, argument, described)}"
            for argument, described in field.args.items()
            if is_required_argument(described) or chance.randint(0, 1)
        ]
        arguments = f"({', '.join(given)})" if given else ""
        alias = ""
        if field.args or chance.randint(0, 3) == 0:
            self._aliases += 1
            alias = f"a{self._aliases}: "
        inner = get_named_type(field.type)
        selection = self._selection(inner, depth - 1) if is_composite_type(inner) else ""
        return f"{alias}{name}{arguments} {chance.choice(_CONDITIONS)} {selection}"

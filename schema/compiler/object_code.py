"""Writes the function that completes the objects of one selection, as Python source.

dataclasses and attrs make their methods the same way. The function of `{ id name sender { id } }` is about:

    def complete_object(source, path, state):
        try:
            v0 = source.id
            if type(v0) is not str: v0 = serialize0(v0)
            v1 = source.name
            if type(v1) is not str: v1 = serialize1(v1)
        except Exception:
            return complete_each(source, path, state)
        out = {'id': v0, 'name': v1, 'sender': None}
        p = (path, 'sender', 'Message', out, False)
        try:
            value = resolve2(source, info=Info(definition2, field2, p, state))
            complete = known2.get(value.__class__)
            ...
        except Exception as raw:
            state.record_error(raw, nodes2, p)
        return out

It contains only the usual case. If a leaf needs anything else (it must be awaited, it is an error, null where null is
not allowed), `complete_each` completes the whole object field by field; nothing has been called until then. Values of
the other fields that are unusual go to the field's `settle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType
from typing import Any, TypeAlias

from graphql import GraphQLInt, GraphQLLeafType
from strawberry.types.cast import TYPE_CAST_ATTRIBUTE

from schema.compiler.execution import PENDING, Complete, ExecutionState, ResponsePath
from schema.compiler.field_resolution import LazyInfo, Resolve, SelectedField, direct_call_of, takes_arguments
from schema.compiler.leaf_values import MAX_INT, EnumNames, leaf_serializer, passthrough_class

Step: TypeAlias = "Callable[[Any, dict[str, Any], ResponsePath | None, ExecutionState], None]"
"""Puts one or more fields of a source into an object of the response at a path (None: the response itself). Raises the
GraphQLError of a field that may not be null."""

Settle: TypeAlias = "Callable[[Any, ResponsePath, ExecutionState], None]"
"""Completes any value of a field, or lets it wait, and puts it into the response. Raises any exception."""

CompleteObject: TypeAlias = "Callable[[Any, ResponsePath, ExecutionState], dict[str, Any]]"

_MAX_KEPT_TEXTS, _MAX_KEPT_CHARACTERS = 256, 16_000
"""Source texts whose compiled code is kept, because operations often have equal selections; and their lengths."""


@dataclass(frozen=True, slots=True)
class TypeNameField:
    """The field `__typename` of an object type."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class PlannedField:
    """One field of a selection.

    Attributes:
        key: Its key in the response.
        field: The selected field.
        attribute: The path of the attribute that it reads; None if it is resolved by a function.
        leaf: Its type, if that is a scalar or an enum.
        required: It may not be null.
        resolve: Returns its value.
        settle: Completes its values.
        known: Completes values of some classes. Grows when further classes are found to be of the field's type.
    """

    key: str
    field: SelectedField
    attribute: str | None
    leaf: GraphQLLeafType | None
    required: bool
    resolve: Resolve
    settle: Settle
    known: dict[type, Complete]


def generate_object_function(
    type_name: str, planned: Sequence[PlannedField | TypeNameField], complete_each: CompleteObject
) -> CompleteObject:
    """Return the generated function of a selection of a type.

    complete_each: completes an object field by field.
    """
    writer = _Writer()
    writer.names |= {"complete_each": complete_each, "Info": LazyInfo, "PENDING": PENDING, "MAX": MAX_INT}
    leaves = [
        (number, each)
        for number, each in enumerate(planned)
        if isinstance(each, PlannedField) and each.attribute is not None and each.leaf is not None
    ]
    writer.line(0, "def complete_object(source, path, state):")
    if leaves:
        writer.line(1, "try:")
        for number, each in leaves:
            _write_leaf(writer, number, each)
        writer.line(1, "except Exception:")
        writer.line(2, "return complete_each(source, path, state)")
    read = {number for number, _ in leaves}
    items = []
    for number, one in enumerate(planned):
        value = repr(one.value) if isinstance(one, TypeNameField) else f"v{number}" if number in read else "None"
        items.append(f"{one.key!r}: {value}")
    writer.line(1, f"state.values += {len(planned)}")
    writer.line(1, f"out = {{{', '.join(items)}}}")
    for number, one in enumerate(planned):
        if isinstance(one, PlannedField) and number not in read:
            _write_resolved(writer, number, one)
    writer.line(1, "return out")
    return writer.function(type_name)


def _write_leaf(writer: _Writer, number: int, planned: PlannedField) -> None:
    """Write the lines that read and serialize an attribute."""
    assert planned.attribute is not None and planned.leaf is not None
    value, serialize = f"v{number}", f"serialize{number}"
    passthrough = passthrough_class(planned.leaf)
    serializer = writer.names[serialize] = leaf_serializer(planned.leaf, nullable=not planned.required)
    not_null = "" if planned.required else f"{value} is not None and "
    writer.line(2, f"{value} = {writer.read(planned.attribute)}")
    if passthrough is not None:
        writer.line(2, f"if {not_null}type({value}) is not {passthrough.__name__}: {value} = {serialize}({value})")
    elif planned.leaf is GraphQLInt:
        is_other = f"(type({value}) is not int or not -MAX <= {value} <= MAX)"
        writer.line(2, f"if {not_null}{is_other}: {value} = {serialize}({value})")
    elif isinstance(serializer, EnumNames):
        writer.names[f"names{number}"] = serializer.names
        writer.line(2, f"name = names{number}.get(id({value}))")
        writer.line(2, f"{value} = name[1] if name is not None else {serialize}({value})")
    elif planned.required:
        writer.line(2, f"{value} = {serialize}({value})")
    else:
        writer.line(2, f"if {value} is not None: {value} = {serialize}({value})")


def _write_resolved(writer: _Writer, number: int, planned: PlannedField) -> None:
    """Write the lines that resolve and complete a field."""
    key, field_ = planned.key, planned.field
    writer.names |= {
        f"settle{number}": planned.settle,
        f"nodes{number}": field_.nodes,
        f"known{number}": planned.known,
    }
    writer.line(1, f"p = (path, {key!r}, {field_.parent.name!r}, out, {not planned.required})")
    writer.line(1, "try:")
    writer.line(2, f"value = {_resolution(writer, number, planned)}")
    passthrough = passthrough_class(planned.leaf) if planned.leaf is not None else None
    if passthrough is not None:
        writer.line(2, f"if type(value) is {passthrough.__name__}: out[{key!r}] = value")
    else:
        writer.line(2, f"complete = known{number}.get(value.__class__)")
        writer.line(2, f"if complete is not None and not hasattr(value, {TYPE_CAST_ATTRIBUTE!r}):")
        writer.line(3, "value = complete(value, p, state)")
        writer.line(3, f"if value is not PENDING: out[{key!r}] = value")
    otherwise = "else" if planned.required else "elif value is not None"
    writer.line(2, f"{otherwise}: settle{number}(value, p, state)")
    writer.line(1, "except Exception as raw:")
    writer.line(2, f"state.record_error(raw, nodes{number}, p)")


def _resolution(writer: _Writer, number: int, planned: PlannedField) -> str:
    """Return the expression of a field's value."""
    if planned.attribute is not None:
        return f"source.{planned.attribute}"
    call = direct_call_of(planned.field)
    resolve = f"resolve{number}"
    if call is None or takes_arguments(planned.field):
        writer.names[resolve] = planned.resolve
        return f"{resolve}(source, p, state)"
    writer.names[resolve] = call.function
    if call.info_name is None:
        return f"{resolve}(source)"
    writer.names |= {f"definition{number}": call.definition, f"field{number}": planned.field}
    return f"{resolve}(source, {call.info_name}=Info(definition{number}, field{number}, p, state))"


@dataclass(slots=True)
class _Writer:
    """The lines of a function, and the objects that its names refer to."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    """Variables that hold an attribute whose own attributes are read, by its path."""

    def line(self, indent: int, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * indent + text)

    def read(self, attribute: str) -> str:
        """Return the expression of an attribute of the source. An attribute that has further ones is read once."""
        owner, _, name = attribute.rpartition(".")
        if not owner:
            return f"source.{name}"
        if owner not in self.owners:
            expression = self.read(owner)
            variable = self.owners[owner] = f"owner{len(self.owners)}"
            self.line(2, f"{variable} = {expression}")
        return f"{self.owners[owner]}.{name}"

    def function(self, type_name: str) -> CompleteObject:
        """Return the function `complete_object` of the lines. Tracebacks and profiles show the type's name."""
        source = "\n".join(self.lines)
        compile_source = _compile if len(source) <= _MAX_KEPT_CHARACTERS else _compile.__wrapped__
        exec(compile_source(source, f"<selection of {type_name}>"), self.names)
        function: CompleteObject = self.names["complete_object"]
        return function


@lru_cache(maxsize=_MAX_KEPT_TEXTS)
def _compile(source: str, file_name: str) -> CodeType:
    # The names in it come from the schema, and from aliases, which are plain identifiers.
    return compile(source, file_name, "exec")

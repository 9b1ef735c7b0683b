"""Arguments as Strawberry hands them to resolvers: types looked at once, not with every call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from typing import Any, TypeAlias

import strawberry
from strawberry.relay import GlobalID
from strawberry.scalars import is_scalar
from strawberry.types.arguments import StrawberryArgument, convert_argument
from strawberry.types.base import (
    StrawberryList,
    StrawberryMaybe,
    StrawberryObjectDefinition,
    StrawberryOptional,
    get_object_definition,
)
from strawberry.types.enum import StrawberryEnumDefinition, has_enum_definition
from strawberry.types.lazy_type import LazyType
from strawberry.types.unset import UNSET

Convert: TypeAlias = Callable[[Any], Any]
Arguments: TypeAlias = Callable[[dict[str, Any], Any], dict[str, Any]]
"""The keyword arguments of a resolver, from the values of a field's arguments and the info of the call."""


class Inputs:
    """Conversions for a schema's input types."""

    def __init__(self, schema: strawberry.Schema) -> None:
        self._config = schema.config
        self._scalars = schema.schema_converter.scalar_registry
        self._name = schema.config.name_converter
        self._objects: dict[type, Convert | None] = {}

    def arguments(self, arguments: list[StrawberryArgument]) -> Arguments:
        """How a field's arguments are converted."""
        parts = [
            (self._name.from_argument(argument), argument.python_name, self._convert(argument.type), argument.type)
            for argument in arguments
        ]
        config, scalars = self._config, self._scalars

        def convert(values: dict[str, Any], info: Any) -> dict[str, Any]:
            converted = {}
            for name, python_name, known, type_ in parts:
                if name in values:
                    if known is not None:
                        converted[python_name] = known(values[name])
                    else:
                        converted[python_name] = convert_argument(
                            values[name], type_, scalars, config, info, path=(name,)
                        )
            return converted

        return convert

    def _convert(self, type_: Any) -> Convert | None:
        """The conversion of values of a type; None where Strawberry has to look at each."""
        if isinstance(type_, StrawberryMaybe):
            return None
        if isinstance(type_, StrawberryOptional):
            return self._convert(type_.of_type)
        if isinstance(type_, LazyType):
            return self._convert(type_.resolve_type())
        if isinstance(type_, StrawberryList):
            return self._list(type_)
        if type_ is GlobalID:
            return None
        if isinstance(type_, StrawberryEnumDefinition) or has_enum_definition(type_) or is_scalar(type_, self._scalars):
            return _as_it_is
        definition = get_object_definition(type_)
        if definition is None or not definition.is_input or definition.from_input is not None:
            return None
        return self._object(type_, definition)

    def _list(self, type_: StrawberryList) -> Convert | None:
        item = self._convert(type_.of_type)
        if item is None:
            return None
        if item is _as_it_is:
            return lambda value: value if value is None or value is UNSET else list(value)
        return lambda value: value if value is None or value is UNSET else [item(each) for each in value]

    def _object(self, type_: type, definition: StrawberryObjectDefinition) -> Convert | None:
        if type_ in self._objects:
            # One that holds itself is left to Strawberry.
            return self._objects[type_]
        self._objects[type_] = None
        parts: list[tuple[str, str, Convert]] = []
        for field in definition.fields:
            known = self._convert(field.resolve_type(type_definition=definition))
            if known is None:
                return None
            parts.append((self._name.from_field(field), field.python_name, known))
        missing = {
            field.python_name: None
            for field in definition.fields
            if field.default_value is MISSING and field.default_factory is MISSING
        }

        def convert(value: Any) -> Any:
            if value is None or value is UNSET:
                return value
            given = missing.copy()
            for name, python_name, known in parts:
                if name in value:
                    given[python_name] = known(value[name])
            return type_(**given)

        self._objects[type_] = convert
        return convert


def _as_it_is(value: Any) -> Any:
    return value

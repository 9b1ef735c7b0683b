"""Converts arguments to the types of resolvers. Types are inspected once, not with every call as in Strawberry."""

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
ConvertArguments: TypeAlias = Callable[[dict[str, Any], Any], dict[str, Any]]
"""Returns the keyword arguments of a resolver. Takes the values of the field's arguments and the info of the call."""


class ArgumentConverters:
    """Builds and caches the converters of a schema's arguments and input types."""

    def __init__(self, schema: strawberry.Schema) -> None:
        self._config = schema.config
        self._scalars = schema.schema_converter.scalar_registry
        self._name_converter = schema.config.name_converter
        self._object_converters: dict[type, Convert | None] = {}

    def for_arguments(self, arguments: list[StrawberryArgument]) -> ConvertArguments:
        """Return the converter of a field's arguments."""
        parts = [
            (
                self._name_converter.from_argument(argument),
                argument.python_name,
                self._converter_for(argument.type),
                argument.type,
            )
            for argument in arguments
        ]
        config, scalars = self._config, self._scalars

        def convert(values: dict[str, Any], info: Any) -> dict[str, Any]:
            converted = {}
            for name, python_name, convert_value, type_ in parts:
                if name in values:
                    if convert_value is not None:
                        converted[python_name] = convert_value(values[name])
                    else:
                        converted[python_name] = convert_argument(
                            values[name], type_, scalars, config, info, path=(name,)
                        )
            return converted

        return convert

    def _converter_for(self, type_: Any) -> Convert | None:
        """Return the converter of a type's values; None if Strawberry has to inspect each value."""
        if isinstance(type_, StrawberryMaybe):
            return None
        if isinstance(type_, StrawberryOptional):
            return self._converter_for(type_.of_type)
        if isinstance(type_, LazyType):
            return self._converter_for(type_.resolve_type())
        if isinstance(type_, StrawberryList):
            return self._list_converter(type_)
        if type_ is GlobalID:
            return None
        if isinstance(type_, StrawberryEnumDefinition) or has_enum_definition(type_) or is_scalar(type_, self._scalars):
            return _unchanged
        definition = get_object_definition(type_)
        if definition is None or not definition.is_input or definition.from_input is not None:
            return None
        return self._object_converter(type_, definition)

    def _list_converter(self, type_: StrawberryList) -> Convert | None:
        convert_item = self._converter_for(type_.of_type)
        if convert_item is None:
            return None
        if convert_item is _unchanged:
            return lambda value: value if value is None or value is UNSET else list(value)
        return lambda value: value if value is None or value is UNSET else [convert_item(item) for item in value]

    def _object_converter(self, type_: type, definition: StrawberryObjectDefinition) -> Convert | None:
        if type_ in self._object_converters:
            # A type that contains itself is left to Strawberry.
            return self._object_converters[type_]
        self._object_converters[type_] = None
        parts: list[tuple[str, str, Convert]] = []
        for field in definition.fields:
            convert_value = self._converter_for(field.resolve_type(type_definition=definition))
            if convert_value is None:
                return None
            parts.append((self._name_converter.from_field(field), field.python_name, convert_value))
        defaults = {
            field.python_name: None
            for field in definition.fields
            if field.default_value is MISSING and field.default_factory is MISSING
        }

        def convert(value: Any) -> Any:
            if value is None or value is UNSET:
                return value
            fields = defaults.copy()
            for name, python_name, convert_value in parts:
                if name in value:
                    fields[python_name] = convert_value(value[name])
            return type_(**fields)

        self._object_converters[type_] = convert
        return convert


def _unchanged(value: Any) -> Any:
    return value

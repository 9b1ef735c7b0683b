"""The coordinates of a schema (as the GraphQL specification defines them), each with its shape."""

from __future__ import annotations

from graphql import (
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    is_specified_scalar_type,
    print_ast,
)

Shapes = dict[str, str]


def shapes_of(schema: GraphQLSchema) -> Shapes:
    """Return the shape of every coordinate.

    Coordinates are Type, Type&Interface, Type.field, Type.field(argument:), Enum.VALUE, Union|Member, Input.field.
    """
    shapes: Shapes = {}
    for name, named in schema.type_map.items():
        if name.startswith("__") or is_specified_scalar_type(named):
            continue
        shapes[name] = type(named).__name__
        match named:
            case GraphQLObjectType() | GraphQLInterfaceType():
                shapes |= {f"{name}&{interface.name}": "" for interface in named.interfaces}
                for field, definition in named.fields.items():
                    shapes[f"{name}.{field}"] = str(definition.type)
                    shapes |= {f"{name}.{field}({a}:)": _input(given) for a, given in definition.args.items()}
            case GraphQLInputObjectType():
                shapes |= {f"{name}.{field}": _input(definition) for field, definition in named.fields.items()}
            case GraphQLEnumType():
                shapes |= {f"{name}.{value}": "" for value in named.values}
            case GraphQLUnionType():
                shapes |= {f"{name}|{member.name}": "" for member in named.types}
    return shapes


def descriptions_of(schema: GraphQLSchema) -> dict[str, str]:
    """Return the description of every coordinate that has one, on one line."""
    descriptions: dict[str, str | None] = {}
    for name, named in schema.type_map.items():
        if name.startswith("__") or is_specified_scalar_type(named):
            continue
        descriptions[name] = named.description
        for field, definition in getattr(named, "fields", {}).items():
            descriptions[f"{name}.{field}"] = definition.description
            for argument, given in getattr(definition, "args", {}).items():
                descriptions[f"{name}.{field}({argument}:)"] = given.description
        for value, member in getattr(named, "values", {}).items():
            descriptions[f"{name}.{value}"] = member.description
    return {coordinate: " ".join(text.split()) for coordinate, text in descriptions.items() if text}


def _input(given: GraphQLArgument | GraphQLInputField) -> str:
    written = given.ast_node.default_value if given.ast_node else None
    return f"{given.type} = {print_ast(written)}" if written else str(given.type)


def missing(contract: Shapes, built: Shapes) -> list[str]:
    """Return coordinates of the contract that are not built. A missing type or field stands for all its parts."""
    absent = contract.keys() - built.keys()
    return sorted(
        coordinate for coordinate in absent if not any(whole in absent for whole in _containing_coordinates(coordinate))
    )


def _containing_coordinates(coordinate: str) -> list[str]:
    """Return the coordinates that contain this one."""
    wholes = []
    for separator in ("(", ".", "&", "|"):
        whole, found, _ = coordinate.partition(separator)
        if found:
            wholes.append(whole)
    return wholes


def different(contract: Shapes, built: Shapes) -> dict[str, tuple[str, str]]:
    """Return the promised and the built shape of every coordinate where they differ."""
    return {
        coordinate: (shape, built[coordinate])
        for coordinate, shape in contract.items()
        if built.get(coordinate, shape) != shape
    }


def demanded(contract: Shapes, built: Shapes, schema: GraphQLSchema) -> list[str]:
    """Return additions that break clients of the contract: required arguments and input fields it does not define."""
    added = built.keys() - contract.keys()
    inputs = {name for name, named in schema.type_map.items() if isinstance(named, GraphQLInputObjectType)}
    return sorted(
        coordinate
        for coordinate in added
        if ("(" in coordinate or coordinate.partition(".")[0] in inputs)
        and all(whole in contract for whole in _containing_coordinates(coordinate))
        and built[coordinate].endswith("!")
    )

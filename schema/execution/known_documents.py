"""Documents that are known before anybody sends them."""

from __future__ import annotations

from graphql import GraphQLError, validate

from schema.execution.query_limits import QueryLimits, check_shape, parse_limited
from schema.root import SCHEMA

_MOST = 3


def reasons_against(text: str, limits: QueryLimits) -> list[str]:
    """Why a document could never be executed, whatever its variables: it doesn't parse, is past a limit, or doesn't fit the schema."""
    try:
        document = parse_limited(text, limits)
        check_shape(document, limits)
    except GraphQLError as error:
        return [error.message]
    return [error.message for error in validate(SCHEMA._schema, document, max_errors=_MOST)]

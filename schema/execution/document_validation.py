"""Validates documents before a client sends them: persisted operations are checked when the server starts."""

from __future__ import annotations

from graphql import GraphQLError, validate

from schema.execution.query_limits import QueryLimits, parse_limited
from schema.execution.query_shape import check_shape
from schema.root import SCHEMA

_MAX_ERRORS = 3


def validate_document(text: str, limits: QueryLimits) -> list[str]:
    """Return the reasons why a document can never be executed, whatever its variables.

    It does not parse, exceeds a limit, or does not fit the schema. Empty if the document is valid.
    """
    try:
        document = parse_limited(text, limits)
        check_shape(document, limits)
    except GraphQLError as error:
        return [error.message]
    return [error.message for error in validate(SCHEMA._schema, document, max_errors=_MAX_ERRORS)]

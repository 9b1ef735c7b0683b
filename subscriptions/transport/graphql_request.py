"""Parses the parameters of a GraphQL request. They are the same in HTTP bodies, URLs and WebSocket frames."""

from __future__ import annotations

from subscriptions.transport.engine import GraphQLRequest, Json


class InvalidRequest(Exception):
    """Raised for a parameter that has the wrong form. `parameter` is its name."""

    def __init__(self, parameter: str, expected: str) -> None:
        super().__init__(f"The '{parameter}' is expected to be {expected}")
        self.parameter = parameter


def graphql_request(parameters: Json) -> GraphQLRequest:
    """Return the request with these parameters. Unknown ones are ignored, and so is a document id next to a text.

    Raises:
        InvalidRequest: A parameter has the wrong form.
    """
    query = parameters.get("query")
    document_id = None
    if not query:
        document_id = _document_id(parameters)
        query = "" if query is None and document_id is not None else query
    if not isinstance(query, str):
        raise InvalidRequest("query", "a string")
    operation_name = parameters.get("operationName")
    if operation_name is not None and not isinstance(operation_name, str):
        raise InvalidRequest("operationName", "a string or null")
    for name in ("variables", "extensions"):
        if not isinstance(parameters.get(name), dict | None):
            raise InvalidRequest(name, "an object or null")
    return GraphQLRequest(query, parameters.get("variables"), operation_name, document_id)


def _document_id(parameters: Json) -> str | None:
    """Return the id of a persisted operation, in the forms of GraphQL over HTTP, Relay, Apollo and urql."""
    for name in ("documentId", "doc_id"):
        given = parameters.get(name)
        if given is not None:
            if not isinstance(given, str) or not given:
                raise InvalidRequest(name, "a non-empty string")
            return given
    extensions = parameters.get("extensions")
    persisted = extensions.get("persistedQuery") if isinstance(extensions, dict) else None
    if persisted is None:
        return None
    digest = persisted.get("sha256Hash") if isinstance(persisted, dict) else None
    if not isinstance(digest, str) or not digest:
        raise InvalidRequest("extensions.persistedQuery.sha256Hash", "a non-empty string")
    return digest

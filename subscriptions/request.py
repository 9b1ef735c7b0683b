"""The parameters of a GraphQL request, which HTTP bodies, URLs and WebSocket frames carry alike."""

from __future__ import annotations

from subscriptions.engine import GraphQLRequest, Json


class InvalidRequest(Exception):
    """A parameter is not of the form that the protocols give it. `parameter` is its name."""

    def __init__(self, parameter: str, expected: str) -> None:
        super().__init__(f"The '{parameter}' is expected to be {expected}")
        self.parameter = parameter


def graphql_request(parameters: Json) -> GraphQLRequest:
    """The request that these parameters make; others are ignored. Raises InvalidRequest."""
    query = parameters.get("query")
    if not isinstance(query, str):
        raise InvalidRequest("query", "a string")
    operation_name = parameters.get("operationName")
    if operation_name is not None and not isinstance(operation_name, str):
        raise InvalidRequest("operationName", "a string or null")
    for name in ("variables", "extensions"):
        if not isinstance(parameters.get(name), dict | None):
            raise InvalidRequest(name, "an object or null")
    return GraphQLRequest(query, parameters.get("variables"), operation_name)

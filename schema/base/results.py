"""Brings the results of executions into the form that transports send."""

from __future__ import annotations

from typing import Any

from graphql import ExecutionResult

from schema.base.errors import ErrorCode, format_error, refused
from subscriptions.transport.engine import Json


async def await_response(outcome: Any, request_id: str) -> Json:
    """Await a result, and return it in the form that transports send. Raises RequestRefused."""
    return format_result(await outcome if hasattr(outcome, "__await__") else outcome, request_id)


def format_result(result: ExecutionResult, request_id: str) -> Json:
    """Return a result in the form that transports send. Raises RequestRefused if nothing was executed."""
    errors = result.errors or []
    if result.data is None and errors and all(error.path is None for error in errors):
        raise refused(errors)
    response: Json = {"data": result.data}
    if errors:
        response["errors"] = [format_error(error, request_id) for error in errors]
    return response


def is_unavailable(response: Json) -> bool:
    """Return whether a database could not be reached for a part of a response."""
    codes = [error["extensions"]["code"] for error in response.get("errors", ())]
    return ErrorCode.UNAVAILABLE.value in codes

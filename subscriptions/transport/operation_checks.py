"""Checks of a subscribe frame that are made before its operation is prepared. All raise RequestRefused."""

from __future__ import annotations

from subscriptions.transport.close_codes import Close
from subscriptions.transport.engine import RequestRefused, make_error

_RETRY_AFTER_MS = 1_000
"""Sent with the refusal of an operation that has to wait for the client's own operations to end."""

_MAX_ID_LENGTH = 1024
"""Characters of an operation's id, which is sent with each of its events."""


def check_operation(id: str, running: int, max_running: int) -> None:
    """Check the id of an operation, and how many run on its connection."""
    if running >= max_running:
        message = f"A connection may run {max_running} operations at once. End one of them first."
        raise RequestRefused([make_error(message, "RATE_LIMITED", retryable=True, retryAfterMs=_RETRY_AFTER_MS)])
    if len(id) > _MAX_ID_LENGTH:
        message = f"The id of an operation may have at most {_MAX_ID_LENGTH} characters."
        raise RequestRefused([make_error(message, "INVALID_INPUT")])


def check_not_ending(close: Close | None) -> None:
    """Check that the connection does not wait for its last mutations before it is closed."""
    if close is None:
        return
    if close.retryable:
        raise RequestRefused([make_error("The server restarts. Reconnect.", "UNAVAILABLE", retryable=True)])
    raise RequestRefused([make_error(f"The connection ends: {close.reason}.", "UNAVAILABLE")])

"""Errors of the command line."""

from __future__ import annotations

from store.base.errors import StoreError


class CommandError(Exception):
    """Raised when a command fails. The message says in one sentence what is wrong and what to do."""


def mongo_error(error: StoreError) -> CommandError:
    """Return the error for a failed call to MongoDB."""
    return CommandError(f"MongoDB at CONFAB_MONGO_URL failed: {short_reason(error)}.")


def short_reason(error: StoreError) -> str:
    """Return the message of an error without the state of all servers, which the driver appends for logs."""
    return str(error).partition(" (configured timeouts")[0].partition(", Timeout: ")[0]

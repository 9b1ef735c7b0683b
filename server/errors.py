"""Why a command can't be carried out."""

from __future__ import annotations

from store.base.errors import StoreError


class CommandError(Exception):
    """The message is one sentence for the person at the terminal: what is wrong, and what to do."""


def mongo_failed(error: StoreError) -> CommandError:
    """What MongoDB was asked for and did not do."""
    # The driver goes on with all it knows of the servers, which is for a log.
    reason = str(error).partition(" (configured timeouts")[0].partition(", Timeout: ")[0]
    return CommandError(f"MongoDB, at CONFAB_MONGO_URL, did not do it: {reason}.")

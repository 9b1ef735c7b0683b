"""Errors for mentions that a message may not have."""

from __future__ import annotations

from resolvers.base.errors import InvalidInput


def mentioned_outsider() -> InvalidInput:
    """Return the error for a mention of a user who is not in the conversation."""
    return InvalidInput("mention members of the conversation only", field="mentions")


def unknown_role() -> InvalidInput:
    """Return the error for a mention of a role that the workspace of the channel does not have."""
    return InvalidInput("mentionRoleIds must name roles of this workspace", field="mentionRoleIds")

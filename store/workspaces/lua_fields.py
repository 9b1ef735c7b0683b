"""Stored field names for the scripts on workspaces."""

from __future__ import annotations

from store.workspaces.workspace_fields import WorkspaceMetaField


def workspace_literals() -> dict[str, str]:
    """Return Lua literals by the names that scripts use for them."""
    return {"META_POLICY_VERSION": f"'{WorkspaceMetaField.POLICY_VERSION}'"}

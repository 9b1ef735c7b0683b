"""Calls about reports."""

from __future__ import annotations

from typing import Any

from resolvers.users.callers import Caller, CallerRole
from store.workspaces.permissions import OF_EVERYONE, Permission
from tests.api.client import Api, Json, make_caller
from tests.api.sample_channels import SampleChannels, create_sample_channels

REPORT = """
    id reporter { id } message { id content state } text user { id } reason note state action createdAt
    resolvedBy { id } attachment { id filename contentType sizeBytes state url }
"""
MAKE = f"""mutation ($message: ID, $user: ID, $attachment: ID, $reason: ReportReason! = SPAM, $note: String) {{
    report(messageId: $message, userId: $user, attachmentId: $attachment, reason: $reason, note: $note) {{
        {REPORT} }} }}"""
RESOLVE = f"""mutation ($id: ID!, $action: ReportAction! = NONE, $note: String) {{
    resolveReport(reportId: $id, action: $action, note: $note) {{ {REPORT} }} }}"""
LIST = f"""query ($workspace: ID, $state: ReportState, $first: Int = 50, $after: String) {{
    reports(workspaceId: $workspace, state: $state, first: $first, after: $after) {{
        edges {{ cursor node {{ {REPORT} }} }} pageInfo {{ hasNextPage hasPreviousPage endCursor }} }} }}"""
NODE = f"query ($id: ID!) {{ node(id: $id) {{ __typename ... on Report {{ {REPORT} }} }} }}"


def root() -> Caller:
    return make_caller("root", CallerRole.ADMIN)


async def make_report(api: Api, reporter: str, **fields: Any) -> Json:
    made: Json = (await api.data(reporter, MAKE, **fields))["report"]
    return made


async def resolve(api: Api, caller: str | Caller, id: str, action: str = "NONE", **fields: Any) -> Json:
    resolved: Json = (await api.data(caller, RESOLVE, id=id, action=action, **fields))["resolveReport"]
    return resolved


async def list_reports(api: Api, caller: str | Caller, workspace: str | None = None, **fields: Any) -> list[Json]:
    """Return a page of reports."""
    found = (await api.data(caller, LIST, workspace=workspace, **fields))["reports"]
    return [edge["node"] for edge in found["edges"]]


async def find_node(api: Api, caller: str | Caller, id: str) -> Json | None:
    found: Json | None = (await api.data(caller, NODE, id=id))["node"]
    return found


async def create_workspace_with(api: Api, moderator: Permission) -> SampleChannels:
    """Create a workspace whose moderator has just these permissions besides those of everyone."""
    workspace = await create_sample_channels(api)
    await workspace.give(workspace.moderator_role, OF_EVERYONE | moderator)
    return workspace


async def said_by(api: Api, user: str, conversation: str, text: str = "insult") -> str:
    """Send a message, and return its id."""
    return str((await api.send(user, conversation, text))["message"]["id"])


def stored_reports(api: Api) -> list[Json]:
    """Return all rows of reports."""
    return [dict(row) for row in api.database["reports"].find(sort=[("_id", 1)])]


def audit_of(api: Api, workspace: str | None) -> list[Json]:
    """Return the entries of the audit log of a workspace, the oldest first."""
    start = f"{workspace or '-'} "
    return [dict(row) for row in api.database["audit"].find({"_id": {"$regex": f"^{start}"}}, sort=[("_id", 1)])]

"""GraphQL documents about moderation, and calls that use them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from resolvers.users.callers import CallerRole
from tests.api.client import MESSAGE, Api, Json, make_caller

BAN_FIELDS = "user { id } by { id } reason until createdAt"
KICK = """mutation ($id: ID!, $user: ID!, $reason: String) {
    kickMember(workspaceId: $id, userId: $user, reason: $reason) }"""
BAN = f"""mutation ($id: ID, $user: ID!, $until: DateTime, $delete: Int, $reason: String) {{
    banUser(workspaceId: $id, userId: $user, until: $until, deleteSeconds: $delete, reason: $reason) {{
        {BAN_FIELDS} }} }}"""
UNBAN = "mutation ($id: ID, $user: ID!) { unbanUser(workspaceId: $id, userId: $user) }"
BANS = f"""query ($id: ID, $first: Int = 50, $after: String) {{ bans(workspaceId: $id, first: $first, after: $after) {{
    edges {{ cursor node {{ {BAN_FIELDS} }} }} pageInfo {{ hasNextPage hasPreviousPage endCursor }} }} }}"""
TIME_OUT = """mutation ($id: ID!, $user: ID!, $until: DateTime, $reason: String) {
    timeoutMember(workspaceId: $id, userId: $user, until: $until, reason: $reason) { user { id } timedOutUntil } }"""
RECALL_MANY = f"""mutation ($id: ID!, $messages: [ID!]!, $reason: String) {{
    recallMessages(conversationId: $id, messageIds: $messages, reason: $reason) {{ {MESSAGE} }} }}"""

ADMIN = make_caller("admin", CallerRole.ADMIN)


def later(**duration: float) -> str:
    """Return a time after the present one."""
    return (datetime.now(UTC) + timedelta(**duration)).isoformat(timespec="milliseconds")


async def ban(api: Api, actor: Any, workspace: str | None, user: str, **terms: Any) -> Json:
    """Ban a user, and return the ban."""
    banned: Json = (await api.data(actor, BAN, id=workspace, user=user, **terms))["banUser"]
    return banned


async def unban(api: Api, actor: Any, workspace: str | None, user: str) -> bool:
    """Lift a ban. Return whether there was one."""
    lifted: bool = (await api.data(actor, UNBAN, id=workspace, user=user))["unbanUser"]
    return lifted


async def banned_users(api: Api, actor: Any, workspace: str | None, page: int = 50) -> list[str]:
    """Return the ids of all banned users, read in pages."""
    found: list[str] = []
    after = None
    while True:
        listed = (await api.data(actor, BANS, id=workspace, first=page, after=after))["bans"]
        found += [edge["node"]["user"]["id"] for edge in listed["edges"]]
        after = listed["pageInfo"]["endCursor"]
        if not listed["pageInfo"]["hasNextPage"]:
            return found


async def time_out(api: Api, actor: str, workspace: str, user: str, until: str | None) -> str | None:
    """Time a member out. Return until when."""
    answer = await api.data(actor, TIME_OUT, id=workspace, user=user, until=until)
    shown: str | None = answer["timeoutMember"]["timedOutUntil"]
    return shown


def entries(api: Api, workspace: str | None, action: str) -> list[Json]:
    """Return the entries of an action in the audit log, oldest first."""
    owner = workspace or "-"
    query = {"_id": {"$gte": f"{owner} ", "$lt": f"{owner}!"}, "a": action}
    return list(api.database["audit"].find(query).sort("_id"))

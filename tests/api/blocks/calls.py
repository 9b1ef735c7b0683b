"""GraphQL documents about blocks, and the calls that use them."""

from __future__ import annotations

from tests.api.client import Api, Refusal
from tests.api.session_calls import Json

BLOCK = "mutation ($id: ID!) { blockUser(userId: $id) { id displayName } }"
UNBLOCK = "mutation ($id: ID!) { unblockUser(userId: $id) { id displayName } }"
BLOCKED = """query ($first: Int, $after: String) { blockedUsers(first: $first, after: $after) {
    pageInfo { hasNextPage hasPreviousPage endCursor } edges { node { id } } } }"""


async def block(api: Api, blocker: str, user: str) -> None:
    assert (await api.data(blocker, BLOCK, id=user))["blockUser"]["id"] == user


async def unblock(api: Api, blocker: str, user: str) -> None:
    assert (await api.data(blocker, UNBLOCK, id=user))["unblockUser"]["id"] == user


async def blocked(api: Api, user: str) -> list[str]:
    """Return the users that a user has blocked, the latest first."""
    page: Json = (await api.data(user, BLOCKED, first=100))["blockedUsers"]
    return [edge["node"]["id"] for edge in page["edges"]]


async def expect_blocked(api: Api, sender: str, to: str, **more: object) -> None:
    """Fail unless a private message is refused with BLOCKED."""
    refusal: Refusal = await api.expect_send_refusal(sender, to, **more)
    assert refusal.code == "BLOCKED", refusal

"""GraphQL documents about groups, and the calls that use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tests.api.session_calls import SESSION, Json

GROUP = f"""
    id type title name avatarUrl metadata memberCount viewerRole historyVisibility status createdAt
    owner {{ id }} visibleRanges {{ fromSeq toSeq }} lastMessage {{ id seq content sender {{ id }} }}
    members(first: 100) {{ edges {{ node {{ role joinedAt user {{ id }} }} }} }}
    session {{ {SESSION} }}
"""

REMOVE = f"mutation ($id: ID!, $user: ID!) {{ removeMember(groupId: $id, userId: $user) {{ {GROUP} }} }}"
LEAVE = "mutation ($id: ID!) { leaveGroup(groupId: $id) }"
TRANSFER = f"mutation ($id: ID!, $user: ID!) {{ transferOwner(groupId: $id, userId: $user) {{ {GROUP} }} }}"
SET_ROLE = f"""mutation ($id: ID!, $user: ID!, $role: GroupRole!) {{
    setMemberRole(groupId: $id, userId: $user, role: $role) {{ {GROUP} }} }}"""
UPDATE_GROUP = f"""mutation ($id: ID!, $input: UpdateGroupInput!) {{
    updateGroup(groupId: $id, input: $input) {{ {GROUP} }} }}"""
DISMISS = "mutation ($id: ID!) { dismissGroup(groupId: $id) }"
DISSOLVE = "mutation ($id: ID!) { deleteConversation(conversationId: $id) }"
GROUP_BY_ID = f"query ($id: ID!) {{ group(id: $id) {{ {GROUP} }} }}"
MY_GROUPS = "{ myGroups(first: 100) { edges { node { id } } } }"


class GroupCalls(ABC):
    """Calls about groups."""

    @abstractmethod
    async def data(self, caller: Any, query: str, /, **variables: Any) -> Json:
        """Return the response's data; fail on an error."""

    async def remove(self, caller: str, group: str, user: str) -> Json:
        """Remove a member. Return the group as the caller sees it."""
        returned_group: Json = (await self.data(caller, REMOVE, id=group, user=user))["removeMember"]
        return returned_group

    async def leave(self, user: str, group: str) -> None:
        assert await self.data(user, LEAVE, id=group) == {"leaveGroup": True}

    async def transfer(self, caller: str, group: str, user: str) -> Json:
        returned_group: Json = (await self.data(caller, TRANSFER, id=group, user=user))["transferOwner"]
        return returned_group

    async def set_role(self, caller: str, group: str, user: str, role: str) -> Json:
        returned_group: Json = (await self.data(caller, SET_ROLE, id=group, user=user, role=role))["setMemberRole"]
        return returned_group

    async def update_group(self, caller: str, group: str, **fields: Any) -> Json:
        returned_group: Json = (await self.data(caller, UPDATE_GROUP, id=group, input=fields))["updateGroup"]
        return returned_group

    async def dismiss(self, caller: str, group: str) -> None:
        """Delete the group and its record."""
        assert await self.data(caller, DISMISS, id=group) == {"dismissGroup": True}

    async def dissolve(self, caller: str, group: str) -> None:
        """End the group. Its messages stay readable."""
        assert await self.data(caller, DISSOLVE, id=group) == {"deleteConversation": True}

    async def group(self, user: str, group: str) -> Json | None:
        """Return the whole group as a user sees it."""
        returned_group: Json | None = (await self.data(user, GROUP_BY_ID, id=group))["group"]
        return returned_group

    async def own_group(self, user: str, group: str) -> Json:
        """Return a group in which the user is or was a member."""
        returned_group = await self.group(user, group)
        assert returned_group is not None
        return returned_group

    async def roles(self, user: str, group: str) -> dict[str, str]:
        """Return the role of each member, as a member sees it."""
        return roles_of(await self.own_group(user, group))

    async def ranges(self, user: str, group: str) -> list[tuple[int, int | None]]:
        """Return the visible ranges of a user."""
        returned_group = await self.own_group(user, group)
        return [(visible_range["fromSeq"], visible_range["toSeq"]) for visible_range in returned_group["visibleRanges"]]

    async def my_groups(self, user: str) -> list[str]:
        listed = (await self.data(user, MY_GROUPS))["myGroups"]
        return [edge["node"]["id"] for edge in listed["edges"]]


def roles_of(returned_group: Json) -> dict[str, str]:
    """Return the role of each member in a group that was returned."""
    return {edge["node"]["user"]["id"]: edge["node"]["role"] for edge in returned_group["members"]["edges"]}

"""What clients ask about groups, and how members change them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tests.api.session_calls import SESSION, Json

GROUP = f"""
    id type title name avatarUrl memberCount viewerRole historyVisibility status createdAt
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
SHOWN_GROUP = f"query ($id: ID!) {{ group(id: $id) {{ {GROUP} }} }}"
MY_GROUPS = "{ myGroups(first: 100) { edges { node { id } } } }"


class GroupCalls(ABC):
    """The calls about groups, for whoever can run operations."""

    @abstractmethod
    async def data(self, who: Any, query: str, **variables: Any) -> Json:
        """The response's data; fails on an error."""

    async def remove(self, who: str, group: str, user: str) -> Json:
        """Removes a member. Answers the group as who did it sees it."""
        shown: Json = (await self.data(who, REMOVE, id=group, user=user))["removeMember"]
        return shown

    async def leave(self, user: str, group: str) -> None:
        assert await self.data(user, LEAVE, id=group) == {"leaveGroup": True}

    async def transfer(self, who: str, group: str, user: str) -> Json:
        shown: Json = (await self.data(who, TRANSFER, id=group, user=user))["transferOwner"]
        return shown

    async def set_role(self, who: str, group: str, user: str, role: str) -> Json:
        shown: Json = (await self.data(who, SET_ROLE, id=group, user=user, role=role))["setMemberRole"]
        return shown

    async def update_group(self, who: str, group: str, **fields: Any) -> Json:
        shown: Json = (await self.data(who, UPDATE_GROUP, id=group, input=fields))["updateGroup"]
        return shown

    async def dismiss(self, who: str, group: str) -> None:
        """Deletes the group and its record."""
        assert await self.data(who, DISMISS, id=group) == {"dismissGroup": True}

    async def dissolve(self, who: str, group: str) -> None:
        """Ends the group; what was said stays readable."""
        assert await self.data(who, DISSOLVE, id=group) == {"deleteConversation": True}

    async def group(self, user: str, group: str) -> Json | None:
        """The whole group as a user sees it."""
        shown: Json | None = (await self.data(user, SHOWN_GROUP, id=group))["group"]
        return shown

    async def own_group(self, user: str, group: str) -> Json:
        """A group that the user is or was in."""
        shown = await self.group(user, group)
        assert shown is not None
        return shown

    async def roles(self, user: str, group: str) -> dict[str, str]:
        """Who is in a group, by what they are, as a member sees it."""
        return roles_of(await self.own_group(user, group))

    async def ranges(self, user: str, group: str) -> list[tuple[int, int | None]]:
        """The stretches of seq that a user may read."""
        shown = await self.own_group(user, group)
        return [(stretch["fromSeq"], stretch["toSeq"]) for stretch in shown["visibleRanges"]]

    async def my_groups(self, user: str) -> list[str]:
        listed = (await self.data(user, MY_GROUPS))["myGroups"]
        return [edge["node"]["id"] for edge in listed["edges"]]


def roles_of(shown: Json) -> dict[str, str]:
    """Who is in a group that was answered, by what they are."""
    return {edge["node"]["user"]["id"]: edge["node"]["role"] for edge in shown["members"]["edges"]}

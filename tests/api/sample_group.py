"""A group with a user in every relation to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api.client import Api

RELATIONS = ("owner", "admin", "member", "left", "removed", "outsider")
"""Relations to a group: three roles, two former members, and a user who was never a member."""


@dataclass(frozen=True)
class SampleGroup:
    """A group and its users. `member` wrote the message, and everybody but the outsider can see it."""

    group: str
    owner: str
    admin: str
    member: str
    left: str
    removed: str
    outsider: str
    other_admin: str
    other_member: str
    message: str
    later: str
    """A message sent after the former members had left."""

    @property
    def users(self) -> tuple[str, ...]:
        return (*self.members, self.left, self.removed, self.outsider)

    @property
    def members(self) -> tuple[str, ...]:
        return (self.owner, self.admin, self.member, self.other_admin, self.other_member)

    def fill_in(self, value: Any, user: str) -> Any:
        """Replace names like @owner, @self and @group in a value by ids."""
        if isinstance(value, dict):
            return {name: self.fill_in(item, user) for name, item in value.items()}
        if isinstance(value, list):
            return [self.fill_in(item, user) for item in value]
        if isinstance(value, str) and value.startswith("@"):
            return user if value == "@self" else getattr(self, value[1:])
        return value


async def create_sample_group(api: Api, **group: Any) -> SampleGroup:
    """Create the group. Two members leave it after they received a message."""
    names = ("owner", "admin", "member", "left", "removed", "outsider", "other_admin", "other_member")
    users = dict(zip(names, await api.create_users(*(name.replace("_", "-") for name in names)), strict=True))
    owner, *others = (user for name, user in users.items() if name != "outsider")
    group_id = await api.create_group(owner, *others, **group)
    for name in ("admin", "other_admin"):
        await api.set_role(owner, group_id, users[name], "ADMIN")
    message = await api.send(users["member"], group_id, "for everybody")
    await api.leave(users["left"], group_id)
    await api.remove(users["admin"], group_id, users["removed"])
    later = await api.send(users["member"], group_id, "for those who stayed")
    ids = {"message": message["message"]["id"], "later": later["message"]["id"]}
    return SampleGroup(group=group_id, **users, **ids)

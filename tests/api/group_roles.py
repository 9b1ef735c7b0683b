"""A group with somebody in every part that one can play in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.api.client import Api

PARTS = ("owner", "admin", "member", "left", "removed", "outsider")
"""Whoever may try something: who it belongs to, who helps, who is just in it, two who were, and one who never was."""


@dataclass(frozen=True)
class Cast:
    """Who plays which part. The message is the member's, and everybody but the outsider can see it."""

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
    """A message that came when the former ones were gone."""

    @property
    def people(self) -> tuple[str, ...]:
        return (*self.members, self.left, self.removed, self.outsider)

    @property
    def members(self) -> tuple[str, ...]:
        return (self.owner, self.admin, self.member, self.other_admin, self.other_member)

    def fill(self, value: Any, who: str) -> Any:
        """A value with the names of parts (@owner, @self, @group) replaced by ids."""
        if isinstance(value, dict):
            return {name: self.fill(part, who) for name, part in value.items()}
        if isinstance(value, list):
            return [self.fill(part, who) for part in value]
        if isinstance(value, str) and value.startswith("@"):
            return who if value == "@self" else getattr(self, value[1:])
        return value


async def perform(api: Api, **group: Any) -> Cast:
    """Makes the group, and lets two leave it who had something to read."""
    names = ("owner", "admin", "member", "left", "removed", "outsider", "other_admin", "other_member")
    people = dict(zip(names, await api.people(*(name.replace("_", "-") for name in names)), strict=True))
    owner, *others = (user for name, user in people.items() if name != "outsider")
    made = await api.create_group(owner, *others, **group)
    for name in ("admin", "other_admin"):
        await api.set_role(owner, made, people[name], "ADMIN")
    message = await api.send(people["member"], made, "for everybody")
    await api.leave(people["left"], made)
    await api.remove(people["admin"], made, people["removed"])
    later = await api.send(people["member"], made, "for those who stayed")
    ids = {"message": message["message"]["id"], "later": later["message"]["id"]}
    return Cast(group=made, **people, **ids)

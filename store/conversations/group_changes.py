"""Changes of groups, on their way from the script that gave them their place to MongoDB and to everybody's sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from store.base.ids import UserId

DISSOLVED = "D"
"""A group that ended and stays readable to those who were in it."""

DISMISSED = "X"
"""A group that is gone."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What becomes of a group and of memberships in it.

    `version`: the group's after it; each change has the next one. `members`: the memberships that it makes, ends or alters, as
    they are from then on (JSON, as cached); of these, who joined and who left. `fields`: what it sets about the group, by the
    names of its document, None takes one away. `told`: by a SYSTEM message in the group. `written_ms`: when the newest message of those
    before it became durable, as far as that was known.
    """

    version: int
    member_count: int
    members: tuple[tuple[UserId, str], ...] = ()
    joined: tuple[UserId, ...] = ()
    left: tuple[UserId, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    sub_biz: str | None = None
    told: bool = True
    written_ms: int = 0

    @property
    def dissolves(self) -> bool:
        """Whether the group ends with it."""
        return "st" in self.fields

    def to_json(self) -> bytes:
        """As kept in the outbox with the message that tells of it."""
        return orjson.dumps(_without_empty({
            "v": self.version, "mc": self.member_count, "mem": self.members, "in": self.joined, "out": self.left,
            "set": dict(self.fields), "sb": self.sub_biz, "q": not self.told,
            "w": self.written_ms,
        }))  # fmt: skip


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """Lua's JSON can't tell [] from {}."""
    return {name: value for name, value in fields.items() if value or name == "mc"}


def group_change_from(fields: dict[str, Any]) -> GroupChange:
    """A change from its JSON object."""
    return GroupChange(
        version=fields["v"],
        member_count=fields["mc"],
        members=tuple((UserId(user), member) for user, member in fields.get("mem", ())),
        joined=tuple(UserId(user) for user in fields.get("in", ())),
        left=tuple(UserId(user) for user in fields.get("out", ())),
        fields=fields.get("set", {}),
        sub_biz=fields.get("sb"),
        told=not fields.get("q", False),
        written_ms=fields.get("w", 0),
    )

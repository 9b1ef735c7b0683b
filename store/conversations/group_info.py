"""The fields of a group that its members see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from store.base.ids import UserId
from store.conversations.conversation_fields import ConversationField


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """Fields of a group that rarely change."""

    name: str
    avatar_url: str | None
    owner: UserId
    full_history: bool
    created_at_ms: int
    sub_biz: str | None = None
    metadata: str | None = None
    """JSON text."""

    def to_fields(self) -> dict[str, Any]:
        """Return the stored fields. Empty ones are left out."""
        fields: dict[str, Any] = {
            ConversationField.NAME: self.name,
            ConversationField.OWNER: self.owner,
            ConversationField.CREATED_AT: self.created_at_ms,
        }
        if self.avatar_url:
            fields[ConversationField.AVATAR] = self.avatar_url
        if self.metadata is not None:
            fields[ConversationField.METADATA] = self.metadata
        if self.full_history:
            fields[ConversationField.FULL_HISTORY] = True
        if self.sub_biz:
            fields[ConversationField.SUB_BIZ] = self.sub_biz
        return fields


def group_info_from(fields: dict[str, Any]) -> GroupInfo:
    """Return the group fields of a document or a decoded record."""
    return GroupInfo(
        name=fields[ConversationField.NAME],
        avatar_url=fields.get(ConversationField.AVATAR),
        owner=UserId(fields[ConversationField.OWNER]),
        full_history=bool(fields.get(ConversationField.FULL_HISTORY)),
        created_at_ms=fields[ConversationField.CREATED_AT],
        sub_biz=fields.get(ConversationField.SUB_BIZ),
        metadata=fields.get(ConversationField.METADATA),
    )


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as its members saw it after one of its changes, the one that gave it `version`."""

    info: GroupInfo
    member_count: int
    version: int

    def to_fields(self) -> dict[str, Any]:
        """Return the stored fields."""
        numbers = {ConversationField.MEMBER_COUNT: self.member_count, ConversationField.GROUP_VERSION: self.version}
        return self.info.to_fields() | numbers


def group_state_from(fields: dict[str, Any]) -> GroupState:
    """Return the state of its stored fields."""
    count, version = fields[ConversationField.MEMBER_COUNT], fields[ConversationField.GROUP_VERSION]
    return GroupState(group_info_from(fields), count, version)

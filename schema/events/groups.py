"""The GraphQL type of the event of a changed group."""

from __future__ import annotations

from typing import Self

import strawberry

from schema.base.scalars import Cursor
from schema.events.source import CURSOR
from schema.groups.group_types import Group, group_from
from subscriptions.realtime.events.groups import GroupChanged


@strawberry.type(name="GroupChanged", description="Name, picture, metadata, a role or historyVisibility changed.")
class GroupChangedType:
    group: Group
    cursor: Cursor

    @classmethod
    def from_event(cls, event: GroupChanged) -> Self:
        """Return the event as the API shows it."""
        return cls(group=group_from(event.head), cursor=CURSOR)

"""Following of default channels by users who join a workspace: rows, and changes of cached states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pymongo import UpdateOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import workspace_of_channel
from store.channels.channel_rows import Writes
from store.conversations.conversation import Member
from store.mongo.collections import CHANNELS, MEMBERS, SESSIONS, member_row_id, session_row_id, workspace_row_id
from store.sessions.channel_changes import ChannelChange
from store.sessions.session import Session
from store.workspaces.changing.proposed_change import Operation
from store.workspaces.workspace_fields import ChannelField


class DefaultChannel(NamedTuple):
    """A channel that new members follow, with its newest seq and n, up to which they have read."""

    id: ConversationId
    seq: int
    n: int

    @property
    def change(self) -> ChannelChange:
        """The change of the session of a user who follows the channel from now on."""
        place = self.seq, self.n
        return ChannelChange(self.id, begins_at=place, read=place, values={Session.follows: True})


def following_writes(channels: Sequence[DefaultChannel], users: Sequence[UserId], at_ms: int) -> Writes:
    """Return the writes of the transaction in which users join: their rows as followers, their sessions, and counts."""
    followers, sessions, counts = list[Operation](), list[Operation](), list[Operation]()
    for channel in channels:
        session = channel.change.row_updates(at_ms)[channel.id]
        for user in users:
            row = Member(user, "", ((channel.seq + 1, None),), at_ms).to_fields()
            followers.append(UpdateOne({"_id": member_row_id(channel.id, user)}, {"$set": row}, upsert=True))
            sessions.append(UpdateOne({"_id": session_row_id(user, channel.id)}, session, upsert=True))
        document = workspace_row_id(workspace_of_channel(channel.id), channel.id)
        counts.append(UpdateOne({"_id": document}, {"$inc": {ChannelField.MEMBER_COUNT: len(users)}}))
    return [(MEMBERS, followers), (SESSIONS, sessions), (CHANNELS, counts)] if channels else []

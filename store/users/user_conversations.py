"""Finds the conversations that a user is in, was in, or may have written in. For work in the background.

It reads the rows of the user's sessions, which are stored as long as the conversation. A row exists for:

- each private conversation, in all subBizs, from its first message on, also when the user deleted it;
- each group that the user is or was in, also those that have ended;
- each channel that the user followed, read, wrote in or was mentioned in, also after the user left the workspace;
- each thread that the user followed, replied in, read or was mentioned in, of any of these.

So every conversation with a message of the user that counts is found. These are not:

- channels of which a SYSTEM message names the user as the actor, if the user never read them;
- messages from incoming webhooks that the user created: their sender is the webhook;
- channels that were deleted: their rows are removed a minute later, sessions first.
"""

from __future__ import annotations

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import WorkspaceId, workspace_of_channel
from store.mongo.client import Mongo
from store.mongo.collections import SESSIONS, channel_sessions_of, conversation_sessions_of, parse_session_row_id
from store.mongo.index_fields import BY_ID

_CHANNELS_PER_QUERY = 2_000


class UserConversations:
    """Reads rows of sessions. All methods raise Unreachable."""

    def __init__(self, mongo: Mongo) -> None:
        self._mongo = mongo

    async def list_after(self, user: UserId, after: ConversationId | None, limit: int) -> list[ConversationId]:
        """Return conversations of a user after one of them, in a fixed order; after: None: from the first on.

        Threads come first, then channels, groups and private conversations. An empty list: there are no more. A caller
        may continue after any conversation of an earlier answer. A conversation that begins meanwhile may be missed.
        One round trip, which reads only an index.
        """
        query = conversation_sessions_of(user, after)
        rows = await self._mongo.find(SESSIONS, query, projection={"_id": 1}, sort=BY_ID, limit=limit, hint=BY_ID)
        return [parse_session_row_id(row["_id"])[1] for row in rows]

    async def list_workspaces(self, user: UserId) -> list[WorkspaceId]:
        """Return the workspaces in whose channels a user has sessions, present and former ones, in a fixed order.

        A workspace is missing if the user never followed, read or wrote in any channel there. One round trip for each
        2,000 channels.
        """
        found: dict[WorkspaceId, None] = {}
        after = ""
        while True:
            query = channel_sessions_of(user, after)
            rows = await self._mongo.find(
                SESSIONS, query, projection={"_id": 1}, sort=BY_ID, limit=_CHANNELS_PER_QUERY, hint=BY_ID
            )
            channels = [parse_session_row_id(row["_id"])[1] for row in rows]
            found |= dict.fromkeys(map(workspace_of_channel, channels))
            if len(rows) < _CHANNELS_PER_QUERY:
                return list(found)
            after = channels[-1]

"""Calls on sessions in channels."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json
from tests.api.session_calls import SESSION

FIND = f"query ($id: ID!) {{ session(conversationId: $id) {{ {SESSION} }} }}"
READ = f"mutation ($id: ID!, $seq: Int) {{ markRead(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
READ_MANY = f"mutation ($ids: [ID!]) {{ markManyRead(conversationIds: $ids) {{ {SESSION} }} }}"
ACK = f"mutation ($id: ID!, $seq: Int!) {{ ackDelivered(conversationId: $id, upToSeq: $seq) {{ {SESSION} }} }}"
MUTE = f"""mutation ($id: ID!, $muted: Boolean!, $until: DateTime) {{
    muteSession(conversationId: $id, muted: $muted, until: $until) {{ {SESSION} }} }}"""
UNREAD = f"mutation ($id: ID!) {{ setUnread(conversationId: $id) {{ {SESSION} }} }}"
ATTENTION = "{ attention { unread mentions threads } totalUnread }"
LIVE = f"subscription {{ syncSession {{ reason reset sessions {{ {SESSION} }} }} }}"


async def session_of(api: Api, user: str, channel: str) -> Json | None:
    """Return a user's session in a channel."""
    found: Json | None = (await api.data(user, FIND, id=channel))["session"]
    return found


async def change(api: Api, user: str, query: str, /, **variables: Any) -> Any:
    """Make a mutation with one root field. Return its answer."""
    (answer,) = (await api.data(user, query, **variables)).values()
    return answer


async def attention_of(api: Api, user: str) -> tuple[int, int]:
    """Return a user's unread messages and mentions."""
    found = (await api.data(user, ATTENTION))["attention"]
    return found["unread"], found["mentions"]


FOLLOW = """mutation ($id: ID!, $follow: Boolean! = true) { followChannel(channelId: $id, follow: $follow) {
    id viewerFollows memberCount session { readSeq readCount unreadCount } } }"""
FOLLOWED = """query ($id: ID!, $unread: Boolean, $first: Int = 100, $after: String) {
    followedChannels(workspaceId: $id, unreadOnly: $unread, first: $first, after: $after) {
        edges { node { id messageCount session { readCount unreadCount } } } pageInfo { hasNextPage endCursor } } }"""


async def followed_by(api: Api, user: str, workspace: str, **variables: Any) -> list[str]:
    """Return the channels of a workspace that a user follows."""
    page = (await api.data(user, FOLLOWED, id=workspace, **variables))["followedChannels"]
    for edge in page["edges"]:
        read = edge["node"]["session"]
        assert read["unreadCount"] == edge["node"]["messageCount"] - read["readCount"]
    return [edge["node"]["id"] for edge in page["edges"]]


SYNC_CHANNELS = """query ($since: Cursor, $first: Int = 100) { syncChannels(since: $since, first: $first) {
    channels { id messageCount viewerFollows session { readCount unreadMentionCount muteStatus } }
    gone cursor hasMore reset attention { unread mentions } } }"""


class ChannelClient:
    """A client that keeps its followed channels up to date with syncChannels alone."""

    def __init__(self, api: Api, user: str, page: int = 100, query: str = SYNC_CHANNELS) -> None:
        self._api = api
        self._user = user
        self._page = page
        self._query = query
        self.cursor: str | None = None
        self.channels: dict[str, Json] = {}
        self.received = 0
        self.attention: Json = {}

    async def sync(self, api: Api | None = None) -> None:
        """Take all pages. Fail if the client has to start over. api: the process to ask from now on."""
        self._api = api or self._api
        self.received, has_more = 0, True
        while has_more:
            query = {"since": self.cursor, "first": self._page}
            delta = (await self._api.data(self._user, self._query, **query))["syncChannels"]
            assert not delta["reset"] and len(delta["channels"]) + len(delta["gone"]) <= self._page
            for channel in delta["channels"]:
                assert channel["viewerFollows"]
                self.channels[channel["id"]] = channel
            for gone in delta["gone"]:
                self.channels.pop(gone, None)
            self.received += len(delta["channels"]) + len(delta["gone"])
            self.cursor, has_more, self.attention = delta["cursor"], delta["hasMore"], delta["attention"]


ADD = "mutation ($id: ID!, $users: [ID!]!) { addToChannel(channelId: $id, userIds: $users) { id memberCount } }"
REMOVE = "mutation ($id: ID!, $user: ID!) { removeFromChannel(channelId: $id, userId: $user) { id memberCount } }"
READ_ALL = """mutation ($id: ID!, $category: ID) {
    markChannelsRead(workspaceId: $id, categoryId: $category) { unread mentions } }"""

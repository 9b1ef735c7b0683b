"""Compares what a user is shown of a workspace with the model of channels, and clients that synchronise."""

from __future__ import annotations

from typing import Any

from tests.api.channels.session_calls import ChannelClient
from tests.api.client import Api
from tests.invariants.machine.channel_requests import ONE_CHANNEL, OVERVIEW, PINNED, SYNC, ChannelRequests
from tests.invariants.model.channel_marks import shown_reactions
from tests.invariants.model.channels import ChannelMessage, ChannelModel, ModelChannel
from tests.invariants.model.sessions import Json


class ChannelChecks:
    """The model of one walk, and the requests about its workspace."""

    def __init__(self, model: ChannelModel, requests: ChannelRequests) -> None:
        self.model = model
        self.requests = requests

    async def check_user(self, api: Api, user: str) -> None:
        """Check everything that a user is shown by one process.

        The channels come first: a query of the workspace lets the process read the newest policy.
        """
        for channel in self.model.channels.values():
            await self._check_channel(api, user, channel)
        await self._check_overview(api, user)

    async def _check_overview(self, api: Api, user: str) -> None:
        model = self.model
        shown = await api.data(user, OVERVIEW, id=self.requests.workspace)
        workspace = shown["workspace"]
        assert workspace["memberCount"] == len(model.joined)
        assert set(workspace["viewerPermissions"]) == model.rights_in_workspace(user), user
        visible = [channel.id for channel in model.visible(user)]
        assert [edge["node"]["id"] for edge in workspace["channels"]["edges"]] == visible, user
        followed = model.followed(user)
        expected = [self._channel(user, channel) for channel in followed]
        assert [edge["node"] for edge in shown["followedChannels"]["edges"]] == expected, user
        unread = [channel.id for channel in followed if channel.unread(user)]
        assert [edge["node"]["id"] for edge in shown["unread"]["edges"]] == unread, user
        assert shown["attention"] == {"unread": 0, "mentions": model.mentions(user), "threads": 0}, user

    def _channel(self, user: str, channel: ModelChannel) -> Json:
        return {
            "id": channel.id,
            "kind": channel.kind,
            "isArchived": channel.is_archived,
            "messageCount": channel.countable(),
            "viewerFollows": user in channel.followers,
            "session": self.model.session(user, channel),
        }

    async def _check_channel(self, api: Api, user: str, channel: ModelChannel) -> None:
        model = self.model
        shown = await api.data(user, ONE_CHANNEL, id=channel.id)
        assert shown["session"] == model.session(user, channel), (user, channel.id)
        if not model.sees(user, channel):
            assert (shown["channel"], shown["messages"]) == (None, None), (user, channel.id)
            return
        found = dict(shown["channel"])
        assert set(found.pop("viewerPermissions")) == model.rights(user, channel), (user, channel.id)
        assert found.pop("memberCount") == len(channel.followers), channel.id
        assert found.pop("pinCount") == len(channel.pins), channel.id
        assert found == self._channel(user, channel), user
        nodes = [edge["node"] for edge in shown["messages"]["edges"]]
        for node in nodes:
            self.requests.messages[channel.id, node["seq"]] = node.pop("id")
        history = model.history(user, channel) or []
        expected = [_expected(message, user, channel) for message in history]
        assert [_shown(node) for node in nodes] == expected, (user, channel.id)
        pinned = (await api.data(user, PINNED, id=channel.id))["pinnedMessages"]
        readable = {message.seq for message in history}
        assert [edge["node"]["seq"] for edge in pinned["edges"]] == [s for s in reversed(channel.pins) if s in readable]

    async def check_client(self, api: Api, user: str, client: ChannelClient) -> None:
        """Check I5: what a client has, with what changed since, is what a new client gets."""
        await client.sync(api)
        expected = {channel.id: self._channel(user, channel) for channel in self.model.followed(user)}
        assert client.channels == expected, user
        assert client.attention == {"unread": 0, "mentions": self.model.mentions(user)}, user
        fresh = ChannelClient(api, user, query=SYNC)
        await fresh.sync()
        assert fresh.channels == expected, user


def _shown(node: Json) -> tuple[Any, ...]:
    content = node["content"] if node["systemEvent"] is None else None
    reactions = [
        (each["emoji"], each["count"], each["viewerReacted"], [reactor["id"] for reactor in each["users"]])
        for each in node["reactions"]
    ]
    return (node["seq"], node["sender"]["id"], content, node["state"] == "RECALLED", node["isPinned"], reactions)


def _expected(message: ChannelMessage, user: str, channel: ModelChannel) -> tuple[Any, ...]:
    is_pinned, reactions = message.seq in channel.pins, shown_reactions(message, user)
    return (message.seq, message.sender, message.content, message.is_recalled, is_pinned, reactions)

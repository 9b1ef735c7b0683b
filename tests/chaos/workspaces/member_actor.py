"""The actions of people in workspaces: messages, reading, following, joining, leaving, and changes of rights."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from tests.chaos.judges.history import Json
from tests.chaos.load.connection import RequestFailed
from tests.chaos.load.load_end import LoadEnd
from tests.chaos.load.load_state import SentMessage
from tests.chaos.load.requester import GaveUp
from tests.chaos.workspaces.member_device import MemberDevice
from tests.chaos.workspaces.spaces import SharedChannel, Spaces, Workspace, create_channel

# Each action, and its share of the sum of all.
_WEIGHTS = {
    "send": 28, "send_again": 3, "edit": 4, "recall": 2, "read": 8, "mark_read": 8, "mute": 1, "set_unread": 1,
    "look": 9, "look_away": 1, "follow": 4, "sync": 4, "list": 4, "type": 3, "read_all": 1, "rename": 2,
    "leave_or_join": 4, "hide_or_show": 4, "change_roles": 4, "change_staff": 5, "archive": 1, "nickname": 1,
    "create_channel": 0.3, "disturb": 3,
}  # fmt: skip
CHANGES = ("send", "leave_or_join", "hide_or_show", "change_roles", "change_staff", "follow", "look", "archive")
_OF_RIGHTS = {"leave_or_join", "hide_or_show", "change_roles", "change_staff", "archive"}
"""Changes of what users may see or do."""
_MOST_CHANNELS = 7

# Another one may have changed the actor's rights just before.
_OF_CHANNELS = {"NOT_FOUND", "FORBIDDEN", "NOT_A_MEMBER", "ARCHIVED", "INVALID_INPUT"}
_EXPECTED_ERRORS = {
    **dict.fromkeys(("send", "send_again", "edit", "type", "follow", "mark_read", "mute", "set_unread"), _OF_CHANNELS),
    "recall": _OF_CHANNELS | {"RECALL_TIMEOUT"},
    "read_all": {"NOT_FOUND"},
    "nickname": {"NOT_FOUND"},
    "change_staff": {"NOT_A_MEMBER", "ARCHIVED"},
    "change_roles": {"NOT_A_MEMBER"},
    "hide_or_show": {"NOT_A_MEMBER"},
}


class MemberActor:
    """The person who uses one MemberDevice."""

    def __init__(self, device: MemberDevice, spaces: Spaces) -> None:
        self.device = device
        self.load = device.load
        self.rng = device.rng
        self.spaces = spaces

    async def act(self, until: LoadEnd, pause: float, first: str) -> None:
        """Act until the load ends, with pauses of that many seconds on average."""
        left_out = set() if self.load.changes_rights else _OF_RIGHTS
        weights = {name: weight for name, weight in _WEIGHTS.items() if name not in left_out}
        if first in weights:
            await self.do(first)
        while await until.rest(self.rng, pause):
            await self.do(self.rng.choices(list(weights), list(weights.values()))[0])

    async def do(self, name: str) -> None:
        """Carry out one action by its name."""
        action: Callable[[], Awaitable[None]] = getattr(self, f"_{name}")
        try:
            await action()
        except RequestFailed as failed:
            if failed.code not in _EXPECTED_ERRORS.get(name, ()):
                self.load.tally.problem(f"{self.device.name}: {name}: {failed}")
        except GaveUp:
            self.load.tally.notes[f"not answered within {self.load.patience:.0f} s: {name}"] += 1

    def _pick(self) -> tuple[Workspace, SharedChannel]:
        """Return a channel: usually one that the user can see, sometimes any."""
        visible = self.spaces.visible(self.device.user)
        if not visible or self.rng.random() < 0.15:
            workspace = self.rng.choice(self.spaces.workspaces)
            return workspace, self.rng.choice(workspace.channels)
        return self.rng.choice(visible)

    def _pick_other(self, workspace: Workspace) -> str:
        """Return any user but the owner."""
        return self.rng.choice([user for user in self.load.users if user != workspace.admin.user])

    # --- messages

    async def _send(self) -> None:
        await self._send_given(self._new_message(*self._pick()))

    async def _send_again(self) -> None:
        given = self._new_message(*self._pick())
        await self._send_given(given)
        await self._send_given(given)

    def _new_message(self, workspace: Workspace, channel: SharedChannel) -> Json:
        text = self.load.text(self.device.user)
        given: Json = {"conversationId": channel.id, "content": text, "idempotencyKey": text}
        others = [u for u in self.load.users if u != self.device.user and workspace.sees(u, channel)]
        if others and self.rng.random() < 0.3:
            given["mentions"] = self.rng.sample(others, min(2, len(others)))
        return given

    async def _send_given(self, given: Json) -> None:
        text: str = given["content"]
        self.load.tried.add(text)
        began = time.time()
        answer = await self.device.request("sendMessage", input=given)
        message = answer["message"]
        sent = SentMessage(message["id"], given["conversationId"], message["seq"], self.device.user, began, time.time())
        self.spaces.sent.setdefault(text, sent)
        self.spaces.mentions[message["id"]].update(given.get("mentions", ()))

    def _own_message(self) -> str | None:
        own = [sent.id for sent in self.spaces.sent.values() if sent.sender == self.device.user]
        return self.rng.choice(own[-5:]) if own else None

    async def _edit(self) -> None:
        if message := self._own_message():
            text = f"{self.load.text(self.device.user)}, edited"
            await self.device.request("editMessage", id=message, text=text)
            self.load.edited.add(message)

    async def _recall(self) -> None:
        if message := self._own_message():
            await self.device.request("recallMessage", id=message)
            self.load.recalled.add(message)

    async def _type(self) -> None:
        await self.device.request("startTyping", id=self._pick()[1].id)

    # --- reading

    async def _read(self) -> None:
        _, channel = self._pick()
        if self.rng.random() < 0.5:
            await self.device.request("messages", id=channel.id, last=20)
        else:
            await self.device.request("channel", id=channel.id)

    async def _list(self) -> None:
        workspace = self.rng.choice(self.spaces.workspaces)
        match self.rng.choice(("workspace", "followed", "attention")):
            case "workspace":
                await self.device.request("workspace", id=workspace.id)
            case "followed":
                await self.device.request("followedChannels", id=workspace.id)
            case _:
                await self.device.request("attention")

    async def _mark_read(self) -> None:
        await self.device.request("markRead", id=self._pick()[1].id)

    async def _mute(self) -> None:
        await self.device.request("muteSession", id=self._pick()[1].id, muted=self.rng.random() < 0.5)

    async def _set_unread(self) -> None:
        await self.device.request("setUnread", id=self._pick()[1].id)

    async def _read_all(self) -> None:
        await self.device.request("markChannelsRead", id=self.rng.choice(self.spaces.workspaces).id)

    async def _sync(self) -> None:
        await self.device.mirror.catch_up(self.device, self.rng.choice((3, 30, 100)))

    async def _follow(self) -> None:
        workspace, channel = self._pick()
        # Unfollowing a PRIVATE channel leaves it: that is a change of rights.
        if not channel.is_private:
            async with workspace.locks[self.device.user]:
                follow = self.rng.random() < 0.6
                self.device.note_follow(await self.device.request("followChannel", id=channel.id, follow=follow))

    async def _look(self) -> None:
        _, channel = self._pick()
        await self.device.look_at(channel.id)

    async def _look_away(self) -> None:
        if self.device.chains:
            await self.device.look_away(self.rng.choice(sorted(self.device.chains)))

    async def _disturb(self) -> None:
        """Close, drop or stall the connection, or stay away for a while."""
        connection, reach = self.device.connection, self.load.reach
        if connection is None:
            return
        kind = self.rng.choice(("close", "drop", "stall", "go offline"))
        self.load.tally.notes[f"devices with workspaces: {kind}"] += 1
        match kind:
            case "stall":
                connection.stall(self.rng.uniform(0.3, 3.0) * reach)
            case "go offline":
                self.device.offline_until = time.monotonic() + self.rng.uniform(1.0, 20.0) * reach
                await connection.close(politely=True)
            case _:
                await connection.close(politely=kind == "close")

    # --- changes of rights, each by the owner except joining and leaving

    async def _leave_or_join(self) -> None:
        workspace, user = self.rng.choice(self.spaces.workspaces), self.device.user
        if user != workspace.admin.user:
            async with workspace.locks[user]:
                await (self._leave if user in workspace.members else self.join)(workspace)

    async def join(self, workspace: Workspace) -> None:
        """Join, and show the workspace."""
        await self.device.request("joinWorkspace", id=workspace.id)
        workspace.members.add(self.device.user)
        await self.device.open_workspace(workspace.id)
        await self.device.look_at(self.rng.choice([c.id for c in workspace.channels if not c.is_private]))

    async def _leave(self, workspace: Workspace) -> None:
        workspace.members.discard(self.device.user)
        workspace.writers.discard(self.device.user)
        for users in workspace.inside.values():
            users.discard(self.device.user)
        try:
            await self.device.request("leaveWorkspace", id=workspace.id)
        except RequestFailed as failed:
            # The answer to the first try was lost.
            if failed.code != "NOT_FOUND":
                raise

    async def _hide_or_show(self) -> None:
        """Hide a channel from somebody with an overwrite, or remove the overwrite."""
        workspace = self.rng.choice(self.spaces.workspaces)
        user, channel = self._pick_other(workspace), self.rng.choice(workspace.channels)
        if channel.is_private:
            return
        async with workspace.locks[user]:
            hides = user not in workspace.hidden[channel.id]
            deny = ["VIEW_CHANNEL"] if hides else []
            if user in workspace.members:
                await workspace.admin.request("setPermissionOverwrite", channel=channel.id, user=user, deny=deny)
                (workspace.hidden[channel.id].add if hides else workspace.hidden[channel.id].discard)(user)

    async def _change_roles(self) -> None:
        """Give somebody the role of writers, or take it away."""
        workspace = self.rng.choice(self.spaces.workspaces)
        user = self._pick_other(workspace)
        async with workspace.locks[user]:
            if user in workspace.members:
                roles = [] if user in workspace.writers else [workspace.writer_role]
                await workspace.admin.request("setMemberRoles", id=workspace.id, user=user, roles=roles)
                (workspace.writers.add if roles else workspace.writers.discard)(user)

    async def _change_staff(self) -> None:
        """Add somebody to a PRIVATE channel, or remove them."""
        workspace = self.rng.choice(self.spaces.workspaces)
        user = self._pick_other(workspace)
        channel = next(channel for channel in workspace.channels if channel.is_private)
        inside = workspace.inside[channel.id]
        async with workspace.locks[user]:
            if user not in workspace.members:
                return
            if user in inside:
                inside.discard(user)
                await workspace.admin.request("removeFromChannel", id=channel.id, user=user)
            else:
                await workspace.admin.request("addToChannel", id=channel.id, users=[user])
                inside.add(user)

    async def _archive(self) -> None:
        """Archive the third channel, or reopen it."""
        workspace = self.rng.choice(self.spaces.workspaces)
        channel = workspace.channels[2].id
        async with workspace.locks[channel]:
            archived = channel not in workspace.archived
            await workspace.admin.request("archiveChannel", id=channel, archived=archived)
            (workspace.archived.add if archived else workspace.archived.discard)(channel)

    async def _rename(self) -> None:
        workspace = self.rng.choice(self.spaces.workspaces)
        channel = self.rng.choice(workspace.channels)
        fields = {"topic": self.load.text(self.device.user)}
        await workspace.admin.request("updateChannel", id=channel.id, input=fields)

    async def _nickname(self) -> None:
        workspace = self.rng.choice(self.spaces.workspaces)
        nickname = self.rng.choice((None, f"nick {self.rng.randrange(5)}"))
        await self.device.request("setNickname", id=workspace.id, nickname=nickname)

    async def _create_channel(self) -> None:
        workspace = self.rng.choice(self.spaces.workspaces)
        async with workspace.locks["channels"]:
            if len(workspace.channels) < _MOST_CHANNELS:
                await create_channel(workspace)

"""Workspaces that the devices of a run share: their channels, and the rights that the load has given."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field

from tests.chaos.judges.history import Json
from tests.chaos.load.load_state import LoadState, SentMessage
from tests.chaos.load.requester import Requester


@dataclass(frozen=True, slots=True)
class SharedChannel:
    """A channel of the load. needs_writer: only the members with the role of writers may send."""

    id: str
    is_private: bool = False
    needs_writer: bool = False


@dataclass
class Workspace:
    """A workspace. `admin` makes changes as its owner."""

    id: str
    admin: Requester
    writer_role: str
    channels: list[SharedChannel] = field(default_factory=list)
    members: set[str] = field(default_factory=set)
    """Users who are members, as far as the load knows."""
    inside: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By PRIVATE channel, the users that the load has added."""
    hidden: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By channel, the users that can't see it because of an overwrite."""
    writers: set[str] = field(default_factory=set)
    archived: set[str] = field(default_factory=set)
    locks: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    """Changes for one user, or one channel, come one after the other: so the judges know their order."""

    def sees(self, user: str, channel: SharedChannel) -> bool:
        """Return whether a user can see a channel, as far as the load knows."""
        is_inside = not channel.is_private or user in self.inside[channel.id]
        return user in self.members and is_inside and user not in self.hidden[channel.id]


@dataclass
class Spaces:
    """All workspaces of a run."""

    load: LoadState
    workspaces: list[Workspace] = field(default_factory=list)
    sent: dict[str, SentMessage] = field(default_factory=dict)
    """Acknowledged messages in channels by their texts."""
    mentions: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Users that an acknowledged message mentions, by its id."""
    edited: set[str] = field(default_factory=set)

    def of_channel(self, channel: str) -> Workspace:
        """Return the workspace of a channel."""
        return next(w for w in self.workspaces if any(c.id == channel for c in w.channels))

    def visible(self, user: str) -> list[tuple[Workspace, SharedChannel]]:
        """Return the channels that a user can see, as far as the load knows."""
        return [(w, c) for w in self.workspaces for c in w.channels if w.sees(user, c)]


async def create_workspace(admin: Requester, users: list[str], rng: random.Random) -> Workspace:
    """Create a workspace with channels of each kind: open ones, one for writers, and a PRIVATE one."""
    name = admin.load.text(admin.user)
    given: Json = {"name": name[:60], "isOpen": True, "idempotencyKey": name}
    id: str = (await admin.request("createWorkspace", input=given))["id"]
    writer: str = (await admin.request("createRole", id=id, input={"name": "writer", "permissions": []}))["id"]
    workspace = Workspace(id, admin, writer, members={admin.user})
    for kind, is_default in (("PUBLIC", True), ("PUBLIC", True), ("PUBLIC", False), ("PRIVATE", False)):
        await create_channel(workspace, kind, is_default=is_default)
    news = workspace.channels[1].id
    everyone = f"r_{id.removeprefix('w_')}"
    await admin.request("setPermissionOverwrite", channel=news, role=everyone, deny=["SEND_MESSAGES"])
    await admin.request("setPermissionOverwrite", channel=news, role=writer, allow=["SEND_MESSAGES"])
    workspace.channels[1] = SharedChannel(news, needs_writer=True)
    return workspace


async def create_channel(workspace: Workspace, kind: str = "PUBLIC", *, is_default: bool = False) -> None:
    """Create a channel as the owner."""
    key = workspace.admin.load.text(workspace.admin.user)
    given = {
        "workspaceId": workspace.id,
        "name": key[:60],
        "kind": kind,
        "isDefault": is_default,
        "historyVisibility": "SINCE_JOIN" if kind == "PRIVATE" else "FULL",
        "idempotencyKey": key,
    }
    channel: str = (await workspace.admin.request("createChannel", input=given))["id"]
    if kind == "PRIVATE":
        workspace.inside[channel].add(workspace.admin.user)
    workspace.channels.append(SharedChannel(channel, is_private=kind == "PRIVATE"))

"""Compares, at the end of a run, devices, API and MongoDB with each other: everything about workspaces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.chaos.judges.channel_rights import ChannelRights
from tests.chaos.judges.final_check import read_history
from tests.chaos.judges.history import Json
from tests.chaos.judges.record import Record
from tests.chaos.load.device import Device
from tests.chaos.load.view import text_of
from tests.chaos.workspaces.channel_chain import ChannelChain
from tests.chaos.workspaces.member_device import MemberDevice
from tests.chaos.workspaces.spaces import SharedChannel, Spaces, Workspace

_MARGIN_SECONDS = 1.0


@dataclass(frozen=True)
class StoredChannels:
    """Rows of workspaces in MongoDB."""

    messages: dict[str, list[Json]]
    """By channel, in order of seq: id, seq, sender, kind, mentions."""
    members: dict[str, set[str]]
    """Members by workspace."""
    intervals: dict[str, dict[str, list[tuple[int, int]]]]
    """By channel and user; -1 for an open end. For PUBLIC channels: its followers."""


class ChannelFinalCheck:
    """The checks after the load."""

    def __init__(
        self,
        spaces: Spaces,
        members: Sequence[MemberDevice],
        devices: Sequence[Device],
        stored: Callable[[], StoredChannels],
    ) -> None:
        """Prepare. devices: those that receive mentions."""
        self.compared = 0
        self._spaces = spaces
        self._load = spaces.load
        self._members = members
        self._devices = devices
        self._read_stored = stored
        self._fresh: dict[str, Json] = {}

    async def settle(self, patience: float) -> float:
        """Wait until all agree at one time. A difference that is left after `patience` seconds is a problem."""
        began = time.monotonic()
        wrong: dict[str, list[str]] = {}
        while True:
            rights, stored = ChannelRights(Record.of(self._load.history.lines)), self._read_stored()
            left = [m for m in self._members if wrong.get(m.user)] or list(self._members)
            outcomes = await asyncio.gather(*(self._compare(member, rights, stored) for member in left))
            wrong |= {member.user: found for member, found in zip(left, outcomes, strict=True)}
            took = time.monotonic() - began
            if len(left) == len(self._members) and not any(wrong.values()):
                return took
            if took > patience:
                for sentence in [sentence for sentences in wrong.values() for sentence in sentences]:
                    self._load.tally.problem(f"workspaces, after {took:.0f} s of quiet: {sentence}")
                return took
            await asyncio.sleep(0.3)

    async def check_after_cache_loss(self) -> None:
        """Check that an empty cache changes nothing."""
        for member in self._members:
            for workspace in self._spaces.workspaces:
                cold = await _read(member, workspace)
                warm = self._fresh.get(f"{member.user} {workspace.id}")
                if warm is not None and cold != warm:
                    self._load.tally.problem(f"{member.user} {workspace.id}: warm {warm} and cold {cold} differ")

    async def _compare(self, member: MemberDevice, rights: ChannelRights, stored: StoredChannels) -> list[str]:
        if member.is_unsettled:
            return [f"{member.name}: {member.describe_unsettled()}"]
        wrong: list[str] = []
        followed: dict[str, Json] = {}
        for workspace in self._spaces.workspaces:
            fresh = await member.request("workspace", id=workspace.id)
            page = await member.request("followedChannels", id=workspace.id)
            mine = {edge["node"]["id"]: edge["node"] for edge in page["edges"]}
            followed |= mine
            self._fresh[f"{member.user} {workspace.id}"] = _settled(fresh, page)
            wrong += self._compare_rights(member.user, workspace, fresh, rights)
            wrong += self._compare_counts(member.user, workspace, fresh, rights, stored)
            view = member.views.get(workspace.id)
            is_member = fresh["viewer"] is not None
            if is_member != (view is not None):
                wrong.append(f"{workspace.id}: member {is_member}, open {view is not None}")
            elif view is not None:
                wrong += view.differences(fresh, set(mine))
            for channel in workspace.channels:
                wrong += await self._compare_history(member, workspace, channel, rights, stored)
        await member.mirror.catch_up(member)
        wrong += member.mirror.differences(followed)
        wrong += self._missing_mentions(member.user, rights)
        return [f"{member.name}: {sentence}" for sentence in wrong]

    def _compare_rights(self, user: str, workspace: Workspace, fresh: Json, rights: ChannelRights) -> list[str]:
        now, wrong = time.time(), []
        shown = {edge["node"]["id"]: edge["node"] for edge in fresh["channels"]["edges"]}
        for channel in workspace.channels:
            can_see, may_send = (
                rights.can_see(user, channel.id, now, now),
                rights.may_send(user, channel.id, now, now),
            )
            found = shown.get(channel.id)
            if can_see is not None and can_see != (found is not None):
                wrong.append(f"{channel.id} should be visible: {can_see}, is shown: {found}")
            elif found is not None and may_send not in (None, "SEND_MESSAGES" in found["viewerPermissions"]):
                wrong.append(f"{channel.id} should be writable: {may_send}, is shown: {found}")
        return wrong

    def _compare_counts(
        self, user: str, workspace: Workspace, fresh: Json, rights: ChannelRights, stored: StoredChannels
    ) -> list[str]:
        """Compare what is counted with the rows."""
        wrong = []
        if fresh["memberCount"] != len(stored.members[workspace.id]):
            wrong.append(f"{workspace.id}: memberCount {fresh['memberCount']}, stored {stored.members[workspace.id]}")
        for edge in fresh["channels"]["edges"]:
            channel = edge["node"]
            messages = [row for row in stored.messages.get(channel["id"], ()) if row["kind"] != "SYSTEM"]
            rows = stored.intervals.get(channel["id"], {})
            current = [name for name, intervals in rows.items() if intervals[-1][1] == -1]
            expected = {"messageCount": len(messages), "memberCount": len(current)}
            different = {name: (channel[name], n) for name, n in expected.items() if channel[name] != n}
            session = channel["session"]
            if session is not None:
                read = sum(row["seq"] <= session["readSeq"] for row in messages)
                if session["readCount"] != read or session["unreadCount"] != len(messages) - read:
                    different["readCount"] = (session, read)
                different |= self._compare_mentions(user, channel["id"], session, messages, rights)
            if different:
                wrong.append(f"{channel['id']}: shown and counted: {different}")
        return wrong

    def _compare_mentions(
        self, user: str, channel: str, session: Json, messages: list[Json], rights: ChannelRights
    ) -> Json:
        unread = [row["id"] for row in messages if row["seq"] > session["readSeq"] and user in row["mentions"]]
        began, now = {sent.id: sent.began for sent in self._spaces.sent.values()}, time.time()
        certain = [id for id in unread if id in began and rights.can_see(user, channel, began[id], now)]
        count = session["unreadMentionCount"]
        return {} if len(certain) <= count <= len(unread) else {"unreadMentionCount": (count, certain, unread)}

    async def _compare_history(
        self,
        member: MemberDevice,
        workspace: Workspace,
        channel: SharedChannel,
        rights: ChannelRights,
        stored: StoredChannels,
    ) -> list[str]:
        now, chain = time.time(), member.chains.get(channel.id)
        nodes = await read_history(member, channel.id)
        can_see = rights.can_see(member.user, channel.id, now, now)
        if nodes is None:
            held = [f"{channel.id}: is on the screen, and not visible"] if chain is not None else []
            return held + ([f"{channel.id}: the history is null"] if can_see else [])
        rows = stored.messages.get(channel.id, [])
        if channel.is_private:
            own = stored.intervals.get(channel.id, {}).get(member.user, [])
            rows = [row for row in rows if any(a <= row["seq"] and (b == -1 or row["seq"] <= b) for a, b in own)]
        shown, expected = [(node["id"], node["seq"]) for node in nodes], [(row["id"], row["seq"]) for row in rows]
        wrong = [] if shown == expected else [f"{channel.id}: the history is {shown}, stored are {expected}"]
        self.compared += len(nodes)
        if chain is not None:
            wrong += self._compare_chain(member.user, chain, nodes, rights)
        return wrong

    def _compare_chain(self, user: str, chain: ChannelChain, nodes: list[Json], rights: ChannelRights) -> list[str]:
        now, texts, wrong = time.time(), {node["seq"]: text_of(node) for node in nodes}, []
        for seq, held in chain.texts.items():
            if texts.get(seq) != held:
                wrong.append(f"{chain.channel} {seq}: held {held}, is {texts.get(seq)}")
        for sent in self._spaces.sent.values():
            is_due = sent.conversation == chain.channel and sent.began > chain.began
            can_see = is_due and rights.can_see(user, chain.channel, sent.began - _MARGIN_SECONDS, now)
            if can_see and sent.id not in chain.created:
                wrong.append(f"{chain.channel}: looked at since {chain.began:.3f}, and never received {sent}")
        return wrong

    def _missing_mentions(self, user: str, rights: ChannelRights) -> list[str]:
        """Return the mentions that a device of the user did not receive on the user's own clock."""
        now, wrong = time.time(), []
        for device in self._devices:
            if device.user != user or device.is_unsettled:
                continue
            for sent in self._spaces.sent.values():
                is_due = user in self._spaces.mentions[sent.id] and sent.began > device.chain.began + _MARGIN_SECONDS
                can_see = is_due and rights.can_see(user, sent.conversation, sent.began - _MARGIN_SECONDS, now)
                if can_see and sent.id not in device.chain.mentions:
                    wrong.append(f"{device.name}, since {device.chain.began:.3f}: no Mentioned of {sent}")
        return wrong


async def _read(member: MemberDevice, workspace: Workspace) -> Json:
    fresh = await member.request("workspace", id=workspace.id)
    return _settled(fresh, await member.request("followedChannels", id=workspace.id))


def _settled(fresh: Json, followed: Json) -> Json:
    """Return what may not change while nothing happens: all but revs."""

    def without_rev(edges: list[Json]) -> list[Json]:
        return [{name: value for name, value in edge["node"].items() if name != "rev"} for edge in edges]

    kept = {name: fresh[name] for name in ("name", "memberCount", "viewer")}
    return kept | {"all": without_rev(fresh["channels"]["edges"]), "followed": without_rev(followed["edges"])}

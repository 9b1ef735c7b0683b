"""Random actions, compared with a naive model: what devices show in the end is the newest message to be read."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from store.devices.device import PushPlatform
from store.sessions.fields import NotificationLevel
from tests.api.client import Api, private_id
from tests.api.conftest import OpenApi
from tests.clock import ManualClock
from tests.push.pushing import Pushing
from tests.push.recording import UNREACHABLE, RecordingService

RUNS = 40 if os.environ.get("CONFAB_TEST_LONG") == "1" else 6
ACTIONS = 60

Processes = tuple[Api, Api, ManualClock, dict[PushPlatform, RecordingService]]


@dataclass
class Sent:
    """A message of the model."""

    id: str
    seq: int
    sender: str
    text: str
    mentions: str | None
    is_recalled: bool = False


@dataclass
class Model:
    """The truth, as a reader of the API knows it."""

    messages: dict[str, list[Sent]] = field(default_factory=dict)
    read: dict[tuple[str, str], int] = field(default_factory=dict)
    muted: set[tuple[str, str]] = field(default_factory=set)
    levels: dict[str, str] = field(default_factory=dict)

    def shown(self, user: str, conversation: str) -> str | None:
        """Return the text that the devices of a user should show in the end."""
        if (user, conversation) in self.muted:
            return None
        read_seq = self.read.get((user, conversation), 0)
        for message in reversed(self.messages.get(conversation, [])):
            wanted = self.levels[user] == "ALL" or message.mentions == user
            if message.seq > read_seq and message.sender != user and wanted and not message.is_recalled:
                return message.text
        return None


@pytest.fixture(scope="module")
async def processes(open_api: OpenApi) -> AsyncIterator[Processes]:
    clock, services = ManualClock(), {PushPlatform.FCM: RecordingService()}
    async with (
        open_api("model", clock, push_services=services, workers=False) as one,
        open_api("model", clock, push_services=services, workers=False) as other,
    ):
        yield one, other, clock, services


def shown_on_devices(service: RecordingService, user: str) -> dict[str, str]:
    """Return the text that a device of a user shows of each conversation, after all its pushes."""
    shown: dict[str, str] = {}
    for push in service.to(user):
        conversation = str(push.message.conversation)
        if push.message.is_quiet:
            shown.pop(conversation, None)
        else:
            shown[conversation] = push.message.body.removeprefix(f"{push.message.body.split(': ')[0]}: ")
    return shown


@pytest.mark.parametrize("seed", range(RUNS))
async def test_devices_show_the_newest_unread_message_of_each_conversation(processes: Processes, seed: int) -> None:
    one, other, clock, services = processes
    chance, model = random.Random(seed), Model()
    workers = Pushing(one, clock, services, (other,)), Pushing(other, clock, services, (one,))
    service = services[PushPlatform.FCM]
    users = await workers[0].create_users("alice", "bob", "carol")
    group = await one.create_group(*users)
    conversations = [group, *(private_id(a, b) for a in users for b in users if a < b)]
    for user in users:
        model.levels[user] = chance.choice(["ALL", "ALL", "MENTIONS"])
        await workers[0].set(user, level=NotificationLevel(model.levels[user]))
    await workers[0].work()
    service.pushes.clear()
    for step in range(ACTIONS):
        api = chance.choice([one, other])
        user, conversation = chance.choice(users), chance.choice(conversations)
        if conversation != group and user not in conversation:
            continue
        known = model.messages.setdefault(conversation, [])
        match chance.choice(["send"] * 5 + ["read", "read", "read part", "recall", "mute", "time", "fail", "work"]):
            case "send":
                named = chance.choice([None, *users]) if conversation == group else None
                named = None if named == user else named
                peer = next((u for u in users if u != user and u in conversation), None)
                sent = (
                    await api.send(
                        user, conversation if peer is None else peer, f"n{step}", mentions=[named] if named else []
                    )
                )["message"]
                known.append(Sent(sent["id"], sent["seq"], user, f"n{step}", named))
                model.read[user, conversation] = sent["seq"]
            case "read" if known:
                await api.mark_read(user, conversation)
                model.read[user, conversation] = max(model.read.get((user, conversation), 0), known[-1].seq)
            case "read part" if known:
                seq = chance.choice(known).seq
                await api.mark_read(user, conversation, seq)
                model.read[user, conversation] = max(model.read.get((user, conversation), 0), seq)
            case "recall" if known:
                message = chance.choice(known[-3:])
                if not message.is_recalled and chance.random() < 0.7:
                    answer = await api.run(
                        message.sender, "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }", id=message.id
                    )
                    message.is_recalled = "errors" not in answer
            case "mute" if known and chance.random() < 0.2:
                await api.mute(user, conversation)
                model.muted.add((user, conversation))
            case "time":
                await chance.choice(workers).pass_time(chance.choice([1, 6, 31]))
            case "fail":
                service.answers.append(UNREACHABLE)
            case "work":
                await asyncio.gather(*(pushing.work() for pushing in workers))
        if chance.random() < 0.3:
            await api.wait_until_idle()
    for _ in range(14):
        for pushing in workers:
            await pushing.work()
        await chance.choice(workers).pass_time(32)
    for user in users:
        own = [name for name in conversations if name == group or user in name]
        expected = {name: text for name in own if (text := model.shown(user, name)) is not None}
        assert shown_on_devices(service, user) == expected, (seed, user, model.levels[user])

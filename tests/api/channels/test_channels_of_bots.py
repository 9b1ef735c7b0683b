"""Bots look at up to 1,000 channels with one subscription; others at 20."""

from __future__ import annotations

import random
from dataclasses import replace

from resolvers.live.channel_events import MAX_CHANNELS, MAX_CHANNELS_OF_BOTS
from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import channel_id
from store.conversations.conversation_fields import ConversationField
from store.mongo.collections import CHANNELS, CONVERSATIONS
from store.workspaces.documents import channel_document
from store.workspaces.permissions import Permission
from store.workspaces.policy import Channel, ChannelKind, Overwrite, Overwrites
from tests.api.channels.channel_subscriber import look_at, refused
from tests.api.client import Api, Json, Subscriber
from tests.api.sample_channels import SampleChannels, create_sample_channels


async def add_channels(sample: SampleChannels, count: int) -> list[str]:
    """Add PUBLIC channels to a workspace that nobody has used yet. Return their ids."""
    now = sample.store.clock.now_ms()
    added = [
        Channel(channel_id(sample.id, 1_000 + n), f"channel-{n}", ChannelKind.PUBLIC, 10 + n, now) for n in range(count)
    ]
    await sample.store.mongo.insert_many(CHANNELS, [channel_document(sample.id, channel) for channel in added])
    heads = {ConversationField.KIND: "C", ConversationField.SEQ: 0, ConversationField.N: 0}
    heads |= {ConversationField.MOVED_AT: now, ConversationField.WRITTEN_AT: 0}
    await sample.store.mongo.insert_many(CONVERSATIONS, [{"_id": channel.id} | heads for channel in added])
    sample.policy = replace(sample.policy, channels=sample.policy.channels | {each.id: each for each in added})
    return [str(channel.id) for channel in added]


async def look(api: Api, user: str, revs: dict[str, int | None]) -> Subscriber:
    return await look_at(api, user, *(id if rev is None else (id, rev) for id, rev in revs.items()))


async def read_until_caught_up(subscriber: Subscriber, revs: dict[str, int | None]) -> list[Json]:
    """Return the missed events. Every channel has to be caught up after them, once and without a reset."""
    missed, caught_up = list[Json](), dict[str, int | None]()
    while len(caught_up) < len(revs):
        event = await subscriber.next()
        if event["__typename"] != "ChannelCaughtUp":
            assert not caught_up
            missed.append(event)
            continue
        assert event["reset"] is False
        caught_up[event["conversationId"]] = event["rev"]
    assert caught_up.keys() == revs.keys()
    revs |= caught_up
    return missed


async def test_a_bot_looks_at_a_thousand_channels(api: Api, other_api: Api) -> None:
    sample = await create_sample_channels(api)
    bot, writer = sample.other, sample.member
    group = await api.create_group(writer, bot, sample.admin)
    channels = [group, *await add_channels(sample, MAX_CHANNELS_OF_BOTS - 1)]
    await api.upsert_users({"id": bot, "displayName": "Bot", "isBot": True})
    revs: dict[str, int | None] = dict.fromkeys(channels)
    subscriber = await look(api, bot, revs)
    assert await read_until_caught_up(subscriber, revs) == []
    chosen = [group, *random.sample(channels[1:], 20)]
    for number, channel in enumerate(chosen):
        await (api, other_api)[number % 2].send(writer, channel, str(number), contentType="BOT_COMMAND")
    for number, channel in enumerate(chosen):
        event = await subscriber.next()
        assert (event["conversationId"], event["message"]["content"]) == (channel, str(number))
        revs[channel] = event["rev"]
    await subscriber.stop()
    missing = [group, *random.sample(channels[1:], 20)]
    for number, channel in enumerate(missing):
        await api.send(writer, channel, f"missed {number}")
    for process in (other_api, api):
        positions = dict(revs)
        again = await look(process, bot, positions)
        missed = await read_until_caught_up(again, positions)
        assert [(each["conversationId"], each["message"]["content"]) for each in missed] == [
            (channel, f"missed {number}") for number, channel in enumerate(missing)
        ]
        await again.stop()
    last = await look(other_api, bot, dict.fromkeys(channels))
    await read_until_caught_up(last, dict.fromkeys(channels))
    hidden, shown = channels[3], channels[4]
    overwrites = Overwrites({}, {UserId(bot): Overwrite(deny=Permission.VIEW_CHANNEL)})
    await sample.change_channel(ConversationId(hidden), overwrites=overwrites)
    await api.send(sample.owner, hidden, "not for the bot")
    await api.send(writer, shown, "for the bot")
    ended, created = await last.next(), await last.next()
    assert ended == {"__typename": "AccessEnded", "conversationId": hidden}
    assert created["message"]["content"] == "for the bot"
    await last.expect_no_event()


async def test_only_bots_look_at_more_than_twenty_channels(api: Api) -> None:
    sample = await create_sample_channels(api)
    channels = await add_channels(sample, MAX_CHANNELS + 1)
    user, too_many = sample.other, ("INVALID_INPUT", "channels")
    assert await refused(api, user, *channels) == too_many
    await api.upsert_users({"id": user, "displayName": "Bot", "isBot": True})
    await look_at(api, user, *channels)
    assert await refused(api, user, *(f"c_1.{number}" for number in range(MAX_CHANNELS_OF_BOTS + 1))) == too_many
    # One that it cannot see is refused as for everybody.
    assert await refused(api, user, *channels, str(sample.staff)) == ("NOT_FOUND", "channels")
    await api.upsert_users({"id": user, "displayName": "Person"})
    assert await refused(api, user, *channels) == too_many

"""Sessions in channels are a part of users' states that is loaded when it is needed, and ends with the channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from resolvers.users.callers import CallerRole
from store.base.ids import UserId
from store.channels.channel_removal import DELAY_MS
from store.redis.cache import Call
from store.redis.keys import CHANNEL_KEYS, USER_KEYS
from store.sessions.session_rows import SessionRows
from store.workspaces.permissions import Permission
from tests.api.channels.calls import ADD as ADD_MEMBERS
from tests.api.channels.calls import DELETE, Made
from tests.api.channels.session_calls import (
    ADD,
    ATTENTION,
    FOLLOW,
    LIVE,
    MUTE,
    READ,
    SYNC_CHANNELS,
    UNREAD,
    attention_of,
    change,
    followed_by,
    session_of,
)
from tests.api.client import Api, make_caller
from tests.api.sample_channels import SampleChannels

MENTIONS = """subscription { messageEvents {
    __typename ... on Mentioned { message { conversationId seq } } ... on CaughtUp { reset } } }"""
SESSIONS = "{ sessions(first: 20) { edges { node { id } } totalUnread cursor } }"


async def drop(api: Api, user: str, *names: str) -> None:
    """Remove keys of a user from Redis; none: all of them."""
    store = api.services.app.store
    keys = [store.keys.of_user(UserId(user), name) for name in names or (*USER_KEYS, *CHANNEL_KEYS)]
    await store.cache.one(Call("DEL", tuple(keys)))


async def has_channels(api: Api, user: str) -> bool:
    """Return whether a user's sessions in channels are cached."""
    store = api.services.app.store
    key = store.keys.of_user(UserId(user), "meta")
    return (await store.cache.one(Call("HGET", (key,), ("channels",)))) is not None


async def _hide(workspace: SampleChannels) -> None:
    await workspace.overwrite(workspace.staff, workspace.member, Permission.VIEW_CHANNEL)


async def _remove_from_channel(workspace: SampleChannels) -> None:
    await workspace.remove_from_staff(workspace.member)


async def _remove_from_workspace(workspace: SampleChannels) -> None:
    await workspace.remove(workspace.member)


@pytest.mark.parametrize("end", [_hide, _remove_from_channel, _remove_from_workspace])
async def test_mentions_where_access_has_ended_do_not_count(
    api: Api, other_api: Api, workspace: SampleChannels, end: Callable[[SampleChannels], Awaitable[None]]
) -> None:
    await api.send(workspace.moderator, workspace.staff, mentions=[workspace.member])
    since = (await api.data(workspace.member, SYNC_CHANNELS))["syncChannels"]["cursor"]
    assert await attention_of(api, workspace.member) == (0, 1)
    await end(workspace)
    for process in (api, other_api):
        assert await attention_of(process, workspace.member) == (0, 0)
        delta = (await process.data(workspace.member, SYNC_CHANNELS, since=since))["syncChannels"]
        assert delta["attention"] == {"unread": 0, "mentions": 0}
    await drop(api, workspace.member)
    assert await attention_of(api, workspace.member) == (0, 0)


async def test_mentions_count_again_when_access_is_back(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.moderator, workspace.general, mentions=[workspace.member])
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    assert await attention_of(api, workspace.member) == (0, 0)
    assert (await api.expect_refusal(workspace.member, READ, id=workspace.general)).code == "NOT_FOUND"
    await workspace.overwrite(workspace.general, workspace.member, Permission(0))
    assert await attention_of(api, workspace.member) == (0, 1)
    await change(api, workspace.member, READ, id=workspace.general)
    assert await attention_of(api, workspace.member) == (0, 0)


async def test_mentions_in_an_archived_channel_can_be_read(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.moderator, workspace.general, mentions=[workspace.member])
    await workspace.change_channel(workspace.general, is_archived=True)
    assert await attention_of(api, workspace.member) == (0, 1)
    await change(api, workspace.member, READ, id=workspace.general)
    assert await attention_of(api, workspace.member) == (0, 0)


async def test_the_sessions_of_a_deleted_channel_are_removed(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.channels.channel_contents.ROWS_PER_STEP", 2)
    reader, muter, marker = await api.create_users("reader", "muter", "marker")
    service = make_caller("service", CallerRole.SERVICE)
    await api.data(service, ADD_MEMBERS, id=made.id, users=[reader, muter, marker])
    channel, kept = (await made.create())["id"], (await made.create("kept"))["id"]
    await api.send(made.owner, channel, mentions=[made.member])
    await change(api, reader, READ, id=channel)
    await change(api, muter, MUTE, id=channel, muted=True, until="2099-01-01T00:00:00Z")
    await change(api, marker, UNREAD, id=channel)
    await change(api, marker, UNREAD, id=kept)
    assert await attention_of(api, made.member) == (0, 1)
    assert (await api.data(made.owner, DELETE, id=channel))["deleteChannel"]
    assert await attention_of(api, made.member) == (0, 0)
    store = api.services.app.store
    at = {"at": store.clock.now_ms() - DELAY_MS}
    await store.mongo.update_one("removals", {"_id": channel}, {"$set": at})
    with monkeypatch.context() as dying:
        # The server dies after the first rows are marked.
        dying.setattr(store.channel_removal._contents._cache, "run", _dies)
        with pytest.raises(RuntimeError):
            await store.channel_removal.remove_due()
    await store.mongo.update_one("removals", {"_id": channel}, {"$set": at})
    await drop(api, reader)
    await session_of(api, reader, kept)
    assert await store.channel_removal.remove_due() == 1
    assert not [row for row in (await api.stored_documents())["sessions"] if channel in row]
    for user in (made.owner, made.member, reader, muter, marker):
        await api.data(user, ATTENTION)
        keys = [store.keys.of_user(UserId(user), name) for name in ("channels", "channel_index", "mutes")]
        records, index, mutes = await store.cache.run(
            [Call("HKEYS", (keys[0],)), Call("ZRANGE", (keys[1],), (0, -1)), Call("ZRANGE", (keys[2],), (0, -1))]
        )
        assert channel.encode() not in {*records, *index, *mutes}
    assert await session_of(api, marker, kept) is not None


async def _dies(*_: object) -> None:
    raise RuntimeError("the server died")


async def test_what_concerns_no_channel_loads_no_sessions_in_channels(api: Api, workspace: SampleChannels) -> None:
    member, other = workspace.member, workspace.other
    await change(api, member, FOLLOW, id=workspace.general)
    await api.send(other, member)
    await drop(api, member)
    since = (await api.data(member, SESSIONS))["sessions"]["cursor"]
    await api.send(other, member)
    await api.data(member, "query ($since: Cursor) { syncSessions(since: $since) { cursor } totalUnread }", since=since)
    await api.mark_read(member, (await api.data(member, "{ sessions { edges { node { conversation { id } } } } }"))
                        ["sessions"]["edges"][0]["node"]["conversation"]["id"])  # fmt: skip
    assert not await has_channels(api, member)
    assert await followed_by(api, member, workspace.id) == [workspace.general]
    assert await has_channels(api, member)


async def test_changes_while_no_sessions_in_channels_are_loaded_reach_devices(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    member, general = workspace.member, workspace.general
    await change(api, member, MUTE, id=general, muted=True)
    await drop(api, member)
    mentions, sessions = await other_api.listen(member, MENTIONS), await other_api.listen(member, LIVE)
    since = (await api.data(member, SESSIONS))["sessions"]["cursor"]
    await api.send(workspace.moderator, general, mentions=[member])
    assert (await mentions.next())["message"] == {"conversationId": general, "seq": 1}
    assert not await has_channels(api, member)
    delta = (await api.data(member, SYNC_CHANNELS, since=since))["syncChannels"]
    assert not delta["reset"] and delta["gone"] == [general]
    await drop(api, member)
    await api.data(member, SESSIONS)
    await other_api.services.app.hub.check_feeds()
    while not (await sessions.next())["reset"]:
        pass
    await api.send(member, general)
    event = await sessions.next()
    assert (event["reason"], event["sessions"][0]["readSeq"]) == ("READ", 2)
    assert event["sessions"][0]["muteStatus"]


async def test_a_member_who_is_added_elsewhere_gets_the_session(api: Api, other_api: Api, made: Made) -> None:
    channel = (await made.create())["id"]
    device = await other_api.listen(made.member, LIVE)
    await drop(api, made.member, *CHANNEL_KEYS)
    await change(api, made.owner, ADD, id=channel, users=[made.member])
    event = await device.next()
    assert (event["reason"], [each["conversation"]["id"] for each in event["sessions"]]) == ("MEMBERSHIP", [channel])


async def test_mentions_during_a_load_of_sessions_in_channels_are_kept(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, general = workspace.member, workspace.general
    await change(api, member, FOLLOW, id=general)
    await api.send(workspace.other, general, mentions=[member])
    await drop(api, member)
    since = (await api.data(member, SESSIONS))["sessions"]["cursor"]
    read, reads = SessionRows.read_channels, 0

    async def read_then_mention(rows: SessionRows, user: UserId) -> object:
        nonlocal reads
        found = await read(rows, user)
        reads += 1
        await api.send(workspace.other, general, mentions=[member])
        await api.wait_until_idle()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(SessionRows, "read_channels", read_then_mention)
        assert await attention_of(api, member) == (0, 2)
    assert reads == 1
    delta = (await api.data(member, SYNC_CHANNELS, since=since))["syncChannels"]
    assert [each["session"]["unreadMentionCount"] for each in delta["channels"]] == [2]
    await drop(api, member)
    assert await attention_of(api, member) == (0, 2)


@pytest.mark.parametrize("name", CHANNEL_KEYS[:3])
async def test_an_eviction_of_sessions_in_channels_is_noticed(api: Api, workspace: SampleChannels, name: str) -> None:
    member, general = workspace.member, workspace.general
    await change(api, member, FOLLOW, id=general)
    await change(api, member, MUTE, id=general, muted=True, until="2099-01-01T00:00:00Z")
    await api.send(workspace.other, general, mentions=[member])
    for ask in (
        lambda: followed_by(api, member, workspace.id),
        lambda: change(api, member, MUTE, id=general, muted=False),
        lambda: api.send(workspace.other, general, mentions=[member]),
    ):
        await drop(api, member, name)
        await ask()
        assert await followed_by(api, member, workspace.id) == [general]
    assert await attention_of(api, member) == (0, 2)

"""The number of channels that a user follows in one workspace, and users who follow in parts."""

from __future__ import annotations

from typing import Any

import pytest

from store.channels import channel_follows
from tests.api.channels.calls import CREATE, Made
from tests.api.channels.follow_calls import join, rows_of
from tests.api.channels.session_calls import ADD, FOLLOW, READ_ALL, attention_of, change, followed_by
from tests.api.client import Api, Refusal


@pytest.fixture
async def channels(api: Api, made: Made, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three channels in a workspace where each user follows at most two. The member follows two."""
    names = [(await made.create(f"channel {number}"))["id"] for number in range(3)]
    for name in names[:2]:
        await change(api, made.member, FOLLOW, id=name)
    monkeypatch.setattr(channel_follows, "MAX_FOLLOWED", 2)
    await change(api, made.owner, FOLLOW, id=names[0], follow=False)
    return names


async def test_nobody_is_added_if_one_follows_too_many(api: Api, made: Made, channels: list[str]) -> None:
    await join(made, made.outsider)
    await change(api, made.owner, FOLLOW, id=channels[1], follow=False)
    private = (await made.create("private", kind="PRIVATE"))["id"]
    before = await api.stored_hashes()
    for channel in (channels[2], private):
        refusal = await api.expect_refusal(made.owner, ADD, id=channel, users=[made.outsider, made.member])
        assert refusal == Refusal("LIMIT_REACHED", "userIds")
    assert await api.stored_hashes() == before
    # Users who follow the channel already are not counted.
    added = await change(api, made.owner, ADD, id=channels[0], users=[made.member, made.outsider])
    assert added["memberCount"] == len(rows_of(api, channels[0])) == 2


@pytest.mark.parametrize("kind", ["PUBLIC", "PRIVATE"])
async def test_a_new_channel_has_no_members_who_follow_too_many(
    api: Api, made: Made, channels: list[str], kind: str
) -> None:
    before = await api.stored_hashes()
    fields = {"workspaceId": made.id, "name": "new", "kind": kind, "memberIds": [made.member]}
    refusal = await api.expect_refusal(made.owner, CREATE, input=fields)
    assert refusal == Refusal("LIMIT_REACHED", "memberIds")
    assert await api.stored_hashes() == before


async def test_creators_follow_new_channels_up_to_the_limit(api: Api, made: Made, channels: list[str]) -> None:
    before = await api.stored_hashes()
    refusal = await made.refuse_create(made.owner, "private", kind="PRIVATE")
    assert refusal == Refusal("LIMIT_REACHED", "memberIds")
    assert await api.stored_hashes() == before
    created = await made.create("public")
    assert rows_of(api, created["id"]) == set()
    assert await followed_by(api, made.owner, made.id) == channels[1:]


async def test_a_change_of_the_kind_changes_no_number_of_followed_channels(
    api: Api, made: Made, channels: list[str]
) -> None:
    for kind in ("PRIVATE", "PUBLIC"):
        await made.update(channels[1], kind=kind)
        assert rows_of(api, channels[1]) == {made.owner, made.member}
        assert await followed_by(api, made.member, made.id) == channels[:2]


async def test_new_members_follow_the_first_default_channels(api: Api, made: Made, channels: list[str]) -> None:
    for channel in channels:
        await made.update(channel, isDefault=True)
    await join(made, made.outsider)
    assert await followed_by(api, made.outsider, made.id) == channels[:2]
    assert made.outsider not in rows_of(api, channels[2])


async def test_a_deleted_channel_is_not_counted(api: Api, made: Made, channels: list[str]) -> None:
    await api.data(made.owner, "mutation ($id: ID!) { deleteChannel(channelId: $id) }", id=channels[0])
    await change(api, made.member, FOLLOW, id=channels[2])
    assert await followed_by(api, made.member, made.id) == channels[1:]


async def test_all_followed_channels_are_read_however_many_they_are(
    api: Api, made: Made, channels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_follows, "MAX_FOLLOWED", 500)
    await change(api, made.member, FOLLOW, id=channels[2])
    monkeypatch.setattr(channel_follows, "MAX_FOLLOWED", 1)
    for channel in channels:
        await api.send(made.owner, channel, mentions=[made.member])
    await change(api, made.member, READ_ALL, id=made.id)
    assert await attention_of(api, made.member) == (0, 0)


async def test_many_followers_are_added_in_few_transactions(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = await api.create_many_users("many", 2 * channel_follows.USERS_AT_ONCE + 1)
    await join(made, *users)
    channel = (await made.create())["id"]
    await change(api, users[0], FOLLOW, id=channel)
    device = await api.listen(users[1], "subscription { syncSession { reset sessions { conversation { id } } } }")
    app, events, transactions = api.services.app, list[Any](), 0
    append, transaction = app.shared_events.append, app.store.mongo.transaction

    async def count_events(event: Any) -> Any:
        events.append(event)
        return await append(event)

    async def count_transactions(work: Any) -> None:
        nonlocal transactions
        transactions += 1
        await transaction(work)

    monkeypatch.setattr(app.shared_events, "append", count_events)
    monkeypatch.setattr(app.store.mongo, "transaction", count_transactions)
    added = await change(api, made.owner, ADD, id=channel, users=users)
    assert (len(events), transactions) == (3, 3)
    assert [follow[0] for event in events for follow in event.follows] == sorted(users[1:])
    assert added["memberCount"] == len(rows_of(api, channel)) == len(users) + 1
    assert (await device.next())["sessions"] == [{"conversation": {"id": channel}}]
    before = await api.stored_hashes()
    await change(api, made.owner, ADD, id=channel, users=users)
    assert await api.stored_hashes() == before and len(events) == 3

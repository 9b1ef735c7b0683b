"""Bans from workspaces: what they prevent, how they end, and how they are listed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.api.channels.channel_subscriber import live
from tests.api.client import Api, Refusal, gather_all
from tests.api.conftest import OpenApi
from tests.api.moderation.calls import BAN, BANS, UNBAN, ban, banned_users, entries, later, unban
from tests.api.moderation.conftest import People
from tests.api.workspaces.calls import (
    ADD,
    JOIN,
    SERVICE,
    add_members,
    create_invite,
    create_workspace,
    expect_right_counts,
    member_ids,
)
from tests.clock import DAY_MS, ManualClock

BANNED = Refusal("BANNED")


async def test_a_banned_member_is_out_at_once_and_cannot_join(api: Api, other_api: Api, people: People) -> None:
    code = await create_invite(api, people.owner, people.workspace)
    stream, _ = await live(other_api, people.member, people.channel)
    given = await ban(api, people.moderator, people.workspace, people.member, reason="spam")
    assert (given["user"]["id"], given["by"]["id"], given["until"], given["reason"]) == (
        people.member,
        people.moderator,
        None,
        "spam",
    )
    await api.send(people.owner, people.channel, "without them")
    assert (await stream.next())["__typename"] == "AccessEnded"
    await stream.expect_no_event()
    before = await api.stored_hashes()
    for where in (api, other_api):
        assert await where.expect_refusal(people.member, JOIN, id=people.workspace) == BANNED
        assert await where.expect_refusal(people.member, JOIN, code=code) == BANNED
        refusal = await where.expect_refusal(SERVICE, ADD, id=people.workspace, users=[people.outsider, people.member])
        assert refusal == Refusal("BANNED", "userIds")
    assert await api.stored_hashes() == before
    assert people.member not in await member_ids(api, people.owner, people.workspace)
    expect_right_counts(api, people.workspace)
    (entry,) = entries(api, people.workspace, "banUser")
    assert (entry["u"], entry["t"], entry["f"]) == (
        people.moderator,
        people.member,
        {"until": None, "reason": "spam", "deleteSeconds": 0},
    )


async def test_a_ban_tells_nobody_about_a_closed_workspace(api: Api) -> None:
    owner, user = await api.create_users("owner", "user")
    workspace = await create_workspace(api, owner)
    await ban(api, owner, workspace, user)
    assert await api.expect_refusal(user, JOIN, id=workspace) == Refusal("NOT_FOUND", "workspaceId")
    code = await create_invite(api, owner, workspace, maxUses=1)
    assert await api.expect_refusal(user, JOIN, code=code) == BANNED
    assert await unban(api, owner, workspace, user) is True
    # The refused attempt has not used the invitation.
    await api.data(user, JOIN, code=code)


async def test_users_who_are_no_members_may_be_banned_and_unbanned(api: Api, people: People) -> None:
    await ban(api, people.helper, people.workspace, people.outsider)
    assert await api.expect_refusal(people.outsider, JOIN, id=people.workspace) == BANNED
    assert await unban(api, people.moderator, people.workspace, people.outsider) is True
    before = await api.stored_hashes()
    assert await unban(api, people.moderator, people.workspace, people.outsider) is False
    refusal = await api.expect_refusal(people.moderator, BAN, id=people.workspace, user="nobody")
    assert refusal == Refusal("NOT_FOUND", "userId")
    assert await api.stored_hashes() == before
    await api.data(people.outsider, JOIN, id=people.workspace)
    assert [entry["t"] for entry in entries(api, people.workspace, "unbanUser")] == [people.outsider]


async def test_a_repeated_ban_replaces_end_and_reason(api: Api, people: People) -> None:
    first = await ban(api, people.helper, people.workspace, people.outsider, reason="one")
    until = later(days=1)
    second = await ban(api, people.moderator, people.workspace, people.outsider, until=until, reason="two")
    assert (second["reason"], second["by"]["id"]) == ("two", people.moderator)
    assert second["createdAt"] == first["createdAt"]
    assert datetime.fromisoformat(second["until"]) == datetime.fromisoformat(until)
    before = await api.stored_hashes()
    assert await ban(api, people.helper, people.workspace, people.outsider, until=until, reason="two") == second
    assert await api.stored_hashes() == before
    third = await ban(api, people.helper, people.workspace, people.outsider)
    assert (third["reason"], third["until"]) == (None, None)
    notes = entries(api, people.workspace, "banUser")
    assert [note.get("b") for note in notes] == [
        None,
        {"until": None, "reason": "one"},
        {"until": second["until"], "reason": "two"},
    ]


async def test_bans_are_listed_in_pages_for_those_who_may_ban(api: Api, other_api: Api, people: People) -> None:
    users = await api.create_users("u1", "u2", "u3")
    for user in reversed(users):
        await ban(api, people.moderator, people.workspace, user)
    for size in (1, 2, 50):
        assert await banned_users(other_api, people.helper, people.workspace, size) == users
    assert await api.expect_refusal(people.member, BANS, id=people.workspace) == Refusal("FORBIDDEN")
    for outside in (people.outsider, users[0]):
        assert await api.expect_refusal(outside, BANS, id=people.workspace) == Refusal("NOT_FOUND", "workspaceId")
    for arguments in ({"first": 0}, {"first": 101}):
        refusal = await api.expect_refusal(people.helper, BANS, id=people.workspace, **arguments)
        assert refusal == Refusal("INVALID_INPUT", "first")
    refusal = await api.expect_refusal(people.helper, BANS, id=people.workspace, after="x")
    assert refusal == Refusal("INVALID_INPUT", "after")


async def test_members_without_the_right_neither_ban_nor_unban(api: Api, people: People) -> None:
    await ban(api, people.moderator, people.workspace, people.outsider)
    before = await api.stored_hashes()
    for document in (BAN, UNBAN):
        for actor, code in ((people.member, "FORBIDDEN"), (people.outsider, "NOT_FOUND")):
            variables: dict[str, Any] = {"id": people.workspace, "user": people.outsider}
            assert (await api.expect_refusal(actor, document, **variables)).code == code
    assert await api.stored_hashes() == before


async def test_a_ban_with_an_end_ends_by_itself(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("ending", clock) as api:
        owner, user = await api.create_users("owner", "user")
        workspace = await create_workspace(api, owner, isOpen=True)
        end = datetime.fromtimestamp((clock.now_ms() + 60_000) / 1000, UTC).isoformat()
        first = await ban(api, owner, workspace, user, until=end)
        assert await banned_users(api, owner, workspace) == [user]
        await api.advance_days(clock, 60_000 / DAY_MS)
        assert await banned_users(api, owner, workspace) == []
        assert await unban(api, owner, workspace, user) is False
        await api.data(user, JOIN, id=workspace)
        again = await ban(api, owner, workspace, user)
        assert again["createdAt"] != first["createdAt"]


async def test_a_user_who_joins_during_a_ban_does_not_stay_a_member(api: Api, other_api: Api) -> None:
    owner, *users = await api.create_users("owner", *(f"u{number}" for number in range(8)))
    workspace = await create_workspace(api, owner, isOpen=True)
    codes = [await create_invite(api, owner, workspace) for _ in users]

    async def join(where: Api, user: str, **how: Any) -> None:
        answer = await where.run(user, JOIN, **how)
        if "errors" in answer:
            assert {error["extensions"]["code"] for error in answer["errors"]} == {"BANNED"}

    for user, code in zip(users, codes, strict=True):
        await gather_all(
            join(api, user, id=workspace),
            ban(other_api, owner, workspace, user),
            join(other_api, user, code=code),
            join(api, user, code=code),
            _add(api, workspace, user),
        )
    assert await member_ids(api, owner, workspace) == [owner]
    assert await banned_users(api, owner, workspace) == users
    expect_right_counts(api, workspace)


async def _add(api: Api, workspace: str, user: str) -> None:
    answer = await api.run(SERVICE, ADD, id=workspace, users=[user])
    if "errors" in answer:
        assert {error["extensions"]["code"] for error in answer["errors"]} == {"BANNED"}


async def test_a_banned_member_of_a_default_channel_follows_nothing(api: Api, people: People) -> None:
    await ban(api, people.moderator, people.workspace, people.member)
    await unban(api, people.moderator, people.workspace, people.member)
    await add_members(api, people.workspace, people.member)
    assert people.member in await member_ids(api, people.owner, people.workspace)

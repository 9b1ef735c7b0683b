"""Kicks and time-outs: rights, and their effect on members."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.api.channels.channel_subscriber import live
from tests.api.client import SEND, Api, Refusal, message_input
from tests.api.conftest import OpenApi
from tests.api.moderation.calls import BAN, BANS, KICK, TIME_OUT, entries, later, time_out, unban
from tests.api.moderation.conftest import People
from tests.api.reactions.calls import ADD as REACT
from tests.api.workspaces.calls import (
    JOIN,
    LEAVE,
    add_members,
    create_workspace,
    expect_right_counts,
    member_ids,
    workspace_of,
)
from tests.api.workspaces.role_calls import add_channel, permissions_in
from tests.clock import DAY_MS, ManualClock

OPERATIONS = {"kick": KICK, "ban": BAN, "time-out": TIME_OUT}
TYPE = "mutation ($id: ID!) { startTyping(conversationId: $id) }"


@pytest.mark.parametrize("document", OPERATIONS.values(), ids=list(OPERATIONS))
@pytest.mark.parametrize(
    ("actor", "target", "refusal"),
    [
        ("moderator", "owner", Refusal("FORBIDDEN", "userId")),
        ("moderator", "peer", Refusal("FORBIDDEN", "userId")),
        ("helper", "moderator", Refusal("FORBIDDEN", "userId")),
        ("moderator", "moderator", Refusal("INVALID_INPUT", "userId")),
        ("owner", "owner", Refusal("INVALID_INPUT", "userId")),
        ("member", "helper", Refusal("FORBIDDEN")),
        ("member", "member", Refusal("FORBIDDEN")),
        ("outsider", "member", Refusal("NOT_FOUND", "workspaceId")),
    ],
)
async def test_only_members_below_are_moderated(
    api: Api, people: People, document: str, actor: str, target: str, refusal: Refusal
) -> None:
    before = await api.stored_hashes()
    variables: dict[str, Any] = {"id": people.workspace, "user": getattr(people, target)}
    assert await api.expect_refusal(getattr(people, actor), document, **variables) == refusal
    assert await api.stored_hashes() == before


@pytest.mark.parametrize("document", [KICK, TIME_OUT], ids=["kick", "time-out"])
async def test_users_who_are_no_members_are_not_kicked_or_timed_out(api: Api, people: People, document: str) -> None:
    before = await api.stored_hashes()
    for user in (people.outsider, "nobody", ""):
        refusal = await api.expect_refusal(people.moderator, document, id=people.workspace, user=user)
        assert refusal == Refusal("NOT_A_MEMBER", "userId")
    assert await api.stored_hashes() == before


@pytest.mark.parametrize(
    ("document", "variables", "field"),
    [
        (KICK, {"reason": "x" * 501}, "reason"),
        (BAN, {"reason": "a\0b"}, "reason"),
        (BAN, {"until": later(seconds=-1)}, "until"),
        (BAN, {"delete": -1}, "deleteSeconds"),
        (BAN, {"delete": 604_801}, "deleteSeconds"),
        (TIME_OUT, {"until": later(seconds=-1)}, "until"),
        (TIME_OUT, {"until": later(days=29)}, "until"),
    ],
)
async def test_bad_input_changes_nothing(
    api: Api, people: People, document: str, variables: dict[str, Any], field: str
) -> None:
    before = await api.stored_hashes()
    refusal = await api.expect_refusal(people.moderator, document, id=people.workspace, user=people.member, **variables)
    assert refusal == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == before


async def test_a_kicked_member_is_out_at_once_and_may_join_again(api: Api, other_api: Api, people: People) -> None:
    stream, _ = await live(other_api, people.member, people.channel)
    assert await api.data(people.moderator, KICK, id=people.workspace, user=people.member, reason="spam") == {
        "kickMember": True
    }
    await api.send(people.owner, people.channel, "without them")
    assert (await stream.next())["__typename"] == "AccessEnded"
    await stream.expect_no_event()
    for where in (api, other_api):
        assert await where.expect_send_refusal(people.member, people.channel) == Refusal("NOT_FOUND", "conversationId")
        assert people.member not in await member_ids(where, people.owner, people.workspace)
    (entry,) = entries(api, people.workspace, "kickMember")
    assert (entry["u"], entry["t"], entry["r"]) == (people.moderator, people.member, "spam")
    expect_right_counts(api, people.workspace)
    assert (await api.data(people.member, JOIN, id=people.workspace))["joinWorkspace"]["id"] == people.workspace


async def test_a_timed_out_member_only_reads_and_the_answer_shows_it(api: Api, other_api: Api, people: People) -> None:
    message = (await api.send(people.owner, people.channel))["message"]["id"]
    until = later(hours=1)
    shown = await time_out(api, people.moderator, people.workspace, people.member, until)
    assert shown is not None and datetime.fromisoformat(shown) == datetime.fromisoformat(until)
    for where in (api, other_api):
        assert await permissions_in(where, people.member, people.channel) == {"VIEW_CHANNEL", "READ_HISTORY"}
        refused = Refusal("FORBIDDEN", "conversationId")
        assert (await where.expect_send_refusal(people.member, people.channel)).code == refused.code
        assert (await where.expect_send_refusal(people.member, message)).code == "FORBIDDEN"
        assert (await where.expect_refusal(people.member, REACT, id=message, emoji=":wave:")).code == "FORBIDDEN"
        assert (await where.expect_refusal(people.member, TYPE, id=people.channel)).code == "FORBIDDEN"
    assert await time_out(api, people.moderator, people.workspace, people.member, None) is None
    await other_api.send(people.member, people.channel)
    notes = entries(api, people.workspace, "timeoutMember")
    assert [(note["b"], note["f"]) for note in notes] == [
        ({"timedOutUntil": None}, {"timedOutUntil": shown}),
        ({"timedOutUntil": shown}, {"timedOutUntil": None}),
    ]


async def test_the_same_time_again_changes_nothing(api: Api, people: People) -> None:
    until = later(hours=1)
    await time_out(api, people.moderator, people.workspace, people.member, until)
    before = await api.stored_hashes()
    await time_out(api, people.moderator, people.workspace, people.member, until)
    await time_out(api, people.moderator, people.workspace, people.helper, None)
    assert await api.stored_hashes() == before


OWN = """subscription ($id: ID!) { workspaceEvents(workspaces: [{id: $id}]) {
    __typename ... on OwnMembershipChanged { member { timedOutUntil } } } }"""


async def test_the_devices_of_the_member_get_the_time_out(api: Api, other_api: Api, people: People) -> None:
    own = await other_api.subscribe(people.member, OWN, id=people.workspace)
    assert (await own.next())["__typename"] == "WorkspaceCaughtUp"
    shown = await time_out(api, people.moderator, people.workspace, people.member, later(minutes=5))
    assert await own.next() == {"__typename": "OwnMembershipChanged", "member": {"timedOutUntil": shown}}


async def test_a_time_out_ends_by_itself_without_a_write(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("timed", clock) as api:
        owner, member = await api.create_users("owner", "member")
        workspace = await create_workspace(api, owner)
        await add_members(api, workspace, member)
        channel = await add_channel(api, workspace)
        end = datetime.fromtimestamp((clock.now_ms() + 600_000) / 1000, UTC).isoformat()
        await time_out(api, owner, workspace, member, end)
        assert (await api.expect_refusal(member, SEND, input=message_input(channel))).code == "FORBIDDEN"
        version = api.database["workspaces"].find_one({"_id": workspace})
        await api.advance_days(clock, 600_000 / DAY_MS)
        await api.send(member, channel)
        assert api.database["workspaces"].find_one({"_id": workspace}) == version
        found = await workspace_of(api, member, workspace)
        assert found is not None and found["viewer"]["timedOutUntil"] is None


async def test_a_time_out_goes_on_after_leaving_or_a_kick_and_joining_again(
    api: Api, other_api: Api, people: People
) -> None:
    until = await time_out(api, people.moderator, people.workspace, people.member, later(hours=1))
    shown = f'{{ workspace(id: "{people.workspace}") {{ viewer {{ timedOutUntil }} }} }}'
    for document, actor in ((LEAVE, people.member), (KICK, people.moderator)):
        await api.data(actor, document, id=people.workspace, user=people.member)
        # It is no ban.
        assert await api.data(people.moderator, BANS, id=people.workspace) == {
            "bans": {"edges": [], "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, "endCursor": None}}
        }
        assert await unban(api, people.moderator, people.workspace, people.outsider) is False
        await other_api.data(people.member, JOIN, id=people.workspace)
        assert (await api.data(people.member, shown))["workspace"]["viewer"]["timedOutUntil"] == until
        for where in (api, other_api):
            assert await where.expect_send_refusal(people.member, people.channel) == Refusal(
                "FORBIDDEN", "conversationId"
            )
    assert await time_out(api, people.moderator, people.workspace, people.member, None) is None
    await api.data(people.member, LEAVE, id=people.workspace)
    await api.data(people.member, JOIN, id=people.workspace)
    await api.send(people.member, people.channel, "a time-out that was ended does not come back")
    assert api.database["bans"].count_documents({"_id": {"$regex": f"^{people.workspace} "}}) == 0


async def test_a_kept_time_out_ends_by_itself_and_with_the_lift_of_a_ban(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("kept", clock) as api:
        owner, alice, bob = await api.create_users("owner", "alice", "bob")
        workspace = await create_workspace(api, owner, isOpen=True)
        await add_members(api, workspace, alice, bob)
        channel = await add_channel(api, workspace)
        end = datetime.fromtimestamp((clock.now_ms() + 60_000) / 1000, UTC).isoformat()
        for user in (alice, bob):
            await time_out(api, owner, workspace, user, end)
        await api.data(alice, LEAVE, id=workspace)
        await api.data(owner, BAN, id=workspace, user=bob)
        assert await unban(api, owner, workspace, bob) is True
        await api.data(bob, JOIN, id=workspace)
        await api.send(bob, channel)
        await api.advance_days(clock, 60_000 / DAY_MS)
        await api.data(alice, JOIN, id=workspace)
        await api.send(alice, channel)

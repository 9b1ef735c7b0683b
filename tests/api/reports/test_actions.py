"""Resolving reports: each action with its permission, on the author or the reported user."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resolvers.reports.actions import TIMEOUT_MS
from resolvers.users.callers import CallerRole
from store.base.ids import UserId
from store.workspaces.permissions import OF_EVERYONE, Permission
from tests.api.attaching.files import add_file, send
from tests.api.client import Api, Json, Refusal, make_caller, private_id
from tests.api.reports.calls import (
    RESOLVE,
    audit_of,
    create_workspace_with,
    find_node,
    make_report,
    resolve,
    root,
    said_by,
)
from tests.api.sample_channels import SampleChannels

P = Permission
FORBIDDEN, NO_REPORT = Refusal("FORBIDDEN"), Refusal("NOT_FOUND", "reportId")
DOES_NOT_FIT = Refusal("INVALID_INPUT", "action")
NEEDS = {
    "NONE": P(0),
    "RECALL": P.MANAGE_MESSAGES,
    "TIMEOUT": P.TIMEOUT_MEMBERS,
    "KICK": P.KICK_MEMBERS,
    "BAN": P.BAN_MEMBERS,
}
ALL = P.MANAGE_MESSAGES | P.TIMEOUT_MEMBERS | P.KICK_MEMBERS | P.BAN_MEMBERS
AUDITED = {"RECALL": "recallMessages", "TIMEOUT": "timeoutMember", "KICK": "kickMember", "BAN": "banUser"}


@pytest.fixture
async def workspace(api: Api) -> AsyncIterator[SampleChannels]:
    workspace = await create_workspace_with(api, P.VIEW_REPORTS)
    yield workspace
    # A ban from the deployment would be in force for other tests of the process.
    api.database["bans"].delete_many({})


async def report_insult(api: Api, workspace: SampleChannels) -> tuple[str, str]:
    """Return a report about a message of `other`, and the message."""
    message = await said_by(api, workspace.other, workspace.general)
    return (await make_report(api, workspace.member, message=message))["id"], message


async def facts_of(api: Api, workspace: SampleChannels, user: str) -> Json | None:
    query = """query ($id: ID!, $user: String!) { workspace(id: $id) { members(query: $user) { edges { node {
        user { id } timedOutUntil } } } } }"""
    found = (await api.data(workspace.owner, query, id=workspace.id, user=user))["workspace"]["members"]["edges"]
    members = [edge["node"] for edge in found if edge["node"]["user"]["id"] == user]
    return members[0] if members else None


async def is_done(api: Api, workspace: SampleChannels, action: str, message: str) -> bool:
    """Return whether an action on `other` was done."""
    match action:
        case "RECALL":
            query = "query ($id: ID!) { message(id: $id) { state } }"
            found: Json = (await api.data(workspace.owner, query, id=message))["message"]
            return bool(found["state"] == "RECALLED")
        case "TIMEOUT":
            facts = await facts_of(api, workspace, workspace.other)
            return facts is not None and facts["timedOutUntil"] is not None
        case "KICK":
            return await facts_of(api, workspace, workspace.other) is None
        case _:
            return api.database["bans"].count_documents({"_id": f"{workspace.id} {workspace.other}"}) == 1


@pytest.mark.parametrize("action", NEEDS)
async def test_an_action_needs_its_permission_and_no_other(api: Api, workspace: SampleChannels, action: str) -> None:
    id, message = await report_insult(api, workspace)
    await workspace.give(workspace.moderator_role, OF_EVERYONE | P.VIEW_REPORTS | NEEDS[action])
    resolved = await resolve(api, workspace.moderator, id, action, note="enough")
    assert (resolved["state"], resolved["action"]) == ("RESOLVED", action)
    assert resolved["resolvedBy"] == {"id": workspace.moderator}
    assert (resolved["text"], resolved["note"]) == ("insult", None)
    # Banned users are no members.
    done = {"KICK", "BAN"} if action == "BAN" else {action} - {"NONE"}
    assert {each for each in AUDITED if await is_done(api, workspace, each, message)} == done
    entries = audit_of(api, workspace.id)
    assert [entry["a"] for entry in entries] == [*([AUDITED[action]] if action in AUDITED else []), "resolveReport"]
    assert all(
        (entry["u"], entry["t"], entry["r"]) == (workspace.moderator, workspace.other, "enough") for entry in entries
    )
    assert entries[-1]["f"] == {"state": "RESOLVED", "action": action, "reportId": id}


@pytest.mark.parametrize("action", [action for action in NEEDS if action != "NONE"])
@pytest.mark.parametrize("missing", ["permission", "VIEW_REPORTS"])
async def test_without_a_permission_nothing_changes(
    api: Api, workspace: SampleChannels, action: str, missing: str
) -> None:
    id, _ = await report_insult(api, workspace)
    given = ALL if missing == "VIEW_REPORTS" else P.VIEW_REPORTS | ALL & ~NEEDS[action]
    await workspace.give(workspace.moderator_role, OF_EVERYONE | given)
    before = await api.stored_hashes()
    assert await api.expect_refusal(workspace.moderator, RESOLVE, id=id, action=action) == FORBIDDEN
    assert await api.stored_hashes() == before


async def test_the_author_must_be_below_the_moderator(api: Api, workspace: SampleChannels) -> None:
    await workspace.give(workspace.moderator_role, OF_EVERYONE | P.VIEW_REPORTS | ALL)
    for author in (workspace.admin, workspace.owner):
        message = await said_by(api, author, workspace.general)
        id = (await make_report(api, workspace.member, message=message))["id"]
        before = await api.stored_hashes()
        for action in ("TIMEOUT", "KICK", "BAN"):
            refusal = await api.expect_refusal(workspace.moderator, RESOLVE, id=id, action=action)
            assert refusal == Refusal("FORBIDDEN", "reportId")
        assert await api.stored_hashes() == before
        # A refused action does not prevent another one.
        await resolve(api, workspace.moderator, id, "RECALL")


async def test_moderators_take_no_action_on_themselves(api: Api, workspace: SampleChannels) -> None:
    await workspace.give(workspace.moderator_role, OF_EVERYONE | P.VIEW_REPORTS | ALL)
    message = await said_by(api, workspace.moderator, workspace.general)
    id = (await make_report(api, workspace.member, message=message))["id"]
    before = await api.stored_hashes()
    for action in ("TIMEOUT", "KICK", "BAN"):
        refusal = await api.expect_refusal(workspace.moderator, RESOLVE, id=id, action=action)
        assert refusal == Refusal("INVALID_INPUT", "reportId")
    assert await api.stored_hashes() == before


async def test_only_moderators_of_its_workspace_find_a_report(api: Api, workspace: SampleChannels) -> None:
    id, _ = await report_insult(api, workspace)
    other = await create_workspace_with(api, P.VIEW_REPORTS)
    before = await api.stored_hashes()
    for caller, refusal in (
        (workspace.member, FORBIDDEN),
        (workspace.outsider, NO_REPORT),
        (other.owner, NO_REPORT),
        (make_caller(workspace.outsider, CallerRole.ADMIN), NO_REPORT),
        (None, Refusal("UNAUTHENTICATED")),
    ):
        assert await api.expect_refusal(caller, RESOLVE, id=id) == refusal
    for unknown in ("x_1", f"x_{'0' * 32}", "nonsense", ""):
        assert await api.expect_refusal(workspace.owner, RESOLVE, id=unknown) == NO_REPORT
    long = await api.expect_refusal(workspace.owner, RESOLVE, id=id, note="x" * 501)
    assert long == Refusal("INVALID_INPUT", "note")
    assert await api.stored_hashes() == before


async def test_a_moderator_who_cannot_see_the_channel_cannot_recall_there(api: Api, workspace: SampleChannels) -> None:
    message = await said_by(api, workspace.member, workspace.staff)
    id = (await make_report(api, workspace.moderator, message=message))["id"]
    before = await api.stored_hashes()
    assert await api.expect_refusal(workspace.owner, RESOLVE, id=id, action="RECALL") == FORBIDDEN
    assert await api.stored_hashes() == before
    await resolve(api, workspace.owner, id, "KICK")
    assert await facts_of(api, workspace, workspace.member) is None


async def test_an_overwrite_takes_the_right_to_recall_away(api: Api, workspace: SampleChannels) -> None:
    await workspace.give(workspace.moderator_role, OF_EVERYONE | P.VIEW_REPORTS | ALL)
    await workspace.overwrite(workspace.general, workspace.moderator, P.MANAGE_MESSAGES)
    id, _ = await report_insult(api, workspace)
    before = await api.stored_hashes()
    assert await api.expect_refusal(workspace.moderator, RESOLVE, id=id, action="RECALL") == FORBIDDEN
    assert await api.stored_hashes() == before


async def test_the_message_with_a_reported_file_is_recalled(api: Api, workspace: SampleChannels) -> None:
    file = await add_file(api, workspace.other, workspace.general)
    message = (await send(api, workspace.other, workspace.general, [file]))["message"]["id"]
    id = (await make_report(api, workspace.member, attachment=file))["id"]
    await resolve(api, workspace.owner, id, "RECALL")
    assert await is_done(api, workspace, "RECALL", message)


async def test_a_broadcast_reply_is_recalled_by_its_copy(api: Api, workspace: SampleChannels) -> None:
    parent = await said_by(api, workspace.member, workspace.general)
    await api.send(workspace.other, parent, "loud", broadcast=True)
    copy = (await api.history(workspace.member, workspace.general))[-1]["id"]
    id = (await make_report(api, workspace.member, message=copy))["id"]
    resolved = await resolve(api, workspace.owner, id, "RECALL")
    assert resolved["message"] == {"id": copy, "content": None, "state": "RECALLED"} and resolved["text"] == "loud"


async def timed_out_until_ms(api: Api, workspace: SampleChannels, user: str) -> int:
    policies = api.services.app.store.policies
    version = await policies.current_version(workspace.id)
    facts = await policies.find_member(workspace.id, UserId(user), version or 0)
    assert facts is not None
    return facts.timed_out_until_ms


async def test_a_time_out_lasts_24_hours(api: Api, workspace: SampleChannels) -> None:
    now_ms = api.services.app.store.clock.now_ms()
    id, _ = await report_insult(api, workspace)
    await resolve(api, workspace.owner, id, "TIMEOUT")
    until_ms = await timed_out_until_ms(api, workspace, workspace.other)
    assert 0 <= until_ms - now_ms - TIMEOUT_MS < 60_000


async def test_a_longer_time_out_is_not_shortened(api: Api, workspace: SampleChannels) -> None:
    id, _ = await report_insult(api, workspace)
    until_ms = api.services.app.store.clock.now_ms() + 3 * TIMEOUT_MS
    await workspace.set_facts(workspace.other, timed_out_until_ms=until_ms)
    await resolve(api, workspace.owner, id, "TIMEOUT")
    assert await timed_out_until_ms(api, workspace, workspace.other) == until_ms


async def test_users_who_left_can_be_banned_but_not_kicked(api: Api, workspace: SampleChannels) -> None:
    id, message = await report_insult(api, workspace)
    await workspace.remove(workspace.other)
    before = await api.stored_hashes()
    for action in ("KICK", "TIMEOUT"):
        refusal = await api.expect_refusal(workspace.owner, RESOLVE, id=id, action=action)
        assert refusal == Refusal("NOT_A_MEMBER", "reportId")
    assert await api.stored_hashes() == before
    await resolve(api, workspace.owner, id, "BAN")
    assert await is_done(api, workspace, "BAN", message)


async def test_a_removed_message_cannot_be_recalled(api: Api, workspace: SampleChannels) -> None:
    id, _ = await report_insult(api, workspace)
    api.database["messages"].delete_many({"c": workspace.general})
    assert await api.expect_refusal(workspace.owner, RESOLVE, id=id, action="RECALL") == DOES_NOT_FIT
    await resolve(api, workspace.owner, id)


async def test_reports_of_the_deployment_are_resolved_by_admins(api: Api, workspace: SampleChannels) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    assert (await api.data(root(), "{ me { id } }"))["me"]["id"] == "root"
    for to in (bob, group):
        message = await said_by(api, alice, to)
        id = (await make_report(api, bob, message=message))["id"]
        before = await api.stored_hashes()
        for caller, refusal in (
            (bob, FORBIDDEN),
            (carol, NO_REPORT),
            (make_caller(carol, CallerRole.SERVICE), NO_REPORT),
        ):
            assert await api.expect_refusal(caller, RESOLVE, id=id, action="RECALL") == refusal
        for action in ("KICK", "TIMEOUT"):
            assert await api.expect_refusal(root(), RESOLVE, id=id, action=action) == DOES_NOT_FIT
        assert await api.stored_hashes() == before
        resolved = await resolve(api, root(), id, "RECALL", note="insult")
        assert (resolved["action"], resolved["text"], resolved["message"]) == ("RECALL", "insult", None)
        (newest, *_) = (await api.history(bob, group if to == group else private_id(alice, bob)))[::-1]
        assert newest["state"] == "RECALLED"
        entries = [(entry["a"], entry["t"], entry["r"]) for entry in audit_of(api, None)][-2:]
        assert entries == [("recallMessages", alice, "insult"), ("resolveReport", alice, "insult")]


async def test_a_reported_user_is_banned_from_the_deployment(api: Api, workspace: SampleChannels) -> None:
    alice, bob = await api.create_users("alice", "bob")
    id = (await make_report(api, bob, user=alice))["id"]
    assert await api.expect_refusal(root(), RESOLVE, id=id, action="RECALL") == DOES_NOT_FIT
    await resolve(api, root(), id, "BAN")
    assert api.database["bans"].count_documents({"_id": f"- {alice}"}) == 1
    assert [entry["a"] for entry in audit_of(api, None)][-2:] == ["banUser", "resolveReport"]
    found = await find_node(api, bob, id)
    assert found is not None and (found["state"], found["action"]) == ("RESOLVED", "BAN")

"""Messages in channels: who may write, and what a message writes."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from store.base.workspace_ids import role_id, workspace_id
from store.workspaces.permissions import Permission
from tests.api.client import SEND, Api, Refusal, make_caller, message_input
from tests.api.sample_channels import SampleChannels

RECEIPTS = """mutation ($input: SendMessageInput!) { sendMessage(input: $input) {
    message { delivery { status } receipts { edges { cursor } } } } }"""


CHANNEL = "query ($id: ID!) { channel(id: $id) { name } }"


async def test_members_read_what_others_write(api: Api, workspace: SampleChannels) -> None:
    sent = await api.send(workspace.member, workspace.general, "hello everybody")
    assert sent["message"]["seq"] == 1 and sent["session"]["readSeq"] == 1
    await api.send(workspace.other, workspace.general, "hello you")
    history = await api.history(workspace.owner, workspace.general)
    assert [message["content"] for message in history] == ["hello everybody", "hello you"]


async def test_a_message_writes_only_the_session_of_its_sender(api: Api, workspace: SampleChannels) -> None:
    before = await api.stored_documents()
    await api.send(workspace.member, workspace.general)
    after = await api.stored_documents()
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed - {"origins"} == {"conversations", "messages", "sessions"}
    new = after["sessions"].keys() - before.get("sessions", {}).keys()
    assert new == {f"{workspace.member} {workspace.general}"}
    assert after.get("receipts", {}) == before.get("receipts", {})
    assert after["members"] == before["members"]


async def test_there_are_no_receipts_in_channels(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.other, workspace.general)
    sent = await api.data(workspace.member, RECEIPTS, input=message_input(workspace.general))
    assert sent["sendMessage"]["message"] == {"delivery": None, "receipts": None}


async def test_the_same_key_answers_the_first_message(api: Api, workspace: SampleChannels) -> None:
    first = await api.send(workspace.member, workspace.general, idempotencyKey="k")
    again = await api.send(workspace.member, workspace.general, idempotencyKey="k")
    assert again["replayed"] and again["message"]["id"] == first["message"]["id"]
    refusal = await api.expect_send_refusal(
        workspace.member, workspace.general, idempotencyKey="k", mentionRoleIds=[workspace.guide_role]
    )
    assert refusal.code == "IDEMPOTENCY_CONFLICT"
    await workspace.overwrite(workspace.general, workspace.member, Permission.SEND_MESSAGES)
    assert (await api.send(workspace.member, workspace.general, idempotencyKey="k"))["replayed"]


async def test_a_refused_message_releases_its_key(api: Api, workspace: SampleChannels) -> None:
    policy = workspace.policy
    await workspace.overwrite(workspace.general, workspace.member, Permission.SEND_MESSAGES)
    refusal = await api.expect_send_refusal(workspace.member, workspace.general, idempotencyKey="k")
    assert refusal == Refusal("FORBIDDEN", "conversationId")
    await workspace.change(policy)
    assert not (await api.send(workspace.member, workspace.general, idempotencyKey="k"))["replayed"]


@pytest.mark.parametrize(
    ("sender", "channel", "code"),
    [
        ("outsider", "general", "NOT_FOUND"),
        ("outsider", "staff", "NOT_FOUND"),
        ("other", "staff", "NOT_FOUND"),
        ("owner", "staff", "NOT_FOUND"),
        ("admin", "staff", "NOT_FOUND"),
        ("member", "old", "ARCHIVED"),
        ("owner", "old", "ARCHIVED"),
        ("outsider", "old", "NOT_FOUND"),
    ],
)
async def test_a_message_without_the_right_to_write_changes_nothing(
    api: Api, workspace: SampleChannels, sender: str, channel: str, code: str
) -> None:
    target, user = getattr(workspace, channel), getattr(workspace, sender)
    before = await api.stored_hashes()
    refusal = await api.expect_send_refusal(user, target)
    assert refusal == Refusal(code, "conversationId")
    assert await api.stored_hashes() == before


async def test_a_private_channel_cannot_be_told_from_one_that_does_not_exist(
    api: Api, workspace: SampleChannels
) -> None:
    unknown = workspace.staff.rpartition(".")[0] + ".99"
    answers = [
        await api.run(workspace.other, SEND, input=message_input(channel)) for channel in (workspace.staff, unknown)
    ]
    assert answers[0] == answers[1]
    assert answers[0]["errors"][0]["extensions"]["code"] == "NOT_FOUND"


async def test_hidden_channels_take_the_reads_of_channels_that_do_not_exist(
    api: Api, workspace: SampleChannels
) -> None:
    """Otherwise the time of the answer tells that a channel exists, the first time or later."""
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    store, unknown = workspace.store, workspace.staff.rpartition(".")[0] + ".99"
    await api.expect_send_refusal(workspace.other, workspace.old)
    least: dict[tuple[str, str, int], tuple[int, int]] = {}
    for run in range(4):
        for channel in (unknown, workspace.staff, workspace.general):
            for query, variables in ((SEND, {"input": message_input(channel)}), (CHANNEL, {"id": channel})):
                before = store.mongo.trips, store.cache.trips
                await api.run(workspace.other, query, **variables)
                trips = store.mongo.trips - before[0], store.cache.trips - before[1]
                # Housekeeping may add to single runs.
                place = (query, channel, min(run, 1))
                least[place] = min(least.get(place, trips), trips)
    for query in (SEND, CHANNEL):
        assert len({trips for place, trips in least.items() if place[0] == query}) == 1, least
    assert unknown not in {channel for channel, _ in store.channel_rights.members._kept}


async def test_a_right_that_ended_elsewhere_is_not_used(api: Api, other_api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.general)
    await other_api.send(workspace.member, workspace.general)
    await workspace.overwrite(workspace.general, workspace.member, Permission.SEND_MESSAGES)
    for process in (api, other_api):
        assert (await process.expect_send_refusal(workspace.member, workspace.general)).code == "FORBIDDEN"
    assert (await api.send(workspace.other, workspace.general))["message"]["seq"] == 3


async def test_a_right_that_was_given_elsewhere_is_used_at_once(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    policy = workspace.policy
    await workspace.overwrite(workspace.general, workspace.member, Permission.SEND_MESSAGES)
    for process in (api, other_api):
        assert (await process.expect_send_refusal(workspace.member, workspace.general)).code == "FORBIDDEN"
    await workspace.change(policy)
    for process in (api, other_api):
        await process.send(workspace.member, workspace.general)


async def test_a_member_who_was_removed_writes_nothing(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.general)
    await api.send(workspace.member, workspace.staff)
    await workspace.remove_from_staff(workspace.member)
    assert (await api.expect_send_refusal(workspace.member, workspace.staff)).code == "NOT_FOUND"
    await workspace.remove(workspace.member)
    assert (await api.expect_send_refusal(workspace.member, workspace.general)).code == "NOT_FOUND"


async def test_a_member_with_a_time_out_reads_and_does_not_write(api: Api, workspace: SampleChannels) -> None:
    sent = await api.send(workspace.member, workspace.general)
    until = api.services.app.store.clock.now_ms() + 3_600_000
    await workspace.set_facts(workspace.member, timed_out_until_ms=until)
    assert (await api.expect_send_refusal(workspace.member, workspace.general)).code == "FORBIDDEN"
    assert await api.history(workspace.member, workspace.general)
    edit = await api.expect_refusal(
        workspace.member,
        'mutation ($id: ID!) { editMessage(messageId: $id, content: "new") { id } }',
        id=sent["message"]["id"],
    )
    assert edit.code == "FORBIDDEN"


@pytest.mark.parametrize(
    ("sender", "more", "field", "code"),
    [
        ("member", {"mentionAll": True}, "mentionAll", "FORBIDDEN"),
        ("member", {"mentionRoleIds": ["@admin_role"]}, "mentionRoleIds", "FORBIDDEN"),
        ("member", {"mentionRoleIds": [role_id(workspace_id(1), 1)]}, "mentionRoleIds", "INVALID_INPUT"),
        ("member", {"mentionRoleIds": ["@general"]}, "mentionRoleIds", "INVALID_INPUT"),
        ("owner", {"mentionRoleIds": ["@unknown_role"]}, "mentionRoleIds", "INVALID_INPUT"),
        ("member", {"mentions": ["@outsider"]}, "mentions", "INVALID_INPUT"),
        ("member", {"mentions": ["nobody at all"]}, "mentions", "INVALID_INPUT"),
        ("member", {"toUserId": "x"}, None, "INVALID_INPUT"),
        ("member", {"subBiz": "shop"}, "subBiz", "INVALID_INPUT"),
        ("member", {"replyToId": "m_1"}, "replyToId", "INVALID_INPUT"),
        ("member", {"contentType": "SYSTEM"}, "contentType", "INVALID_INPUT"),
    ],
)
async def test_wrong_mentions_are_refused(
    api: Api, workspace: SampleChannels, sender: str, more: dict[str, object], field: str | None, code: str
) -> None:
    def fill_in(value: object) -> object:
        if isinstance(value, list):
            return [fill_in(item) for item in value]
        if value == "@unknown_role":
            return role_id(workspace.id, 77)
        return getattr(workspace, value[1:]) if isinstance(value, str) and value.startswith("@") else value

    user = getattr(workspace, sender)
    before = await api.stored_hashes()
    refusal = await api.expect_send_refusal(
        user, workspace.general, **{name: fill_in(value) for name, value in more.items()}
    )
    assert refusal == Refusal(code, field)
    assert await api.stored_hashes() == before


async def test_mentions_need_people_who_can_see_the_channel(api: Api, workspace: SampleChannels) -> None:
    for user in (workspace.other, workspace.owner):
        refusal = await api.expect_send_refusal(workspace.member, workspace.staff, mentions=[user])
        assert refusal == Refusal("INVALID_INPUT", "mentions")
    sent = await api.send(workspace.member, workspace.staff, mentions=[workspace.moderator, workspace.moderator])
    assert sent["message"]["mentions"] == [{"id": workspace.moderator}]


async def test_mentions_of_roles_and_everybody_need_the_permission(api: Api, workspace: SampleChannels) -> None:
    query = "query ($id: ID!) { message(id: $id) { mentionsAll mentionedRoles { id name } } }"
    own = await api.send(workspace.member, workspace.general, mentionRoleIds=[workspace.guide_role])
    found = await api.data(workspace.other, query, id=own["message"]["id"])
    assert found["message"]["mentionedRoles"] == [{"id": workspace.guide_role, "name": "guide"}]
    roles = [workspace.admin_role, workspace.guide_role]
    sent = await api.send(workspace.moderator, workspace.general, mentionAll=True, mentionRoleIds=roles)
    found = await api.data(workspace.other, query, id=sent["message"]["id"])
    assert found["message"]["mentionsAll"]
    assert [role["id"] for role in found["message"]["mentionedRoles"]] == roles


async def test_services_write_system_messages_into_any_channel(api: Api, workspace: SampleChannels) -> None:
    service = make_caller("service", CallerRole.SERVICE)
    for channel in (workspace.general, workspace.staff):
        sent = await api.data(service, SEND, input=message_input(channel, contentType="SYSTEM"))
        assert sent["sendMessage"]["message"]["systemEvent"]["kind"] == "CUSTOM"
    refusal = await api.expect_refusal(service, SEND, input=message_input(workspace.old, contentType="SYSTEM"))
    assert refusal.code == "ARCHIVED"
    unknown = workspace.staff.rpartition(".")[0] + ".99"
    assert (
        await api.expect_refusal(service, SEND, input=message_input(unknown, contentType="SYSTEM"))
    ).code == "NOT_FOUND"
    assert (await api.expect_refusal(service, SEND, input=message_input(workspace.general))).code == "NOT_FOUND"


async def test_the_author_has_the_nickname_in_the_workspace(api: Api, workspace: SampleChannels) -> None:
    await workspace.set_facts(workspace.member, nickname="Trail Boss")
    sent = await api.send(workspace.member, workspace.general)
    assert sent["message"]["authorName"] == "Trail Boss"
    assert sent["message"]["sender"]["displayName"] != "Trail Boss"
    await workspace.remove(workspace.member)
    (message,) = await api.history(workspace.other, workspace.general)
    assert message["authorName"] == message["sender"]["displayName"]


async def test_an_unknown_workspace_has_no_channels(api: Api, workspace: SampleChannels) -> None:
    assert await api.expect_send_refusal(workspace.member, "c_1.1") == Refusal("NOT_FOUND", "conversationId")

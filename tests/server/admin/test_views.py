"""`confab admin`: users, conversations, servers, queues, webhooks and reports."""

from __future__ import annotations

import pytest

from server.settings import Settings
from store.base.ids import ConversationId, MessageId
from store.messages.message import ReservedMessage
from tests.api.blocks.calls import block
from tests.api.channels.calls import make_workspace
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api, wait_until
from tests.api.devices.calls import register
from tests.api.moderation.calls import ADMIN, ban, later, time_out
from tests.api.reports.calls import make_report
from tests.api.session_calls import MUTE
from tests.api.threads.calls import thread_of
from tests.erasure.traces import ERASE
from tests.server.admin.conftest import RunAdmin, Show
from tests.webhooks.calls import admin, create_webhook

PIN = "mutation ($id: ID!) { pinMessage(messageId: $id) { id } }"
TOKEN = "f" * 40


async def test_a_user_with_devices_connections_and_sessions(api: Api, show: Show) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(alice, bob)
    sent = await api.send(carol, bob)
    await api.data(bob, MUTE, id=sent["message"]["conversationId"], muted=True)
    await block(api, bob, alice)
    await register(api, bob, "phone", type="MOBILE", pushPlatform="FCM", pushToken=TOKEN)
    depart = await api.connect_device(bob)
    await api.listen(bob)
    await api.wait_until_idle()
    view = await show("user", bob)
    assert view["profile"]["is_bot"] is False
    (phone,) = [device for device in view["devices"] if device["device"] == "phone"]
    assert (phone["type"], phone["push"]) == ("MOBILE", "FCM")
    (device,) = view["connections"]["devices"]
    (route,) = view["connections"]["servers_that_get_events"]
    assert device["server"] == route["server"] and route["is_valid"] and "since" in device
    sessions = view["sessions"]
    assert (sessions["count"], sessions["by_kind"]) == (2, {"PRIVATE": 2})
    assert (sessions["muted"], sessions["total_unread"]) == (1, 1)
    assert sessions["cached"]["is_loaded"] is True
    assert view["blocks"] == {"blocked_by_the_user": 1, "blockers_of_the_user": 0}
    assert (await show("user", alice))["blocks"] == {"blocked_by_the_user": 0, "blockers_of_the_user": 1}
    assert (view["bans"], view["erasure"], view["jobs"]) == ([], None, [])
    await depart()


async def test_a_user_with_bans_and_time_outs(api: Api, show: Show) -> None:
    made = await make_workspace(api)
    channel = (await made.create())["id"]
    until = later(hours=1)
    await time_out(api, made.owner, made.id, made.member, until)
    view = await show("user", made.member)
    (workspace,) = view["workspaces"]
    assert workspace["workspace"] == made.id
    assert workspace["timed_out_until"][:19] == until[:19]
    await api.data(made.member, FOLLOW, id=channel)
    await ban(api, made.owner, made.id, made.member, reason="spam")
    await ban(api, ADMIN, None, made.member)
    await api.wait_until_idle()
    view = await show("user", made.member)
    assert view["workspaces"] == []
    assert [(each["workspace"], each.get("reason")) for each in view["bans"]] == [
        ("the deployment", None),
        (made.id, "spam"),
    ]
    assert view["tokens_refused_if_issued_before"] is not None


async def test_an_erasure_is_shown_by_the_former_id(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.data(ADMIN, ERASE, id=alice)
    view = await show("user", alice)
    assert view["erasure"]["kind"] == "ERASURE"
    assert view["erasure"]["state"] in ("WAITING", "RUNNING", "DONE")


async def test_a_group_with_threads_pins_and_former_members(api: Api, show: Show) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave, name="Hikers")
    parent = (await api.send(alice, group))["message"]
    await api.data(alice, PIN, id=parent["id"])
    await api.send(bob, parent["id"], "reply")
    reply = await api.send(bob, parent["id"], "reply")
    await api.recall(bob, reply["message"]["id"])
    await api.data(dave, "mutation ($id: ID!) { leaveGroup(groupId: $id) }", id=group)
    await api.wait_until_idle()
    view = await show("conversation", group)
    assert (view["kind"], view["group"]["name"], view["group"]["owner"]) == ("GROUP", "Hikers", alice)
    members = view["members"]
    assert (members["count_in_head"], members["current"], members["former"]) == (3, 3, 1)
    assert [each["user"] for each in members["listed"] if not each.get("is_current")] == [dave]
    assert view["pins"]["seqs"] == [parent["seq"]]
    assert view["threads"] == {"threads": 1, "replies": 1, "followers": 1}
    newest = api.database["messages"].find_one({"c": group}, sort=[("s", -1)])
    assert newest is not None
    head = view["head"]
    assert (head["newest_seq"], head["counted_messages"]) == (newest["s"], newest["n"])
    assert view["cached_head"]["newest_seq"] == newest["s"]
    assert view["retention"]["messages_up_to_seq_are_expired"] == 0
    thread = await show("conversation", thread_of(parent))
    assert thread["thread"] == {
        "replies": 1,
        "recalled_replies": 1,
        "participants": 1,
        "followers": 1,
        "is_locked": False,
    }
    assert (thread["parent"], thread["parent_seq"]) == (group, parent["seq"])


async def test_an_entry_that_waits_in_the_outbox_is_shown(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    private = (await api.send(alice, bob))["message"]["conversationId"]
    await api.wait_until_idle()
    store = api.services.app.store
    # The server died after it had reserved the place.
    await api.services.housekeeper.close()
    (message,) = await store.messages.list_between(ConversationId(private), [(1, 1)], 1, newest_first=False)
    reserved = await store.outbox.reserve(message._replace(id=MessageId(store.ids.next()), seq=0, n=0))
    assert isinstance(reserved, ReservedMessage)
    view = await show("conversation", private)
    (entry,) = view["outbox"]
    assert (entry["entry"], entry["seq"]) == (reserved.outbox_entry, 2)
    assert view["cached_head"]["newest_reserved_seq"] == 2
    queues = await show("queues")
    assert queues["outbox"]["entries"] == 1


async def test_a_channel_shows_its_workspace_and_versions(api: Api, show: Show) -> None:
    made = await make_workspace(api)
    channel = (await made.create("general"))["id"]
    await api.send(made.owner, channel)
    await api.wait_until_idle()
    view = await show("conversation", channel)
    shown = view["channel"]
    stored = api.database["workspaces"].find_one({"_id": made.id})
    assert stored is not None
    assert (shown["workspace"], shown["workspace_name"], shown["name"]) == (made.id, "Hikers", "general")
    assert (shown["kind"], shown["is_archived"], shown["policy_version"]) == ("PUBLIC", False, stored["pv"])
    assert " in epoch " in shown["rev"]
    assert view["head"]["newest_seq"] == 1


async def test_connections_are_counted_for_each_server(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    departs = [await api.connect_device(user) for user in (alice, bob, bob)]
    times = api.services.app.store.server_times

    async def has_reported() -> bool:
        return bool(await times.read())

    await wait_until(has_reported)
    view = await show("connections")
    (server,) = view["servers"]
    assert (server["is_alive"], server["connected_devices"]) == (True, view["connected_devices"])
    assert (view["servers_alive"], view["connected_users"]) == (1, 2)
    assert view["connected_devices"] == 3
    assert view["processes_with_a_worker_number"] == 1
    for depart in departs:
        await depart()
    after = await show("connections")
    assert (after["connected_devices"], after["connected_users"]) == (0, 0)


async def test_servers_that_have_ended_are_not_listed(api: Api, show: Show) -> None:
    times = api.services.app.store.server_times
    await times.report("other")
    await times.report("ended", has_ended=True)
    listed = [server["server"] for server in (await show("connections"))["servers"]]
    assert "other" in listed and "ended" not in listed


async def test_queues_of_an_idle_deployment_are_empty(api: Api, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await api.wait_until_idle()
    view = await show("queues")
    assert view["outbox"] == {"entries": 0, "oldest_seconds": 0.0, "fullest_partitions": {}}
    assert view["pushes"]["oldest_intent_late_seconds"] == 0
    assert (view["webhooks"]["outgoing"], view["webhooks"]["pending_events"]) == (0, 0)
    assert view["index"]["past_is_complete"] is True
    assert view["jobs"] == {}


async def test_webhooks_show_their_state_and_no_secret(api: Api, run_admin: RunAdmin, show: Show) -> None:
    url = "https://hooks.example.org:8443/path/token?key=value"
    created = await create_webhook(api, admin(), url)
    view = await show("webhooks")
    (webhook,) = view["webhooks"]
    assert (webhook["webhook"], webhook["state"], webhook["pending_events"]) == (created["id"], "ACTIVE", 0)
    assert webhook["site"] == "https://hooks.example.org:8443"
    for arguments in (("webhooks",), ("webhooks", created["id"])):
        _, out, _ = await run_admin(*arguments)
        assert "hooks.example.org" in out
        assert not any(secret in out for secret in (created["secret"], "path", "token", "key=value"))
    assert (await show("webhooks", created["id"]))["newest_events"] == []


async def test_open_reports_are_listed_oldest_first(api: Api, run_admin: RunAdmin, show: Show) -> None:
    alice, bob = await api.create_users("alice", "bob")
    made = await make_workspace(api)
    channel = (await made.create())["id"]
    first = (await api.send(alice, bob, "an insult"))["message"]["id"]
    second = (await api.send(made.member, channel, "another insult"))["message"]["id"]
    reports = [
        (await make_report(api, bob, message=first))["id"],
        (await make_report(api, made.owner, message=second))["id"],
        (await make_report(api, bob, user=alice, note="words of bob"))["id"],
    ]
    view = await show("reports")
    assert [each["report"] for each in view["open_reports"]] == reports
    assert view["there_are_more"] is False
    in_workspace = await show("reports", "--workspace", made.id)
    assert [each["report"] for each in in_workspace["open_reports"]] == [reports[1]]
    of_deployment = await show("reports", "--workspace", "-")
    assert [each["report"] for each in of_deployment["open_reports"]] == [reports[0], reports[2]]
    _, out, _ = await run_admin("reports")
    assert "insult" not in out and "words of bob" not in out
    _, out, _ = await run_admin("reports", "--texts")
    assert "an insult" in out and "words of bob" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("user", "nobody"), "There is no user nobody."),
        (("user", "white space"), "has not the form of a user id"),
        (("user", "erased-0123456789abcdef"), "stands for an erased user"),
        (("conversation", "g_1"), "There is no conversation g_1."),
        (("conversation", "b_shop"), "b_shop is a gateway"),
        (("conversation", "alice"), "has not the form of a conversation id"),
        (("explain", "nobody", "g_1"), "There is no conversation g_1."),
        (("explain", "nobody", "b_shop"), "b_shop is a gateway"),
        (("explain", "nobody", "p_alice_bob"), "There is no conversation p_alice_bob."),
        (("webhooks", "h_1"), "There is no webhook h_1."),
        (("webhooks", "g_1"), "has not the form of a webhook id"),
        (("reports", "--workspace", "w_1"), "There is no workspace w_1."),
        (("reports", "--workspace", "g_1"), "has not the form of a workspace id"),
        (("explain", "alice"), "Missing argument"),
        (("everything",), "No such command"),
    ],
)
async def test_unknown_ids_end_with_2(api: Api, run_admin: RunAdmin, arguments: tuple[str, ...], reason: str) -> None:
    code, out, err = await run_admin(*arguments)
    assert (code, out) == (2, "")
    assert reason in err.replace("\n", " ")


async def test_people_outside_a_private_conversation_are_refused(api: Api, run_admin: RunAdmin) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    private = (await api.send(alice, bob))["message"]["conversationId"]
    code, _, err = await run_admin("explain", carol, private)
    assert code == 2
    assert f"{carol} is not one of the two people of {private}." in err


async def test_a_mongodb_that_does_not_answer_ends_with_2(
    settings: Settings, run_admin: RunAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFAB_MONGO_DATABASE", "empty")
    code, out, err = await run_admin("queues")
    assert (code, out) == (2, "")
    assert "The database empty has no deployment of Confab" in err
    monkeypatch.setenv("CONFAB_MONGO_URL", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100")
    code, out, err = await run_admin("queues")
    assert (code, out) == (2, "")
    assert "MongoDB at CONFAB_MONGO_URL failed" in err

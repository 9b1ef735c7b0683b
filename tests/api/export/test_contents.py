"""An export has what its user wrote, uploaded and set, as the API shows it, and nothing that others wrote."""

from __future__ import annotations

from typing import Any

import orjson

from store.devices.device_fields import DeviceField
from tests.api.blocks.calls import block
from tests.api.channels.calls import make_workspace
from tests.api.client import Api, private_id
from tests.api.export.calls import download
from tests.api.files.calls import BYTES, create_upload, find_file, upload_file
from tests.api.reactions.calls import react, take_back
from tests.api.reports.calls import make_report, resolve, root
from tests.api.retention.calls import keep_for
from tests.api.threads.calls import thread_of
from tests.api.workspaces.calls import LEAVE as LEAVE_WORKSPACE
from tests.api.workspaces.calls import create_invite, nickname
from tests.clock import ManualClock
from tests.webhooks.calls import admin
from tests.webhooks.incoming.hooks import CREATE_HOOK

REGISTER = "mutation ($input: DeviceInput!) { registerDevice(input: $input) { id } }"
MUTE = "mutation ($id: ID!) { muteSession(conversationId: $id, muted: true) { id } }"


async def test_messages_are_as_the_api_shows_them(api: Api) -> None:
    ann, bob = await api.create_users("ann", "bob")
    here = private_id(ann, bob)
    theirs = (await api.send(bob, ann, "from bob"))["message"]
    first = (await api.send(ann, bob, "hello", metadata={"a": [1]}, replyToId=theirs["id"]))["message"]
    await api.edit(ann, first["id"], "hello again")
    gone = (await api.send(ann, bob, "a secret", metadata={"b": 2}))["message"]
    await api.recall(ann, gone["id"])
    zip = await download(api, ann)
    shown = {message["id"]: message for message in await api.history(ann, here) if message["sender"]["id"] == ann}
    lines = {line["id"]: line for line in zip.lines("messages")}
    assert lines.keys() == shown.keys()
    for id, line in lines.items():
        same = ("conversationId", "seq", "createdAt", "contentType", "editCount", "editedAt", "recalledAt")
        assert {name: line[name] for name in same} == {name: shown[id][name] for name in same}
    line = lines[first["id"]]
    assert (line["content"], line["metadata"], line["replyToId"]) == ("hello again", {"a": [1]}, theirs["id"])
    assert (lines[gone["id"]]["content"], lines[gone["id"]]["metadata"]) == ("a secret", {"b": 2})
    assert "from bob" not in zip.everything()


async def test_messages_of_groups_channels_and_threads_that_the_user_has_left_are_there(api: Api) -> None:
    made = await make_workspace(api)
    cid = made.member
    channel = (await made.create("general"))["id"]
    await api.send(cid, channel, "in the channel")
    theirs = (await api.send(made.owner, channel, "not yours"))["message"]
    await api.send(cid, theirs["id"], "a reply", broadcast=True)
    group = await api.create_group(made.owner, cid, made.outsider)
    await api.send(cid, group, "in the group")
    await api.leave(cid, group)
    await api.data(cid, LEAVE_WORKSPACE, id=made.id)
    await api.send(made.owner, group, "afterwards")
    zip = await download(api, cid)
    texts = {(line["conversationId"], line["content"]) for line in zip.lines("messages") if line["content"]}
    wanted = {(channel, "in the channel"), (thread_of(theirs), "a reply"), (group, "in the group")}
    assert wanted <= texts
    assert [line["content"] for line in zip.lines("messages")].count("a reply") == 1, "no copy of the reply"
    for text in ("not yours", "afterwards"):
        assert text not in zip.everything()
    conversations = {line["id"]: line for line in zip.lines("conversations")}
    assert conversations.keys() == {channel, thread_of(theirs), group}
    assert (conversations[group]["role"], conversations[group]["isMember"]) == ("MEMBER", False)


async def test_files_are_there_with_their_bytes_and_names(api: Api) -> None:
    ann, bob = await api.create_users("ann", "bob")
    here = private_id(ann, bob)
    await api.send(ann, bob)
    names = ("a: b?.txt", "unused.txt", "recalled.txt")
    sent, unused, recalled = [await upload_file(api, ann, here, BYTES + name.encode(), filename=name) for name in names]
    begun = await create_upload(api, ann, here)
    theirs = await upload_file(api, bob, here, b"bytes of bob")
    await api.send(bob, ann, attachmentIds=[theirs["id"]])
    await api.send(ann, bob, attachmentIds=[sent["id"]])
    message = (await api.send(ann, bob, attachmentIds=[recalled["id"]]))["message"]
    await api.recall(ann, message["id"])
    zip = await download(api, ann)
    lines = {line["id"]: line for line in zip.lines("files")}
    assert {sent["id"], unused["id"], begun["id"]} <= lines.keys() and theirs["id"] not in lines
    for file, name in ((sent, "a: b?.txt"), (unused, "unused.txt")):
        line, shown = lines[file["id"]], await find_file(api, ann, file["id"])
        assert shown is not None
        assert line["filename"] == shown["filename"] == name and line["sizeBytes"] == shown["sizeBytes"]
        assert zip.read(line["path"]) == BYTES + name.encode()
    assert lines[sent["id"]]["path"] == f"files/{sent['id']}-a_ b_.txt"
    assert lines[begun["id"]]["path"] is None
    assert b"bytes of bob" not in zip.content


async def test_settings_and_devices_are_there_without_secrets(api: Api) -> None:
    ann, bob = await api.create_users("ann", "bob")
    here = private_id(ann, bob)
    await api.send(ann, bob)
    await api.data(ann, REGISTER, input={"id": "laptop", "type": "DESKTOP", "name": "My laptop"})
    token = {DeviceField.PLATFORM: "FCM", DeviceField.TOKEN: "push-secret"}
    api.database["devices"].update_one({"_id": f"{ann} laptop"}, {"$set": token})
    await api.data(ann, 'mutation { setNotificationSettings(input: {level: MENTIONS, keywords: ["tea"]}) { level } }')
    await api.data(ann, "mutation { setPresence(status: DND) { setting } }")
    await api.data(ann, 'mutation { setCustomStatus(text: "away", emoji: "🌴") { setting } }')
    await api.data(ann, MUTE, id=here)
    zip = await download(api, ann)
    (profile,) = zip.lines("profile")
    me = (await api.data(ann, "{ me { id displayName } }"))["me"]
    assert {name: profile[name] for name in me} == me
    (device,) = zip.lines("devices")
    assert (device["name"], device["pushPlatform"]) == ("My laptop", "FCM")
    (settings,) = zip.lines("notification_settings")
    assert (settings["level"], settings["keywords"]) == ("MENTIONS", ["tea"])
    (presence,) = zip.lines("presence")
    assert (presence["setting"], presence["customStatus"]["text"]) == ("DND", "away")
    (conversation,) = zip.lines("conversations")
    assert (conversation["id"], conversation["isMuted"]) == (here, True)
    assert "push-secret" not in zip.everything()


async def test_reactions_that_were_not_taken_back_are_there(api: Api) -> None:
    ann, bob = await api.create_users("ann", "bob")
    message = (await api.send(bob, ann))["message"]
    await react(api, ann, message["id"], "👍")
    await react(api, bob, message["id"], "🎉")
    await react(api, ann, message["id"], "❤️")
    await take_back(api, ann, message["id"], "❤️")
    zip = await download(api, ann)
    (line,) = zip.lines("reactions")
    assert (line["messageId"], line["emoji"]) == (message["id"], "👍")
    assert line["conversationId"] == private_id(ann, bob)


async def test_workspaces_webhooks_and_invitations_are_there_without_secrets(api: Api) -> None:
    made = await make_workspace(api)
    channel = (await made.create("general"))["id"]
    await nickname(api, made.owner, made.id, "Boss")
    code = await create_invite(api, made.owner, made.id, maxUses=3)
    hook: dict[str, Any] = (await api.data(made.owner, CREATE_HOOK, channel=channel, name="Hook"))[
        "createIncomingWebhook"
    ]
    zip = await download(api, made.owner)
    (workspace,) = zip.lines("workspaces")
    assert (workspace["id"], workspace["isOwner"], workspace["nickname"]) == (made.id, True, "Boss")
    (webhook,) = zip.lines("webhooks")
    assert (webhook["id"], webhook["name"], webhook["channelIds"]) == (hook["id"], "Hook", [channel])
    (invite,) = zip.lines("invitations")
    assert (invite["workspaceId"], invite["maxUses"], invite["uses"]) == (made.id, 3, 0)
    for secret in (code.partition("-")[2], hook["url"].rpartition("/")[2]):
        assert len(secret) > 10 and secret not in zip.everything()
    other = await download(api, made.member)
    assert other.lines("webhooks") == other.lines("invitations") == []


async def test_the_manifest_counts_the_lines(api: Api) -> None:
    ann, bob = await api.create_users("ann", "bob")
    for _ in range(3):
        await api.send(ann, bob)
    zip = await download(api, ann)
    counts = orjson.loads(zip.read("manifest.json"))["counts"]
    assert counts == {name: len(zip.lines(name)) for name in counts} and counts["messages"] == 3
    assert "messages.jsonl (3): Messages that you wrote" in zip.read("README.txt").decode()
    assert set(zip.names) == {f"{name}.jsonl" for name in counts} | {"README.txt", "manifest.json"}


async def test_an_earlier_export_is_not_in_the_next_one(api: Api, clock: Any) -> None:
    (ann,) = await api.create_users("ann")
    await download(api, ann)
    await api.advance_days(clock, 1)
    zip = await download(api, ann)
    assert zip.lines("files") == []


async def test_an_export_has_no_account_data_of_other_users(api: Api) -> None:
    zip = await download(api, admin().user_id)
    assert zip.lines("messages") == [] and [line["id"] for line in zip.lines("profile")] == [admin().user_id]


async def test_expired_messages_are_left_out_before_they_are_removed(api: Api, clock: ManualClock) -> None:
    made = await make_workspace(api)
    channel = (await made.create("general"))["id"]
    old = (await api.send(made.owner, channel, "too old"))["message"]
    await api.send(made.owner, old["id"], "a reply, too")
    await api.advance_days(clock, 10)
    await api.send(made.owner, channel, "young")
    await keep_for(made, 5)
    zip = await download(api, made.owner)
    texts = [line["content"] for line in zip.lines("messages") if line["conversationId"].endswith(channel)]
    assert texts == ["young"]


async def test_blocks_and_reports_are_there_without_what_others_wrote(api: Api) -> None:
    ann, bob, cid = await api.create_users("ann", "bob", "cid")
    theirs = (await api.send(bob, ann, "from bob"))["message"]
    made = await make_report(api, ann, message=theirs["id"], note="please look")
    await make_report(api, bob, user=ann, note="about ann")
    await resolve(api, root(), made["id"], note="words of the moderator")
    await block(api, ann, cid)
    await block(api, bob, ann)
    zip = await download(api, ann)
    (blocked,) = zip.lines("blocked_users")
    assert blocked["userId"] == cid and blocked["blockedAt"] is not None
    (report,) = zip.lines("reports")
    assert (report["id"], report["userId"], report["messageId"]) == (made["id"], bob, theirs["id"])
    assert (report["reason"], report["note"], report["state"]) == ("SPAM", "please look", "RESOLVED")
    for text in ("from bob", "about ann", "words of the moderator"):
        assert text not in zip.everything()

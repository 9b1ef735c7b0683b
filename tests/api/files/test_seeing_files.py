"""Files in messages: who sees them, and what their owner may still do."""

from __future__ import annotations

from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from store.base.ids import UserId, message_id
from store.workspaces.permissions import Permission
from tests.api.client import Api, Refusal
from tests.api.files.calls import CANCEL, COMPLETE, find_file, put, rows, upload_file
from tests.api.sample_channels import create_sample_channels


async def send_file(api: Api, user: str, conversation: str, file: str) -> str:
    """Send a file. Return the message."""
    new = NewMessage(None, conversation, "look", attachments=(file,))
    return message_id((await send_message(api.services.app, UserId(user), new)).message.id)


async def states(api: Api, file: str, *users: str) -> list[str | None]:
    """Return the state of a file as each user sees it."""
    found = [await find_file(api, user, file) for user in users]
    assert all((each["url"] is not None) == (each["state"] == "READY") for each in found if each is not None)
    return [each["state"] if each is not None else None for each in found]


async def test_those_who_may_read_the_message_see_its_file(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    file = (await upload_file(api, alice, group))["id"]
    assert await states(api, file, alice, bob) == ["READY", None]
    await api.leave(carol, group)
    message = await send_file(api, alice, group, file)
    assert await states(api, file, alice, bob, carol, dave) == ["READY", "READY", None, None]
    await api.recall(alice, message)
    assert await states(api, file, alice, bob, carol, dave) == ["REMOVED", None, None, None]


async def test_a_former_member_sees_files_of_the_time_before(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    files = [(await upload_file(api, alice, group))["id"] for _ in range(2)]
    await send_file(api, alice, group, files[0])
    await api.leave(bob, group)
    await send_file(api, alice, group, files[1])
    assert [await states(api, file, bob, carol) for file in files] == [["READY", "READY"], [None, "READY"]]


async def test_a_file_in_a_channel_is_seen_with_the_right_to_read_the_history(api: Api) -> None:
    sample = await create_sample_channels(api)
    users = (sample.member, sample.other, sample.outsider)
    file, secret = [
        (await upload_file(api, sample.member, channel))["id"] for channel in (sample.general, sample.staff)
    ]
    await send_file(api, sample.member, sample.general, file)
    await send_file(api, sample.member, sample.staff, secret)
    assert await states(api, file, *users) == ["READY", "READY", None]
    assert await states(api, secret, *users) == ["READY", None, None]
    await sample.overwrite(sample.general, sample.other, Permission.READ_HISTORY)
    assert await states(api, file, *users) == ["READY", None, None]


async def test_the_owner_gets_no_address_of_a_file_in_a_message_that_they_may_not_read(api: Api) -> None:
    sample = await create_sample_channels(api)
    sent, unused = [(await upload_file(api, sample.other, sample.general))["id"] for _ in range(2)]
    await send_file(api, sample.other, sample.general, sent)
    await api.wait_until_idle()
    assert await states(api, sent, sample.other, sample.member) == ["READY", "READY"]
    await sample.remove(sample.other)
    answers = [await find_file(api, sample.other, sent), (await api.data(sample.other, COMPLETE, id=sent))]
    found = [answers[0], (answers[1] or {})["completeUpload"]]
    assert [(each["url"], each["thumbnailUrl"]) for each in found if each is not None] == [(None, None)] * 2
    assert await states(api, sent, sample.member) == ["READY"]
    assert await states(api, unused, sample.other) == ["READY"]


async def test_a_file_in_a_message_is_neither_cancelled_nor_replaced(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    done = await upload_file(api, alice, group)
    await send_file(api, alice, group, done["id"])
    await api.wait_until_idle()
    before = rows(api)
    assert await api.expect_refusal(alice, CANCEL, id=done["id"]) == Refusal("INVALID_INPUT", "uploadId")
    assert await api.data(bob, CANCEL, id=done["id"]) == {"cancelUpload": False}
    assert (await api.data(alice, COMPLETE, id=done["id"]))["completeUpload"]["state"] == "READY"
    app = api.services.app
    url = app.addresses.upload(int(done["id"][2:]), app.store.clock.now_ms() + 60_000)  # type: ignore[arg-type]
    assert (await put(api, url)).status_code == 409
    assert rows(api) == before

"""Access to a file by its id: its owner, and those who may read its message at that moment."""

from __future__ import annotations

from tests.api.broadcast.calls import copies_of
from tests.api.client import Api, private_id
from tests.api.files.calls import find_file, upload_file
from tests.api.threads.live_calls import make_thread

REMOVE = "mutation ($id: ID!, $user: ID!) { removeMember(groupId: $id, userId: $user) { id } }"


async def send_file(api: Api, sender: str, to: str, conversation: str, **more: object) -> str:
    file = await upload_file(api, sender, conversation)
    await api.send(sender, to, "", attachmentIds=[file["id"]], **more)
    return str(file["id"])


async def test_only_the_two_people_see_a_file_of_a_private_conversation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    file = await send_file(api, alice, bob, private_id(alice, bob))
    for user in (alice, bob):
        found = await find_file(api, user, file)
        assert found is not None and found["url"] is not None
    assert await find_file(api, carol, file) is None


async def test_only_members_see_a_file_of_a_group(api: Api) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    file = await send_file(api, alice, group, group)
    assert [await find_file(api, user, file) is not None for user in (alice, bob, carol, dave)] == [True] * 3 + [False]
    await api.invite(alice, group, dave)
    assert await find_file(api, dave, file) is None
    await api.data(alice, REMOVE, id=group, user=carol)
    assert await find_file(api, carol, file) is not None
    later = await send_file(api, alice, group, group)
    assert [await find_file(api, user, later) is not None for user in (bob, carol, dave)] == [True, False, True]


async def test_only_people_of_a_private_conversation_see_a_file_of_its_thread(api: Api) -> None:
    place = await make_thread(api, "private")
    (stranger,) = await api.create_users("stranger")
    file = await send_file(api, place.first, place.parent["id"], place.id)
    people = (place.first, place.second, stranger)
    assert [await find_file(api, user, file) is not None for user in people] == [True, True, False]


async def test_who_reads_the_copy_of_a_reply_sees_its_file(api: Api) -> None:
    place = await make_thread(api, "group")
    newcomer, stranger = await api.create_users("newcomer", "stranger")
    await api.invite(place.first, place.conversation, newcomer)
    file = await upload_file(api, place.first, place.conversation)
    more = {"broadcast": True, "attachmentIds": [file["id"]]}
    sent = (await api.send(place.first, place.parent["id"], "", **more))["message"]
    assert len(await copies_of(api, place.second, place, sent["id"])) == 1
    for user, sees in ((place.second, True), (newcomer, True), (stranger, False)):
        assert (await find_file(api, user, file["id"]) is not None) is sees
    await api.recall(place.first, sent["id"])
    assert await find_file(api, newcomer, file["id"]) is None

"""Addresses are issued to people who may read the message at that moment, and to nobody else."""

from __future__ import annotations

from typing import Any

from tests.api.client import Api, Json, private_id
from tests.api.files.calls import BYTES, find_file
from tests.api.group_calls import REMOVE
from tests.api.serving.conftest import HOST, FileServer
from tests.api.serving.test_uploaded_files import upload

FILES = "attachments { id url thumbnailUrl }"
SEND = f"mutation ($input: SendMessageInput!) {{ sendMessage(input: $input) {{ message {{ id {FILES} }} }} }}"
SHOWN = f"""query ($id: ID!, $message: ID!) {{
    message(id: $message) {{ {FILES} }}
    messages(conversationId: $id, last: 50) {{ edges {{ node {{ id {FILES} replyTo {{ {FILES} }} }} }} }}
    session(conversationId: $id) {{ lastMessage {{ {FILES} }} }} }}"""
LIVE = f"""subscription {{ messageEvents {{ __typename ... on MessageCreated {{ message {{ {FILES} }} }}
    ... on MessageRecalled {{ message {{ {FILES} }} }} ... on CaughtUp {{ reset }} }} }}"""


async def send(server: FileServer, user: str, conversation: str, **more: Any) -> Json:
    """Return a message with one file."""
    file = await upload(server, user, conversation, BYTES)
    fields = {"conversationId": conversation, "content": "", "attachmentIds": [file["id"]]} | more
    message: Json = (await server.api.data(user, SEND, input=fields))["sendMessage"]["message"]
    return message


def addresses(value: Any) -> set[str]:
    """Return all addresses of files in an answer."""
    if isinstance(value, dict):
        own = {value["url"]} if value.get("url") else set()
        return own.union(*(addresses(each) for each in value.values()))
    return set().union(*(addresses(each) for each in value)) if isinstance(value, list) else set()


async def status(server: FileServer, address: str) -> int:
    return (await server.http.get(address.removeprefix(HOST))).status_code


async def read_all(api: Api, user: str, conversation: str, message: Json) -> set[str]:
    found = addresses(await api.data(user, SHOWN, id=conversation, message=message["id"]))
    file = await find_file(api, user, message["attachments"][0]["id"])
    return found | addresses(file)


async def test_every_reader_gets_an_address_that_works(server: FileServer) -> None:
    api = server.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    live = [await api.listen(user, LIVE) for user in (bob, carol)]
    message = await send(server, alice, group)
    (address,) = addresses(message)
    assert await status(server, address) == 200
    # Events are rendered once, and pages within five minutes have the same addresses.
    for device in live:
        event = await device.next()
        assert {each.partition("?")[0] for each in addresses(event)} == {address.partition("?")[0]}
    for reader in (bob, carol):
        found = await read_all(api, reader, group, message)
        assert {each.partition("?")[0] for each in found} == {address.partition("?")[0]}
        assert [await status(server, each) for each in found] == [200] * len(found)
    assert await read_all(api, dave, group, message) == set()


async def test_after_a_recall_no_address_is_issued_and_those_before_are_not_found(server: FileServer) -> None:
    api = server.api
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    await api.send(alice, bob)
    message = await send(server, alice, conversation)
    answer = await send(server, bob, conversation, replyToId=message["id"])
    (address,) = addresses(message)
    live = await api.listen(bob, LIVE)
    assert await status(server, address) == 200
    await api.recall(alice, message["id"])
    await api.wait_until_idle()
    assert await status(server, address) == 404
    assert addresses(await live.next()) == set()
    for user in (alice, bob):
        assert await read_all(api, user, conversation, message) == addresses(answer)
        assert addresses(await api.data(user, SHOWN, id=conversation, message=message["id"])) == addresses(answer)


async def test_who_was_removed_gets_no_addresses_of_later_messages(server: FileServer) -> None:
    api = server.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    earlier = await send(server, alice, group)
    await api.data(alice, REMOVE, id=group, user=bob)
    later = await send(server, alice, group, replyToId=earlier["id"])
    await api.wait_until_idle()
    # Former members see what they could read.
    assert {each.partition("?")[0] for each in await read_all(api, bob, group, earlier)} == {
        each.partition("?")[0] for each in addresses(earlier)
    }
    shown = await read_all(api, bob, group, later)
    assert not {each.partition("?")[0] for each in shown} & {each.partition("?")[0] for each in addresses(later)}

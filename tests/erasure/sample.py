"""A user with something of every kind, made through the API."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.users.callers import CallerRole
from tests.api.channels.calls import Made, make_workspace
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import SEND, Api, make_caller
from tests.api.devices.calls import REGISTER
from tests.api.files.calls import complete, create_upload, put
from tests.api.pins.calls import pin
from tests.api.reactions.calls import react
from tests.api.workspaces.calls import add_members, create_invite, create_workspace

SERVICE = make_caller("service", CallerRole.SERVICE)


@dataclass(frozen=True)
class ErasedSample:
    """Ids of what was made."""

    user: str
    bob: str
    carol: str
    private: str
    group: str
    message: str
    """From bob in the group, with reactions of both."""
    made: Made
    channel: str
    own_workspace: str
    file: str


async def make_sample(api: Api, user: str | None = None) -> ErasedSample:
    """Make a user with messages, reactions, files, groups, workspaces and settings."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    if user is not None:
        await api.services.sign_in(make_caller(user))
        alice = user
    private = (await api.send(alice, bob, "to bob"))["message"]["conversationId"]
    first = (await api.send(bob, private, "back"))["message"]
    for sender in (bob, alice):
        await api.data(sender, SEND, input={"threadOf": first["id"], "content": "a reply"})
    other = (await api.send(carol, alice, "from carol", subBiz="sales"))["message"]
    await react(api, alice, other["id"])
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(bob, group, "hello", mentions=[alice]))["message"]["id"]
    await api.send(alice, group, "hello", mentions=[bob], idempotencyKey="key")
    await api.data(alice, SEND, input={"threadOf": message, "content": "a reply in the group", "broadcast": True})
    await api.data(bob, SEND, input={"threadOf": message, "content": "another reply"})
    await pin(api, alice, message)
    for reacting in (alice, bob):
        await react(api, reacting, message)
    made = await make_workspace(api)
    await add_members(api, made.id, alice)
    channel = (await made.create())["id"]
    await api.data(alice, FOLLOW, id=channel)
    talk = (await api.send(alice, channel, "in a channel"))["message"]
    await api.send(made.member, channel, "you", mentions=[alice], replyToId=talk["id"])
    own = await create_workspace(api, alice, "Mine")
    await add_members(api, own, carol)
    await create_invite(api, alice, own)
    upload = await create_upload(api, alice, group)
    await put(api, upload["url"])
    await complete(api, alice, upload["id"])
    await api.send(alice, group, "", attachmentIds=[upload["id"]])
    await api.data(alice, REGISTER, input={"id": "phone", "type": "MOBILE"})
    await api.data(alice, 'mutation { setNotificationSettings(input: { keywords: ["x"] }) { keywords } }')
    await api.data(alice, 'mutation { setCustomStatus(text: "away") { customStatus { text } } }')
    await api.wait_until_idle()
    for reader in (alice, bob, carol):
        await api.all_sessions(reader)
    return ErasedSample(alice, bob, carol, private, group, message, made, channel, own, upload["id"])

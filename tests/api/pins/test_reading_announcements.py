"""Reading the SYSTEM message of a pin in a private conversation moves the position that the other person sees."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.pins.calls import pin
from tests.checking import find_differences

ACK = "mutation ($id: ID!) { ackDelivered(conversationId: $id, upToSeq: 9) { id } }"
PEER = "query ($id: ID!) { conversation(id: $id) { session { peerReadSeq peerDeliveredSeq } } }"


@pytest.mark.parametrize(
    ("steps", "seen"),
    [
        (["alice reads"], {"bob": (3, 3), "alice": (2, 2)}),
        (["bob reads"], {"bob": (2, 2), "alice": (3, 3)}),
        (["bob receives"], {"bob": (2, 2), "alice": (2, 3)}),
        (["bob reads", "alice reads"], {"bob": (3, 3), "alice": (3, 3)}),
        (["bob receives", "bob reads"], {"bob": (2, 2), "alice": (3, 3)}),
        (["bob reads", "alice writes"], {"alice": (3, 3)}),
        (["alice writes", "bob receives"], {"alice": (2, 4)}),
        (["alice reads", "alice writes", "bob reads"], {"alice": (4, 4)}),
    ],
)
async def test_the_other_person_sees_the_position(api: Api, steps: list[str], seen: dict[str, tuple[int, int]]) -> None:
    users = dict(zip(("alice", "bob"), await api.create_users("alice", "bob"), strict=True))
    message = (await api.send(users["alice"], users["bob"]))["message"]
    conversation = message["conversationId"]
    await api.send(users["bob"], conversation)
    for user in users.values():
        await api.mark_read(user, conversation)
    await pin(api, users["alice"], message["id"])
    await api.wait_until_idle()
    for step in steps:
        name, act = step.split()
        if act == "reads":
            await api.mark_read(users[name], conversation)
        elif act == "receives":
            await api.data(users[name], ACK, id=conversation)
        else:
            await api.send(users[name], conversation)
    await api.wait_until_idle()
    for name, positions in seen.items():
        session = (await api.data(users[name], PEER, id=conversation))["conversation"]["session"]
        assert (session["peerReadSeq"], session["peerDeliveredSeq"]) == positions, name
    # A load from MongoDB gives the same positions.
    assert await find_differences(api.services.app.store) == []

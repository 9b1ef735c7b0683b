"""Filters of searches, alone and together."""

from __future__ import annotations

from tests.api.attaching.files import add_file
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import Api, private_id
from tests.api.pins.calls import pin, unpin
from tests.api.sample_channels import SampleChannels
from tests.api.search.calls import found
from tests.api.search.conftest import Settle
from tests.api.session_calls import Json


async def test_results_are_filtered_by_conversation(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, bob, "tea one")
    await api.send(carol, alice, "tea two")
    await api.send(bob, group, "tea three")
    await settle()
    assert await found(api, alice, "tea") == ["tea three", "tea two", "tea one"]
    assert await found(api, alice, "tea", conversationIds=[group]) == ["tea three"]
    both = [private_id(alice, bob), group]
    assert await found(api, alice, "tea", conversationIds=both) == ["tea three", "tea one"]


async def test_results_are_filtered_by_sender(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    for user in (alice, bob, carol):
        await api.send(user, group, f"tea of {user.partition('-')[0]}")
    await settle()
    assert await found(api, alice, "tea", senderIds=[bob]) == ["tea of bob"]
    assert await found(api, alice, "tea", senderIds=[carol, alice]) == ["tea of carol", "tea of alice"]
    assert await found(api, alice, "tea of bob", senderIds=[carol]) == []


async def test_results_are_filtered_by_time_without_both_ends(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent: list[Json] = []
    for number in range(3):
        sent.append((await api.send(alice, bob, f"tea {number}"))["message"])
        while len(sent) > 1 and sent[-1]["createdAt"] == sent[-2]["createdAt"]:
            sent[-1] = (await api.send(alice, bob, f"tea {number}"))["message"]
    await settle()
    first, second, third = [message["createdAt"] for message in sent]
    assert await found(api, bob, '"tea 1"', after=first, before=third) != []
    assert await found(api, bob, '"tea 1"', after=second) == []
    assert await found(api, bob, '"tea 1"', before=second) == []
    assert "tea 0" in await found(api, bob, "tea", before=second)
    assert "tea 0" not in await found(api, bob, "tea", after=first)
    assert await found(api, bob, "tea", before="2025-01-01T00:00:00Z") == []
    assert await found(api, bob, "tea", after="2100-01-01T00:00:00+01:00") == []
    assert len(await found(api, bob, "tea", after="1980-01-01T00:00:00Z", before="2100-01-01T00:00:00Z")) >= 3


async def test_results_are_filtered_by_attachments_and_links(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob, "tea alone")
    file = await add_file(api, alice, private_id(alice, bob))
    await api.send(alice, bob, "tea with a picture", attachmentIds=[file])
    await api.send(alice, bob, "tea at https://example.invalid/tea")
    await settle()
    assert await found(api, bob, "tea", has=["IMAGE"]) == ["tea with a picture"]
    assert await found(api, bob, "tea", has=["FILE"]) == ["tea with a picture"]
    assert await found(api, bob, "tea", has=["FILE", "IMAGE", "IMAGE"]) == ["tea with a picture"]
    assert await found(api, bob, "tea", has=["LINK"]) == ["tea at https://example.invalid/tea"]
    assert await found(api, bob, "tea", has=["VIDEO"]) == []
    assert await found(api, bob, "tea", has=["LINK", "FILE"]) == []


async def test_results_are_filtered_by_pins_as_they_are_now(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    messages = [(await api.send(alice, bob, f"tea {name}"))["message"]["id"] for name in ("a", "b")]
    await settle()
    assert await found(api, bob, "tea", pinned=True) == []
    await pin(api, bob, messages[0])
    assert await found(api, bob, "tea", pinned=True) == ["tea a"]
    assert await found(api, bob, "tea", pinned=False) == ["tea b"]
    await unpin(api, bob, messages[0])
    assert await found(api, bob, "tea", pinned=True) == []
    assert await found(api, bob, "tea", pinned=False) == ["tea b", "tea a"]


async def test_results_are_filtered_by_mentions_of_the_caller(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group, "tea for nobody")
    await api.send(alice, group, "tea for bob", mentions=[bob])
    await api.send(alice, group, "tea for all", mentionAll=True)
    await settle()
    assert await found(api, bob, "tea", mentionsMe=True) == ["tea for all", "tea for bob"]
    assert await found(api, carol, "tea", mentionsMe=True) == ["tea for all"]
    assert await found(api, carol, "tea", mentionsMe=False) == ["tea for bob", "tea for nobody"]
    # A sender is not mentioned by their own message.
    assert await found(api, alice, "tea", mentionsMe=True) == []


async def test_results_are_filtered_by_mentions_of_roles_that_the_caller_has_now(
    api: Api, workspace: SampleChannels, settle: Settle
) -> None:
    for user in (workspace.member, workspace.moderator):
        await api.data(user, FOLLOW, id=workspace.general)
    await api.send(workspace.admin, workspace.general, "tea for guides", mentionRoleIds=[workspace.guide_role])
    await settle()
    assert await found(api, workspace.member, "tea", mentionsMe=True) == []
    await workspace.set_facts(workspace.member, roles=frozenset({workspace.guide_role}))
    assert await found(api, workspace.member, "tea", mentionsMe=True) == ["tea for guides"]
    assert await found(api, workspace.moderator, "tea", mentionsMe=True) == []


async def test_results_are_filtered_by_threads(api: Api, settle: Settle) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob, "tea outside"))["message"]["id"]
    reply = (await api.send(alice, message, "tea inside"))["message"]
    await settle()
    assert await found(api, alice, "tea") == ["tea inside", "tea outside"]
    assert await found(api, alice, "tea", inThreads=True) == ["tea inside"]
    assert await found(api, alice, "tea", inThreads=False) == ["tea outside"]
    both = [private_id(alice, bob), reply["conversationId"]]
    assert await found(api, alice, "tea", conversationIds=both) == ["tea inside", "tea outside"]
    assert await found(api, alice, "tea", conversationIds=both, inThreads=True) == ["tea inside"]
    assert await found(api, alice, "tea", conversationIds=both, inThreads=False) == ["tea outside"]


async def test_results_are_filtered_by_workspace(api: Api, workspace: SampleChannels, settle: Settle) -> None:
    user, general = workspace.member, workspace.general
    await api.data(user, FOLLOW, id=general)
    message = (await api.send(workspace.other, general, "tea in a channel"))["message"]["id"]
    await api.send(user, message, "tea in its thread")
    await api.send(workspace.other, user, "tea in private")
    await settle()
    inside = ["tea in its thread", "tea in a channel"]
    assert await found(api, user, "tea", workspaceId=workspace.id) == inside
    assert await found(api, user, "tea", workspaceId=workspace.id, inThreads=False) == inside[1:]
    assert await found(api, user, "tea", workspaceId=workspace.id, inThreads=True) == inside[:1]
    named = [general, private_id(user, workspace.other)]
    assert await found(api, user, "tea", workspaceId=workspace.id, conversationIds=named) == inside[1:]
    assert await found(api, user, "tea", conversationIds=named) == ["tea in private", "tea in a channel"]


async def test_all_filters_apply_together(api: Api, settle: Settle) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    file = await add_file(api, alice, group)
    wanted = (await api.send(alice, group, "tea a", mentions=[bob], attachmentIds=[file]))["message"]
    await api.send(alice, group, "tea b", mentions=[bob])
    await api.send(carol, group, "tea c", mentions=[bob])
    await pin(api, alice, wanted["id"])
    await settle()
    filters = {
        "conversationIds": [group], "senderIds": [alice], "mentionsMe": True, "has": ["IMAGE"], "pinned": True,
        "inThreads": False, "after": "2025-06-01T00:00:00Z", "before": "2100-01-01T00:00:00Z",
    }  # fmt: skip
    assert await found(api, bob, "tea", **filters) == ["tea a"]
    different = {
        "conversationIds": [], "senderIds": [bob], "mentionsMe": False, "has": ["VIDEO"], "pinned": False,
        "inThreads": True, "after": "2099-01-01T00:00:00Z", "before": "2025-06-02T00:00:00Z",
    }  # fmt: skip
    for name, value in different.items():
        assert await found(api, bob, "tea", **(filters | {name: value})) == [], name

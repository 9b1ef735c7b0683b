"""Entries of services and admins who act for users, in the log of the deployment."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole, act_as
from store.base.ids import UserId
from tests.api.audit.sample import ADMIN, bridge_for, list_entries, stored_entries
from tests.api.client import SEND, Api, gather_all, make_caller, message_input


async def actions_for(api: Api, user: str) -> list[str]:
    """Return the actions of the entries about a user in the log of the deployment, the newest first."""
    return [entry["action"] for entry in await list_entries(api, ADMIN, target=user)]


@pytest.mark.parametrize("role", [CallerRole.SERVICE, CallerRole.ADMIN])
async def test_every_mutation_for_a_user_is_in_the_log(api: Api, role: CallerRole) -> None:
    alice, bob = await api.create_users("alice", "bob")
    bridge = act_as(make_caller("bridge", role), alice, "actAs")
    await api.data(bridge, SEND, input=message_input(bob))
    (entry,) = await list_entries(api, ADMIN, target=alice)
    assert (entry["action"], entry["actor"]["id"], entry["onBehalfOf"]["id"]) == ("sendMessage", "bridge", alice)
    assert (entry["before"], entry["after"]) == (None, None)


async def test_a_mutation_that_failed_is_in_the_log_too(api: Api) -> None:
    alice, *_ = await api.create_users("alice")
    response = await api.run(bridge_for(alice), 'mutation { leaveGroup(groupId: "g_1") }')
    assert "errors" in response
    assert await actions_for(api, alice) == ["leaveGroup"]


async def test_each_root_field_that_is_executed_has_its_entry(api: Api) -> None:
    alice, *_ = await api.create_users("alice")
    document = """mutation ($yes: Boolean!) {
        __typename first: setCustomStatus(text: "a") { setting } ...more
        skipped: updateMe @skip(if: $yes) { id } ... @include(if: $yes) { setPresence(status: DND) { setting } } }
        fragment more on Mutation { second: setCustomStatus(text: "b") { setting } }"""
    await api.data(bridge_for(alice), document, yes=True)
    assert await actions_for(api, alice) == ["setPresence", "setCustomStatus", "setCustomStatus"]


@pytest.mark.parametrize(
    "operation",
    ["{ me { id } }", "mutation ($x: String!) { setCustomStatus(text: $x) { setting } }", "mutation { unknown }"],
    ids=["query", "bad variables", "invalid"],
)
async def test_operations_that_change_nothing_have_no_entry(api: Api, operation: str) -> None:
    alice, *_ = await api.create_users("alice")
    await api.run(bridge_for(alice), operation)
    assert await actions_for(api, alice) == []


async def test_users_who_act_for_themselves_have_no_entry_and_cost_nothing_more(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    before, store = stored_entries(api), api.services.app.store
    for caller in (make_caller(alice), act_as(make_caller(alice, CallerRole.SERVICE), alice, "actAs")):
        await api.wait_until_idle()
        trips = store.mongo.trips
        await api.data(caller, SEND, input=message_input(bob))
        assert store.mongo.trips - trips <= 1
    assert stored_entries(api) == before


async def test_entries_of_concurrent_mutations_share_a_write(api: Api) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(30)))
    writes: list[int] = []
    mongo = api.services.app.store.mongo
    insert_each = mongo.insert_each

    async def counted(collection: str, documents: list[object]) -> object:
        if collection == "audit":
            writes.append(len(documents))
        return await insert_each(collection, documents)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mongo, "insert_each", counted)
        await gather_all(*(api.data(bridge_for(user), "mutation { setCustomStatus { setting } }") for user in users))
    assert sum(writes) == 30 and len(writes) < 30


async def test_a_mutation_is_not_executed_if_its_entry_cannot_be_stored(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    before = await api.sessions(alice)
    api.database.command("collMod", "audit", validator={"impossible": True})
    try:
        response = await api.run(bridge_for(alice), SEND, input=message_input(bob))
    finally:
        api.database.command("collMod", "audit", validator={})
    assert response["errors"][0]["extensions"]["code"] == "UNAVAILABLE"
    assert await api.sessions(alice) == before
    assert await api.services.app.store.users.find(UserId(alice)) is not None

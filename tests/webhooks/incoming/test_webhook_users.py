"""The users of incoming webhooks: authors that nobody can be, reach or search for."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.base.errors import InvalidInput, Unauthenticated
from resolvers.users.callers import CallerRole, act_as
from server.auth.authenticator import Authenticator
from server.settings import load_settings
from store.base.ids import is_user_id, is_webhook_user
from store.mongo.collections import USERS
from tests.api.client import Api, Refusal, make_caller
from tests.api.conftest import OpenApi
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.api.search.calls import found, wait_until_indexed
from tests.api.users.searches import find_people
from tests.api.workspaces.calls import ADD
from tests.server.tokens import SECRET, bearer
from tests.webhooks.incoming.hooks import Hook, Hooks

SERVICE = make_caller("a-service", CallerRole.SERVICE)
USERS_OF = "query ($ids: [ID!]!) { users(ids: $ids) { id displayName isBot } }"
USER = "query ($id: ID!) { user(id: $id) { id isBot } node(id: $id) { __typename id } }"
PRESENCES = "query ($ids: [ID!]!) { presences(userIds: $ids) { status } }"


@pytest.fixture
async def hook(hooks: Hooks, workspace: SampleChannels) -> Hook:
    return await hooks.create(workspace.admin, workspace.general)


async def test_no_token_signs_in_as_a_webhook(hook: Hook) -> None:
    authenticator = Authenticator(load_settings(jwt_secret=SECRET))
    token = bearer(sub=hook.id).removeprefix("Bearer ")
    with pytest.raises(Unauthenticated, match="is not a user id"):
        await authenticator.authenticate(token)


async def test_no_service_acts_as_a_webhook(hook: Hook) -> None:
    with pytest.raises(InvalidInput):
        act_as(SERVICE, hook.id, "actAs")


async def test_the_profile_of_a_webhook_is_not_written_by_services(api: Api, hook: Hook) -> None:
    mutation = 'mutation ($id: ID!) { upsertUsers(input: [{id: $id, displayName: "Root"}]) { id } }'
    assert await api.expect_refusal(SERVICE, mutation, id=hook.id) == Refusal("INVALID_INPUT", "id")
    (row,) = await api.services.app.store.mongo.find(USERS, {"_id": hook.id})
    assert row["n"] == "ci"


@pytest.mark.parametrize(
    ("document", "variables", "refusal"),
    [
        ('mutation ($id: ID!) { sendMessage(input: {toUserId: $id, content: "x"}) { message { id } } }', {},
         Refusal("NOT_FOUND", "toUserId")),
        ("mutation ($id: ID!) { createGroup(input: {memberIds: [$id]}) { id } }", {}, None),
        ("mutation ($id: ID!, $c: ID!) { sendMessage(input: {conversationId: $c, content: \"x\", mentions: [$id]}) { "
         "message { id } } }", {"c": "general"}, Refusal("INVALID_INPUT", "mentions")),
    ],
)  # fmt: skip
async def test_nobody_writes_to_a_webhook_or_adds_it_to_a_group(
    api: Api,
    workspace: SampleChannels,
    hook: Hook,
    document: str,
    variables: dict[str, str],
    refusal: Refusal | None,
) -> None:
    named = {name: getattr(workspace, value) for name, value in variables.items()}
    refused = await api.expect_refusal(workspace.member, document, id=hook.id, **named)
    assert refused == refusal if refusal is not None else refused.code in ("NOT_FOUND", "INVALID_INPUT")
    mongo = api.services.app.store.mongo
    assert await mongo.find("sessions", {"_id": {"$regex": hook.id}}) == []
    assert await mongo.find("members", {"_id": {"$regex": hook.id}}) == []


async def test_a_webhook_is_no_member_of_the_workspace(api: Api, workspace: SampleChannels, hook: Hook) -> None:
    assert (await api.expect_refusal(SERVICE, ADD, id=workspace.id, users=[hook.id])).code in (
        "NOT_FOUND",
        "INVALID_INPUT",
    )
    rows = await api.services.app.store.mongo.find("workspace_members", {"_id": {"$regex": hook.id}})
    assert rows == []


async def test_the_user_of_a_webhook_is_read_by_its_id(api: Api, workspace: SampleChannels, hook: Hook) -> None:
    shown = (await api.data(workspace.member, USERS_OF, ids=[hook.id]))["users"]
    assert shown == [{"id": hook.id, "displayName": "ci", "isBot": True}]
    found_user = await api.data(workspace.member, USER, id=hook.id)
    assert found_user["user"] == {"id": hook.id, "isBot": True}
    assert (await api.data(workspace.member, PRESENCES, ids=[hook.id]))["presences"] == [{"status": "OFFLINE"}]


@pytest.mark.parametrize("has_directory", [False, True])
async def test_a_webhook_is_not_found_by_searching_for_people(open_api: OpenApi, has_directory: bool) -> None:
    async with open_api(f"directory-{has_directory}", user_directory=has_directory) as api:
        workspace = await create_sample_channels(api)
        hooks = Hooks(api)
        hook = await hooks.create(workspace.admin, workspace.general, "findable")
        await hooks.sent(hook)
        store = api.services.app.store
        # As housekeeping does for rows without current search fields.
        await store.user_search.fill()
        for query in ("findable", "find", hook.id, hook.id[:6], ""):
            people: list[Any] = await find_people(api, workspace.member, query)
            assert hook.id not in people


async def test_messages_are_searched_by_the_webhook_as_their_sender(
    api: Api, hooks: Hooks, workspace: SampleChannels, hook: Hook
) -> None:
    other = await hooks.create(workspace.admin, workspace.general)
    await hooks.sent(hook, "deployed zebra", username="zoo")
    await hooks.sent(other, "another zebra")
    await wait_until_indexed(api)
    where = {"conversationIds": [workspace.general]}
    assert await found(api, workspace.member, "zebra", senderIds=[hook.id], **where) == ["deployed zebra"]
    assert len(await found(api, workspace.member, "zebra", **where)) == 2


@pytest.mark.parametrize(
    "id", ["h_", "h_1", "h_12345678901234", "h_0123456789012345", "h_12345678901234567890", "H_123456789012345"]
)
def test_ids_of_another_form_are_those_of_users(id: str) -> None:
    assert is_user_id(id) and not is_webhook_user(id)


@pytest.mark.parametrize("id", ["h_123456789012345", "h_9223372036854775807"])
def test_ids_of_webhooks_are_no_user_ids(id: str) -> None:
    assert is_webhook_user(id) and not is_user_id(id)

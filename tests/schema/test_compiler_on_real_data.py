"""The whole of Confab's schema, compiled and as graphql-core executes it: the same answers on the same data."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from graphql import ExecutionResult, GraphQLArgument, execute, get_named_type, parse, validate

import schema.execution.engine
from resolvers.users.callers import CallerRole
from schema.base.context import Context
from schema.execution.prepared_operations import PreparedOperation
from schema.root import SCHEMA
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, RequestRefused
from tests.api.client import Api, make_caller, private_id
from tests.schema.error_positions import Place, nulled
from tests.schema.generated_queries import Chooser, Writer

EXAMPLES = int(os.environ.get("CONFAB_TEST_QUERIES", "100"))
SEED = int(os.environ.get("CONFAB_TEST_SEED", "1"))

CORE = SCHEMA._schema

REPEATABLE = {
    "markRead", "muteSession", "pinSession", "assignCategory", "ackDelivered", "sendMessage", "editMessage", "recallMessage",
    "updateGroup", "inviteMembers", "setMemberRole", "upsertUsers", "leaveGroup", "removeMember", "renewAuth",
}  # fmt: skip
"""Mutations that answer alike when they are sent again, or refuse alike. Others of the type `Mutation` aren't asked."""


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""graphql-core forgets what an error cut off."""


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    # It is found here, and not in the middle of another module.
    gc.collect()


class World:
    """Who and what the queries are about."""

    def __init__(self) -> None:
        self.users: list[str] = []
        self.ids: list[str] = []
        self.conversations: list[str] = []
        self.messages: list[str] = []
        self.cursors: list[str] = []

    def value(self, chance: Chooser, name: str, argument: GraphQLArgument) -> str:
        """The text of a value for an argument."""
        named = get_named_type(argument.type).name
        match name, named:
            case (("first" | "last"), _):
                return chance.choice(("1", "2", "50", "null", "0"))
            case "toSeq" | "upToSeq" | "priority", _:
                return chance.choice(("0", "1", "2", "900"))
            case (("after" | "before" | "since"), _):
                return json.dumps(chance.choice(self.cursors))
            case (("conversationIds" | "userIds" | "memberIds"), _):
                pool = self.conversations if name == "conversationIds" else self.users
                return json.dumps([chance.choice(pool), chance.choice(pool)])
            case "userId", _:
                return json.dumps(chance.choice(self.users))
            case "messageId", _:
                return json.dumps(chance.choice(self.messages))
            case (("conversationId" | "groupId"), _):
                return json.dumps(chance.choice(self.conversations))
            case "until", _:
                return '"9999-01-01T00:00:00Z"'
            case "input", "SendMessageInput":
                return f'{{ conversationId: "{chance.choice(self.conversations)}", content: "again", idempotencyKey: "{chance.randint(1, 3)}" }}'
            case "input", "UserInput":
                return f'[{{ id: "{chance.choice(self.users)}", displayName: "Somebody" }}]'
            case "input", _:
                return '{ name: "Renamed" }'
            case _, "ID":
                return json.dumps(chance.choice((*self.ids, *self.users, *self.messages, *self.conversations)))
            case _, "Boolean":
                return chance.choice(("true", "false"))
            case _, "ReceiptStatus":
                return chance.choice(("READ", "DELIVERED", "SENT"))
            case _, "GroupRole":
                return chance.choice(("ADMIN", "MEMBER"))
        return '"work"'


@pytest.fixture(scope="module")
async def world(process: Api) -> AsyncIterator[World]:
    """A little of everything."""
    api, found = process, World()
    ada, bob, cem, dora = found.users = await api.create_users("ada", "bob", "cem", "dora")
    group = await api.create_group(ada, bob, cem)
    full = await api.create_group(bob, ada, dora, name="Full", historyVisibility="FULL")
    first = await api.send(ada, bob, "one")
    second = await api.send(bob, ada, "two", replyToId=first["message"]["id"])
    in_group = await api.send(bob, group, "all of you", mentions=[ada])
    for to in (full, cem):
        await api.send(ada, to, "hello")
    await api.send(cem, ada, "for the shop", subBiz="shop")
    recalled = await api.send(ada, bob, "gone")
    await api.recall(ada, recalled["message"]["id"])
    await api.edit(bob, second["message"]["id"], "two, edited")
    await api.leave(cem, group)
    await api.mute(ada, group)
    await api.pin(ada, private_id(ada, bob), 3)
    await api.assign(ada, "work", group)
    await api.mark_read(ada, private_id(ada, bob))
    await api.wait_until_idle()
    sent = (first, second, in_group, recalled)
    found.messages = [one["message"]["id"] for one in sent] + ["m_12"]
    found.conversations = [
        private_id(ada, bob),
        private_id(ada, cem, "shop"),
        private_id(bob, cem),
        group,
        full,
        "b_shop",
        "g_77",
        "x",
    ]
    page = (await api.data(ada, "{ sessions(first: 2) { cursor pageInfo { endCursor } } }"))["sessions"]
    found.ids = [one["session"]["id"] for one in sent] + [f"s_{ada}_{group}", "", "s_x"]
    found.cursors = [page["cursor"], page["pageInfo"]["endCursor"], "", "nonsense"]
    yield found


def context_of(api: Api, user: str, role: CallerRole) -> Context:
    return api.services.engine._context(ConnectionContext(make_caller(user, role), "request"))


async def standard(query: str, context: Context) -> ExecutionResult:
    outcome: Any = execute(CORE, parse(query), context_value=context, hide_suggestions=True)
    return await outcome if hasattr(outcome, "__await__") else outcome  # type: ignore[no-any-return]


def prepared(api: Api, query: str) -> PreparedOperation | None:
    """None where the limits are passed."""
    try:
        return api.services.engine.prepare(GraphQLRequest(query))
    except RequestRefused:
        return None


def spelt(result: ExecutionResult) -> tuple[str, set[Place]]:
    """The answer, in its order, and what went wrong."""
    return json.dumps(result.data), nulled(result)


@pytest.mark.parametrize(("kind", "examples", "most"), [("query", EXAMPLES, 5), ("mutation", EXAMPLES // 4, 1)])
async def test_generated_operations_are_answered_alike(
    process: Api, world: World, kind: str, examples: int, most: int
) -> None:
    chance = random.Random(SEED)
    root = CORE.query_type if kind == "query" else CORE.mutation_type
    assert root is not None
    asked, answered, with_errors = 0, 0, 0
    while asked < examples:
        writer = Writer(CORE, chance, world.value, depth=chance.randint(1, 6), width=5)
        query = writer.document(root, kind, most)
        if validate(CORE, parse(query)) or ((set(root.fields) - REPEATABLE) & writer.used and kind == "mutation"):
            continue
        operation = prepared(process, query)
        if operation is None:
            continue
        assert operation.compiled is not None
        asked += 1
        who, role = chance.choice(world.users), chance.choice(tuple(CallerRole))
        if kind == "mutation":
            await standard(query, context_of(process, who, role))
            await process.wait_until_idle()
        expected = await standard(query, context_of(process, who, role))
        found = await operation.compiled.execute(None, None, context_of(process, who, role))
        assert spelt(found) == spelt(expected), query
        answered += found.data is not None
        with_errors += bool(found.errors)
    # Not all of it may be refused, nor all of it be well.
    assert answered > examples // 4
    assert with_errors > examples // 20


async def test_events_are_shown_alike(process: Api, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[Any, Any, str]] = []
    execution = schema.execution.engine._event_execution

    def both(operation: PreparedOperation, executor: Any) -> Any:
        ours, theirs = (
            execution(operation, executor),
            execution(dataclasses.replace(operation, compiled=None), executor),
        )

        async def run(shown: object, context: Context) -> ExecutionResult:
            found, expected = await ours(shown, context), theirs(shown, dataclasses.replace(context))
            expected = await expected if hasattr(expected, "__await__") else expected
            compared.append((spelt(found), spelt(expected), str(executor.operation.loc.source.body)))
            return found  # type: ignore[no-any-return]

        return run

    monkeypatch.setattr(schema.execution.engine, "_event_execution", both)
    chance, root = random.Random(SEED), CORE.subscription_type
    assert root is not None
    listening = 0
    while listening < 24:
        name = chance.choice(sorted(root.fields))
        writer = Writer(CORE, chance, lambda *_: "null", depth=chance.randint(2, 4), width=6)
        query = writer.under("subscription", name, get_named_type(root.fields[name].type))
        if validate(CORE, parse(query)) or prepared(process, query) is None:
            continue
        try:
            await process.subscribe(chance.choice(world.users), query)
        except RequestRefused:
            continue
        listening += 1
    ada, bob, *_ = world.users
    sent = await process.send(ada, bob, "live")
    await process.edit(ada, sent["message"]["id"], "live, edited")
    await process.mark_read(bob, private_id(ada, bob))
    await process.recall(ada, sent["message"]["id"])
    await process.pin(ada, private_id(ada, bob), 5)
    await process.send(bob, world.conversations[4], "in the group")
    await process.data(ada, "mutation ($id: ID!) { startTyping(conversationId: $id) }", id=private_id(ada, bob))
    await process.wait_until_idle()
    assert len(compared) > 40
    for found, expected, query in compared:
        assert found == expected, query

"""Confab's whole schema, compiled and executed by graphql-core: the same results on the same data."""

from __future__ import annotations

import base64
import dataclasses
import gc
import json
import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from functools import partial
from math import inf
from typing import Any

import pytest
from graphql import ExecutionResult, GraphQLArgument, execute, get_named_type, parse, validate

import schema.execution.prepared_operations
from resolvers.users.callers import CallerRole
from schema.base.context import Context
from schema.compiler import compile_operation
from schema.execution.prepared_operations import PreparedOperation
from schema.root import SCHEMA
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, RequestRefused, encode
from tests.api.client import Api, make_caller, private_id
from tests.schema.error_positions import Position, null_positions
from tests.schema.generated_queries import QueryWriter, RandomSource

EXAMPLES = int(os.environ.get("CONFAB_TEST_QUERIES", "40"))
SEED = int(os.environ.get("CONFAB_TEST_SEED", "1"))

_CHANNELS_CURSOR = base64.urlsafe_b64encode(b"c2\n").decode()
"""The beginning of a cursor of syncChannels."""

CORE = SCHEMA._schema

REPEATABLE = {
    "markRead", "muteSession", "pinSession", "assignCategory", "ackDelivered", "sendMessage", "editMessage",
    "recallMessage",
    "updateGroup", "inviteMembers", "setMemberRole", "upsertUsers", "leaveGroup", "removeMember", "renewAuth",
}  # fmt: skip
"""Mutations that give the same answer or the same refusal when repeated. Others are not generated."""


pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""graphql-core leaves coroutines behind when an error cancels them."""


@pytest.fixture(scope="module", autouse=True)
def _collect_garbage() -> Iterator[None]:
    yield
    # Collect leftover coroutines here, not during another module.
    gc.collect()


@pytest.fixture(autouse=True)
def _generate_code_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, few selections of the sample data have enough objects."""
    compile_at_once = partial(compile_operation, generate_after=0)
    monkeypatch.setattr(schema.execution.prepared_operations, "compile_operation", compile_at_once)


class SampleData:
    """Ids of the data that the queries are about."""

    def __init__(self) -> None:
        self.users: list[str] = []
        self.ids: list[str] = []
        self.conversations: list[str] = []
        self.messages: list[str] = []
        self.cursors: list[str] = []

    def write_value(self, rng: RandomSource, name: str, argument: GraphQLArgument) -> str:
        """Return the text of a value for an argument."""
        type_name = get_named_type(argument.type).name
        match name, type_name:
            case (("first" | "last"), _):
                return rng.choice(("1", "2", "50", "null", "0"))
            case "toSeq" | "upToSeq" | "priority", _:
                return rng.choice(("0", "1", "2", "900"))
            case (("after" | "before" | "since"), _):
                return json.dumps(rng.choice(self.cursors))
            case (("conversationIds" | "userIds" | "memberIds"), _):
                ids = self.conversations if name == "conversationIds" else self.users
                return json.dumps([rng.choice(ids), rng.choice(ids)])
            case "userId", _:
                return json.dumps(rng.choice(self.users))
            case "messageId", _:
                return json.dumps(rng.choice(self.messages))
            case (("conversationId" | "groupId"), _):
                return json.dumps(rng.choice(self.conversations))
            case "until", _:
                return '"9999-01-01T00:00:00Z"'
            case "input", "SendMessageInput":
                return (
                    f'{{ conversationId: "{rng.choice(self.conversations)}", content: "again", idempotencyKey: '
                    f'"{rng.randint(1, 3)}" }}'
                )
            case "input", "UserInput":
                return f'[{{ id: "{rng.choice(self.users)}", displayName: "Somebody" }}]'
            case "input", _:
                return '{ name: "Renamed" }'
            case _, "ID":
                return json.dumps(rng.choice((*self.ids, *self.users, *self.messages, *self.conversations)))
            case _, "Boolean":
                return rng.choice(("true", "false"))
            case _, "ReceiptStatus":
                return rng.choice(("READ", "DELIVERED", "SENT"))
            case _, "GroupRole":
                return rng.choice(("ADMIN", "MEMBER"))
        return '"work"'


@pytest.fixture(scope="module")
async def sample_data(process: Api) -> AsyncIterator[SampleData]:
    """Data with sessions, groups, messages, settings and cursors of every kind."""
    api, result = process, SampleData()
    ada, bob, cem, dora = result.users = await api.create_users("ada", "bob", "cem", "dora")
    group = await api.create_group(ada, bob, cem)
    full = await api.create_group(bob, ada, dora, name="Full", historyVisibility="FULL")
    first = await api.send(ada, bob, "one")
    second = await api.send(bob, ada, "two", replyToId=first["message"]["id"])
    in_group = await api.send(bob, group, "all of you", mentions=[ada], metadata={"order": [7]})
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
    result.messages = [payload["message"]["id"] for payload in sent] + ["m_12"]
    result.conversations = [
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
    result.ids = [payload["session"]["id"] for payload in sent] + [f"s_{ada}_{group}", "", "s_x"]
    result.cursors = [page["cursor"], page["pageInfo"]["endCursor"], "", "nonsense"]
    yield result


def create_context(api: Api, user: str, role: CallerRole) -> Context:
    return api.services.engine._context(ConnectionContext(make_caller(user, role), "request"))


async def execute_with_graphql_core(query: str, context: Context) -> ExecutionResult:
    outcome: Any = execute(CORE, parse(query), context_value=context, hide_suggestions=True)
    return await outcome if hasattr(outcome, "__await__") else outcome  # type: ignore[no-any-return]


async def prepare(api: Api, query: str) -> PreparedOperation | None:
    """Return the prepared operation, or None if a limit refuses it."""
    try:
        return await api.services.engine.prepare(GraphQLRequest(query), make_caller("tester"))
    except RequestRefused:
        return None


def as_text(result: ExecutionResult, began_ms: float = inf) -> tuple[str, set[Position]]:
    """Return the data in their order, and the errors.

    A cursor of syncChannels contains the time: it is left out. So are times since a moment, as in `Presence.at`.
    """
    data = re.sub(rf'"{_CHANNELS_CURSOR}[^"]*"', '"cursor"', encode({"data": result.data}).decode())
    data = re.sub(r"\b\d{13}\b", lambda number: "now" if int(number[0]) >= began_ms else number[0], data)
    return data, null_positions(result)


@pytest.mark.parametrize(("kind", "examples", "max_fields"), [("query", EXAMPLES, 5), ("mutation", EXAMPLES // 4, 1)])
async def test_generated_operations_have_the_same_results(
    process: Api, sample_data: SampleData, kind: str, examples: int, max_fields: int
) -> None:
    rng = random.Random(SEED)
    root = CORE.query_type if kind == "query" else CORE.mutation_type
    assert root is not None
    generated, answered, with_errors = 0, 0, 0
    while generated < examples:
        writer = QueryWriter(CORE, rng, sample_data.write_value, depth=rng.randint(1, 6), width=5)
        query = writer.document(root, kind, max_fields)
        if validate(CORE, parse(query)) or ((set(root.fields) - REPEATABLE) & writer.used and kind == "mutation"):
            continue
        operation = await prepare(process, query)
        if operation is None:
            continue
        assert operation.compiled is not None
        generated += 1
        user, role = rng.choice(sample_data.users), rng.choice(tuple(CallerRole))
        if kind == "mutation":
            await execute_with_graphql_core(query, create_context(process, user, role))
            await process.wait_until_idle()
        began_ms = process.services.app.store.clock.now_ms()
        expected = await execute_with_graphql_core(query, create_context(process, user, role))
        result = await operation.compiled.execute(None, None, create_context(process, user, role))
        assert as_text(result, began_ms) == as_text(expected, began_ms), query
        answered += result.data is not None
        with_errors += bool(result.errors)
    # Neither may all operations be refused, nor may all be without errors.
    assert answered > examples // 4
    assert with_errors > examples // 20


async def test_events_of_generated_subscriptions_have_the_same_results(
    process: Api, sample_data: SampleData, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[Any, Any, str]] = []
    execution = PreparedOperation.event_execution

    def execute_both(operation: PreparedOperation, executor: Any, max_values: int) -> Any:
        compiled_result, core_result = (
            execution(operation, executor, max_values),
            execution(dataclasses.replace(operation, compiled=None), executor, max_values),
        )

        async def run(event: object, context: Context, yield_control: Any) -> ExecutionResult:
            result, expected = (
                compiled_result(event, context, yield_control),
                core_result(event, dataclasses.replace(context), yield_control),
            )
            result = await result if hasattr(result, "__await__") else result
            expected = await expected if hasattr(expected, "__await__") else expected
            compared.append((as_text(result), as_text(expected), str(executor.operation.loc.source.body)))
            return result  # type: ignore[no-any-return]

        return run

    monkeypatch.setattr(PreparedOperation, "event_execution", execute_both)
    rng, root = random.Random(SEED), CORE.subscription_type
    assert root is not None
    subscribed = 0
    while subscribed < 24:
        name = rng.choice(sorted(root.fields))
        writer = QueryWriter(CORE, rng, lambda *_: "null", depth=rng.randint(2, 4), width=6)
        query = writer.operation_of("subscription", name, get_named_type(root.fields[name].type))
        if validate(CORE, parse(query)) or await prepare(process, query) is None:
            continue
        try:
            await process.subscribe(rng.choice(sample_data.users), query)
        except RequestRefused:
            continue
        subscribed += 1
    ada, bob, *_ = sample_data.users
    sent = await process.send(ada, bob, "live")
    await process.edit(ada, sent["message"]["id"], "live, edited")
    await process.mark_read(bob, private_id(ada, bob))
    await process.recall(ada, sent["message"]["id"])
    await process.pin(ada, private_id(ada, bob), 5)
    await process.send(bob, sample_data.conversations[4], "in the group")
    await process.data(ada, "mutation ($id: ID!) { startTyping(conversationId: $id) }", id=private_id(ada, bob))
    await process.wait_until_idle()
    assert len(compared) > 40
    for result, expected, query in compared:
        assert result == expected, query

"""Random requests over the whole schema, with values that attackers would send."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    get_named_type,
)

from schema.root import SCHEMA
from subscriptions.transport.engine import Json
from tests.schema.generated_queries import QueryWriter, RandomSource
from tests.user_ids import private_id

HOSTILE_TEXTS = (
    "", " ", "\0", "a\0b", "\ud800", "\udfff\ud800", "\n", "a\nb\nc", "\r\n", "\u2028", "\ufeff", "\u202e", "é",
    "e\u0301", "ﬁ", "🙂" * 3,
    '{"$gt": ""}', "{$ne: null}", "$where", "$", "$gt", "a.b", "a.$.b", "this.u == 'x'", "'; return true; //", ".*",
    "^", "(?=a)", "[", "\\", "(a+)+$",
    "*", "?", "%", "_", "'", '"', '"""', "`", ";", "--", "/*", "<script>", "../../etc/passwd", "%00", "%n%s",
    "{u:alice}", "{", "}", "{}", "u:alice", "{p:1}:outbox",
    "p_", "p__", "p_a", "p_a_b", "p_b_a", "p_a_b_c", "p_a_b~", "p_a_b~shop", "p_a_b~Shop", "p_alice_alice",
    "p_alice_bob~x~y", "p_%41_b", "p_a%5fb_c", "p_a_%C3", "p_a%5Fb_c", "s_a%7Cb_g_1", "g_", "g_0", "g_1", "g_-1",
    "g_9223372036854775807", "g_99999999999999999999", "g_1e3", "g_٣", "c_1", "w_1", "b_", "b_shop", "b_SHOP", "m_",
    "m_0", "m_1", "m_-1", "m_9223372036854775808", "m_0x10", "m_ 1",
    "m_\uff11", "s_", "s_alice_p_alice_bob", "s_alice_", "s__", "null", "undefined", "NaN", "true", "0", "-1",
    "1e999", "9" * 40,
    "1970-01-01T00:00:00.000Z", "2090-01-01T00:00:00Z", "2090-01-01", "9999-12-31T23:59:59.999Z",
    "0000-00-00T00:00:00Z", "2090-02-30T00:00:00Z",
    "YzEK", "YzEKYQpiCjA", "====", "a" * 63, "a" * 64, "a" * 65, "a" * 128, "a" * 129, "x" * 4_000, "x" * 4_001,
    "y" * 30_000,
    "http://example.org/a.png", "javascript:alert(1)", "https://" + "a" * 3_000, "shop", "Shop", "a b", "alice bob",
    "alice.x", "alice@x", "__proto__", "constructor",
)  # fmt: skip
"""Values that break careless code: syntax of other languages, odd characters, ids that are almost valid."""

_INTS = (0, 1, 2, 3, 10, 50, 100, 101, -1, -100, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63, 2**64)
_LITERALS = (
    "null",
    "true",
    "1.5",
    "1e400",
    "[]",
    "{}",
    "[[null]]",
    "{a: 1}",
    "FOO",
    '"x"',
    "[1, [2]]",
    '{content: {a: "$ne"}}',
)
_WRONG_VALUES = (None, True, 1.5, [], {}, [[]], {"$gt": ""}, {"$where": "1"}, [None], 0, "", 1e300, [{"$ne": None}])
_ID = re.compile(r"\A[A-Za-z0-9_.~@-]{1,200}\Z")
_KINDS = {
    "query": SCHEMA._schema.query_type,
    "mutation": SCHEMA._schema.mutation_type,
    "subscription": SCHEMA._schema.subscription_type,
}
_CONDITIONS = {"yes": "true", "no": "false"}
_HEADER = "($yes: Boolean = true, $no: Boolean = false)"


class RandomRequests:
    """Makes random requests, and remembers ids and cursors from the answers."""

    def __init__(self, rng: random.Random, users: list[str]) -> None:
        self._rng = rng
        self._users = users
        self._known: dict[str, list[str]] = defaultdict(list)
        self._variables: list[tuple[str, str, Any]] = []
        self._uses_variables = False

    def learn(self, answer: Any, name: str = "") -> None:
        """Remember the ids and cursors of an answer."""
        match answer:
            case dict():
                for key, value in answer.items():
                    self.learn(value, key)
            case list():
                for value in answer:
                    self.learn(value, name)
            case str() if name in ("cursor", "endCursor", "startCursor"):
                self._keep("cursor", answer)
            case str() if name in ("id", "conversationId", "idempotencyKey", "categoryId", "subBiz") and _ID.match(
                answer
            ):
                self._keep(answer[:2] if answer[1:2] == "_" else name, answer)
            case _:
                pass

    def _keep(self, kind: str, value: str) -> None:
        known_ids = self._known[kind]
        if len(known_ids) < 60:
            known_ids.append(value)
        else:
            known_ids[self._rng.randrange(60)] = value

    def request(self, kind: str | None = None) -> Json:
        """Return the parameters of one random request."""
        rng = self._rng
        kind = kind or rng.choices(("query", "mutation", "subscription"), (5, 6, 1))[0]
        self._variables, self._uses_variables = [], rng.random() < 0.5
        max_fields = 1 if kind == "subscription" else rng.choice((1, 1, 1, 2, 4))
        writer = QueryWriter(SCHEMA._schema, rng, self._argument, rng.choice((2, 3, 3, 4)), rng.choice((2, 3, 4)))  # type: ignore[arg-type]
        root = _KINDS[kind]
        assert root is not None
        if kind == "subscription" and rng.random() < 0.9:
            name, field = rng.choice(sorted(root.fields.items()))
            arguments = ", ".join(
                f"{arg}: {self._argument(rng, arg, definition)}" for arg, definition in field.args.items()
            )
            query = writer.operation_of(kind, f"{name}({arguments})", get_named_type(field.type))
        else:
            query = writer.document(root, kind, max_fields)
        variables = {name: value for name, _, value in self._variables}
        declarations = [f"${name}: {type_}" for name, type_, _ in self._variables]
        query = query.replace(_HEADER, "", 1)
        declarations += [f"${name}: Boolean = {value}" for name, value in _CONDITIONS.items() if f"${name}" in query]
        if declarations:
            query = query.replace(kind, f"{kind} ({', '.join(declarations)})", 1)
        if variables and rng.random() < 0.03:
            del variables[rng.choice(list(variables))]
        body: Json = {"query": query, "variables": variables}
        if rng.random() < 0.04:
            body = self._damage(body)
        return body

    def _damage(self, body: Json) -> Json:
        rng, query = self._rng, body["query"]
        position = rng.randrange(len(query))
        match rng.randrange(6):
            case 0:
                return body | {"query": query[:position] + rng.choice(HOSTILE_TEXTS)[:50] + query[position:]}
            case 1:
                return body | {"query": query[:position] + query[position + rng.randrange(1, 9) :]}
            case 2:
                return body | {"query": query + " fragment C on Query { ...C }" + query}
            case 3:
                return body | {
                    rng.choice(("query", "variables", "operationName", "extensions")): rng.choice(_WRONG_VALUES)
                }
            case 4:
                return body | {"operationName": rng.choice(HOSTILE_TEXTS)}
            case _:
                return body | {"query": query.replace("}", "@defer @skip }", 1)}

    def _argument(self, _rng: RandomSource, name: str, definition: Any) -> str:
        if self._uses_variables and self._rng.random() < 0.7:
            variable = f"v{len(self._variables)}"
            value = self._rng.choice(_WRONG_VALUES) if self._rng.random() < 0.03 else self._value(name, definition.type)
            self._variables.append((variable, str(definition.type), value))
            return f"${variable}"
        if self._rng.random() < 0.03:
            return self._rng.choice(_LITERALS)
        return _literal(self._value(name, definition.type), get_named_type(definition.type))

    def _value(self, name: str, type_: Any) -> Any:
        rng = self._rng
        if isinstance(type_, GraphQLNonNull):
            value = self._value(name, type_.of_type)
            return value if value is not None or rng.random() < 0.05 else self._value(name, type_.of_type)
        if rng.random() < 0.08:
            return None
        if isinstance(type_, GraphQLList):
            return [self._value(name, type_.of_type) for _ in range(rng.choice((0, 1, 2, 2, 3, 60)))]
        if isinstance(type_, GraphQLInputObjectType):
            return self._input(type_)
        if isinstance(type_, GraphQLEnumType):
            return rng.choice([*type_.values])
        match type_.name:
            case "Int":
                return rng.choice(_INTS[:8]) if rng.random() < 0.8 else rng.choice(_INTS)
            case "Boolean":
                return rng.random() < 0.5
            case _:
                return self._text(name)

    def _input(self, type_: GraphQLInputObjectType) -> Json:
        arguments = {
            name: self._value(name, field.type)
            for name, field in type_.fields.items()
            if isinstance(field.type, GraphQLNonNull) or self._rng.random() < 0.4
        }
        if type_.name == "SendMessageInput" and self._rng.random() < 0.85:
            # One destination and ordinary options, so that most messages are accepted.
            arguments = {
                key: value for key, value in arguments.items() if key in ("content", "idempotencyKey", "replyToId")
            }
            to = self._rng.choice(("toUserId", "conversationId"))
            arguments |= {to: self._text(to), "content": self._rng.choice(("hello", "hi @bob", *HOSTILE_TEXTS))}
        if type_.name == "CreateGroupInput" and self._rng.random() < 0.7:
            arguments |= {"memberIds": self._rng.sample(self._users, 3), "name": "Group"}
        return arguments

    def _text(self, name: str) -> str:
        rng = self._rng
        if rng.random() < 0.2:
            return (
                "".join(rng.choices(rng.choice(HOSTILE_TEXTS) or "x", k=3))
                if rng.random() < 0.3
                else rng.choice(HOSTILE_TEXTS)
            )
        kinds = {
            "conversationId": ("g_", "p_", "p_", "b_"), "conversationIds": ("g_", "p_", "b_"), "groupId": ("g_",
            "g_", "p_"), "messageId": ("m_",),
            "replyToId": ("m_",), "id": ("g_", "p_", "m_", "s_", "b_"), "after": ("cursor",), "before": ("cursor",),
            "since": ("cursor",),
            "idempotencyKey": ("idempotencyKey",), "categoryId": ("categoryId",), "subBiz": ("subBiz",),
        }.get(name)  # fmt: skip
        if kinds is None or (name == "id" and rng.random() < 0.2):
            return rng.choice(self._users)
        known = self._known[rng.choice(kinds)]
        if known and rng.random() < 0.9:
            return rng.choice(known)
        if "p_" in kinds:
            return private_id(*rng.sample(self._users, 2)) + rng.choice(("", "", "~shop"))
        return rng.choice(("a", "shop", "work", "key-1", "key-2"))


def _literal(value: Any, type_: Any) -> str:
    """Return a value as a GraphQL literal."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case list():
            return "[" + ", ".join(_literal(item, type_) for item in value) + "]"
        case dict():
            fields = type_.fields if isinstance(type_, GraphQLInputObjectType) else {}
            return (
                "{" + ", ".join(f"{n}: {_literal(v, get_named_type(fields[n].type))}" for n, v in value.items()) + "}"
            )
        case str() if isinstance(type_, GraphQLEnumType):
            return value
        case _:
            return '"' + "".join(_escape(character) for character in str(value)) + '"'


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if ord(character) < 32 or 0xD800 <= ord(character) < 0xE000 or ord(character) == 127:
        return f"\\u{ord(character):04x}"
    return character

"""A small schema for the tests of query limits, and helpers that expect a refusal."""

from __future__ import annotations

import pytest
from graphql import GraphQLError, build_schema, validate

from schema.execution.query_cost import check_cost
from schema.execution.query_limits import QueryLimits, parse_limited
from schema.execution.query_shape import check_shape

LIMITS = QueryLimits()

SCHEMA = build_schema(
    """
    interface Node { id: ID! }
    type Query {
      me: User
      node(id: ID!): Node
      sessions(first: Int = 50, after: String): SessionConnection!
      messages(first: Int, last: Int): MessageConnection
      groups(first: Int = 50): GroupConnection!
      changes(first: Int = 100): Changes!
      dear(filter: Filter): Int
    }
    input Filter { and: [Filter!], text: String }
    type User implements Node { id: ID! name: String! friend: User groups(first: Int = 50): GroupConnection! }
    type Changes { sessions: [Session!]! }
    type Session implements Node { id: ID! unread: Int! peer: User }
    type SessionConnection { edges: [SessionEdge!]! }
    type SessionEdge { node: Session! }
    type Message implements Node { id: ID! sender: User! replyTo: Message }
    type MessageConnection { edges: [MessageEdge!]! }
    type MessageEdge { node: Message! }
    type Group implements Node { id: ID! members(first: Int = 50): MemberConnection! }
    type GroupConnection { edges: [GroupEdge!]! }
    type GroupEdge { node: Group! }
    type Member { user: User! }
    type MemberConnection { edges: [MemberEdge!]! }
    type MemberEdge { node: Member! }
    """
)


def expect_limit_refusal(call, *arguments):
    """Return the limit that refused the call, the value found, and the value allowed."""
    with pytest.raises(GraphQLError) as caught:
        call(*arguments)
    extensions = caught.value.extensions
    assert (extensions["code"], extensions["retryable"]) == ("QUERY_TOO_COMPLEX", False)
    assert f"{extensions['found']:,}" in caught.value.message
    assert f"{extensions['allowed']:,}" in caught.value.message
    return extensions["limit"], extensions["found"], extensions["allowed"]


def check_all_limits(source, variables=None, name=None):
    """Apply all limits in the order of the engine."""
    document = parse_limited(source, LIMITS)
    check_shape(document, LIMITS)
    assert validate(SCHEMA, document) == []
    check_cost(SCHEMA, document, name, variables, LIMITS)


def doubling_fragments(levels):
    """Return fragments that each spread the next one twice: 2 ** levels fields."""
    chain = " ".join(f"fragment F{n} on User {{ ...F{n + 1} ...F{n + 1} }}" for n in range(levels))
    return f"{{ me {{ ...F0 }} }} {chain} fragment F{levels} on User {{ id }}"

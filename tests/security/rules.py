"""Rules of the table of permissions: one root field with one kind of argument, and its outcome for each relation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.api.session_calls import SessionCall

RELATIONS = ("anonymous", "outsider", "left", "removed", "member", "admin", "owner")
"""Relations of a caller to the group of a `SampleGroup`. The message in the rules was written by the member."""

OK, NULL = "ok", "null"
NO_TOKEN, INVISIBLE, FORMER_MEMBER, NOT_PERMITTED = "UNAUTHENTICATED", "NOT_FOUND", "NOT_A_MEMBER", "FORBIDDEN"


def outcomes_by_relation(outsider: str, former: str, member: str, admin: str, owner: str) -> dict[str, str]:
    """Return the outcome of a field for every relation. Every operation needs a token."""
    return dict(zip(RELATIONS, (NO_TOKEN, outsider, former, former, member, admin, owner), strict=True))


SIGNED_IN = outcomes_by_relation(OK, OK, OK, OK, OK)
"""Everybody with a token. Fields about sessions and messages return the caller's own."""
CURRENT_AND_FORMER = outcomes_by_relation(NULL, OK, OK, OK, OK)
"""Current and former members. Former members see messages of their own intervals."""
CURRENT_MEMBERS = outcomes_by_relation(NULL, NULL, OK, OK, OK)
OWN_SESSION = outcomes_by_relation(INVISIBLE, OK, OK, OK, OK)
"""Users with a session of the conversation, also an invalid one. Never sessions of others."""
MEMBERS = outcomes_by_relation(INVISIBLE, FORMER_MEMBER, OK, OK, OK)
THREAD_VIEWERS = outcomes_by_relation(INVISIBLE, INVISIBLE, OK, OK, OK)
"""Members of the group, to a thread that began after the former ones had left. A member wrote its parent message."""
ADMINS = outcomes_by_relation(INVISIBLE, FORMER_MEMBER, NOT_PERMITTED, OK, OK)
OWNER = outcomes_by_relation(INVISIBLE, FORMER_MEMBER, NOT_PERMITTED, NOT_PERMITTED, OK)


def in_workspace(outsider: str, member: str, owner: str) -> dict[str, str]:
    """Return the outcome of a field about the workspace of an `AuthorisationSample` for every relation to the group.

    Admins of the group are members of the workspace without a role; its former members are no members.
    """
    return outcomes_by_relation(outsider, outsider, member, member, owner)


@dataclass(frozen=True, slots=True)
class Rule:
    """One root field with one kind of argument, and its outcome for each relation.

    `changes_group` marks operations that change relations, or leave nothing to change.
    """

    field: str
    operation: str
    outcomes: dict[str, str]
    variables: dict[str, Any] = field(default_factory=dict)
    changes_group: bool = False


def query(name: str, call: str, outcomes: dict[str, str], **variables: Any) -> Rule:
    return Rule(f"Query.{name}", f"{_declare('query', variables)} {{ {call} }}", outcomes, variables)


def mutation(name: str, call: str, outcomes: dict[str, str], changes_group: bool = False, **variables: Any) -> Rule:
    return Rule(
        f"Mutation.{name}", f"{_declare('mutation', variables)} {{ {call} }}", outcomes, variables, changes_group
    )


def subscription(name: str, call: str, outcomes: dict[str, str], **variables: Any) -> Rule:
    return Rule(f"Subscription.{name}", f"{_declare('subscription', variables)} {{ {call} }}", outcomes, variables)


def session_mutation(call: SessionCall) -> Rule:
    """Return the rule of a mutation of the caller's own session."""
    (name,) = re.findall(r"\{\s*(\w+)\(", call.query)
    return Rule(f"Mutation.{name}", call.query, OWN_SESSION, call.variables_for("@group"))


def _type_of(value: Any) -> str:
    return "[ID!]!" if isinstance(value, list) else "String!" if value == "@code" else "ID!"


def _declare(kind: str, variables: dict[str, Any]) -> str:
    types = {name: _type_of(value) for name, value in variables.items()}
    return f"{kind} ({', '.join(f'${name}: {type_}' for name, type_ in types.items())})" if variables else kind

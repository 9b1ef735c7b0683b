"""The table of rights: operation by caller by overwrite. Refused operations change nothing and send nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from graphql import GraphQLArgument, GraphQLInputField, GraphQLInputObjectType, get_named_type, parse
from graphql.language import FieldNode, OperationDefinitionNode

from schema.root import SCHEMA
from tests.api.channels.channel_subscriber import live
from tests.api.channels.test_workspace_events import live as live_workspace
from tests.api.client import Api, Subscriber, gather_all
from tests.api.conftest import Deployments, OpenApi
from tests.api.rights.expectations import EMPTY, OK, Caller, Kind, expected
from tests.api.rights.operations import OPERATIONS
from tests.api.rights.rights_workspace import Case, RightsWorkspace

ALL = [
    Case(name, caller, place)
    for name, operation in OPERATIONS.items()
    for place in operation.places()
    for caller in Caller
]
_MOST_WATCHED = 20
_AT_ONCE = 40
_STEP = 67
"""The short form has one case of so many. The number of callers has no common factor with it."""

_NAMES = {
    *("id", "workspaceId", "channelId", "categoryId", "roleId", "roleIds", "mentionRoleIds", "code", "conversationId"),
    *("conversationIds", "messageId", "channels", "workspaces"),
}
"""Arguments and input fields that name a workspace, or something inside."""

_ELSEWHERE = {"sessions", "user", "group", "upsertUsers", "registerDevice", "export"}
"""Fields whose ids are never those of workspaces, or of something inside."""


def short_form() -> list[Case]:
    """Return every operation with and without its permission, and some of all other cases."""
    deciding = (Caller.EXACT, Caller.ALL_BUT)
    return [
        case
        for number, case in enumerate(ALL)
        if number % _STEP == 0 or (case.place.kind is Kind.NONE and case.caller in deciding)
    ]


def outcome_of(case: Case) -> str:
    return expected(case.operation, case.caller, case.place)


def is_allowed(case: Case) -> bool:
    return outcome_of(case) in (OK, EMPTY) and not case.operation.document.startswith("query")


async def watch(api: Api, workspace: RightsWorkspace) -> list[Subscriber]:
    """Watch the workspace, all channels, and the clocks of the owner and of @target."""
    watching = [
        (await live_workspace(api, user, workspace.workspace))[0] for user in (workspace.owner, workspace.target)
    ]
    watching += [await api.listen(user) for user in (workspace.owner, workspace.target)]
    visible = workspace.watched
    for start in range(0, len(visible), _MOST_WATCHED):
        watching.append((await live(api, workspace.owner, *visible[start : start + _MOST_WATCHED]))[0])
    return watching


def text_of(wrong: dict[Case, str]) -> str:
    """Return the cases with another outcome than promised."""
    return "\n".join(f"{case.text}: {outcome}, not {outcome_of(case)}" for case, outcome in wrong.items())


async def check(api: Api, newest_entries: Callable[[], dict[Any, Any]], cases: list[Case]) -> None:
    """Try all cases: first those that change nothing, all in one workspace, then the others one after the other."""
    allowed = [case for case in cases if is_allowed(case)]
    refused = [case for case in cases if not is_allowed(case)]
    workspace = await RightsWorkspace(api, cases, allowed).create()
    watching = await watch(api, workspace)
    documents, logs = await api.stored_hashes(), newest_entries()
    found: dict[Case, str] = {}
    for start in range(0, len(refused), _AT_ONCE):
        part = refused[start : start + _AT_ONCE]
        found |= zip(part, await gather_all(*map(workspace.run, part)), strict=True)
    wrong = {case: found[case] for case in refused if found[case] != outcome_of(case)}
    assert not wrong, text_of(wrong)
    assert await api.stored_hashes() == documents
    assert newest_entries() == logs
    for subscriber in watching:
        await subscriber.expect_no_event(0)
    await watching[0].expect_no_event()
    for subscriber in watching:
        await subscriber.stop()
    wrong = {case: got for case in allowed if (got := await workspace.run(case)) != outcome_of(case)}
    assert not wrong, text_of(wrong)


async def test_refused_operations_change_nothing_and_allowed_ones_succeed(api: Api, deployments: Deployments) -> None:
    await check(api, lambda: deployments.newest_entries("main"), short_form())


@pytest.mark.long
async def test_the_whole_table_of_rights(open_api: OpenApi, deployments: Deployments) -> None:
    # Removals of other tests change documents in the background, so it has a deployment of its own.
    async with open_api("whole") as api:
        await check(api, lambda: deployments.newest_entries("whole"), ALL)


def test_every_field_about_workspaces_is_in_the_table() -> None:
    tried = set()
    for operation in OPERATIONS.values():
        (definition,) = parse(operation.document).definitions
        assert isinstance(definition, OperationDefinitionNode)
        (field,) = definition.selection_set.selections
        assert isinstance(field, FieldNode)
        tried.add((definition.operation.value, field.name.value))
    schema = SCHEMA._schema
    roots = {"query": schema.query_type, "mutation": schema.mutation_type, "subscription": schema.subscription_type}
    for kind, root in roots.items():
        assert root is not None
        about = {name for name, field in root.fields.items() if names_of(field.args) & _NAMES} - _ELSEWHERE
        missing = about - {name for operation, name in tried if operation == kind}
        assert not missing, f"no row for {kind} {sorted(missing)}"


def names_of(arguments: dict[str, GraphQLArgument] | dict[str, GraphQLInputField]) -> set[str]:
    """Return the names of arguments, and of the fields of their input objects."""
    names = set(arguments)
    for argument in arguments.values():
        type_ = get_named_type(argument.type)
        if isinstance(type_, GraphQLInputObjectType):
            names |= names_of(type_.fields)
    return names

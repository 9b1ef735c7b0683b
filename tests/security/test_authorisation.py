"""The table of permissions is complete, and holds for every relation that it names."""

from __future__ import annotations

import pytest
from graphql import GraphQLObjectType

from resolvers.users.callers import Caller, CallerRole
from schema.root import SCHEMA
from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api, Json, make_caller
from tests.api.state_snapshot import take_snapshot
from tests.security.authorisation import ROOT_FIELDS
from tests.security.field_rules import MEMBERS_ONLY, SENDER_ONLY, VIEWERS_OWN, VISIBLE_WITH_OBJECT, fields_of
from tests.security.rules import NULL, OK, RELATIONS, Rule
from tests.security.sample import AuthorisationSample, create_sample

OBJECT_RULES = (VISIBLE_WITH_OBJECT, VIEWERS_OWN, SENDER_ONLY, MEMBERS_ONLY)


def test_every_field_of_the_schema_has_one_rule() -> None:
    fields = {
        f"{name}.{field}"
        for name, type_ in SCHEMA._schema.type_map.items()
        if isinstance(type_, GraphQLObjectType) and not name.startswith("__")
        for field in type_.fields
    }
    ruled_fields = [field for rules in OBJECT_RULES for field in sorted(fields_of(rules))]
    ruled_fields += sorted({rule.field for rule in ROOT_FIELDS})
    assert sorted(ruled_fields) == sorted(fields)


def variables_for(sample: AuthorisationSample, rule: Rule) -> Json:
    if rule.variables.get("id") == "@owners_session":
        return {"id": f"s_{sample.owner}_{sample.group}"}
    variables: Json = sample.fill_in(rule.variables, "")
    return variables


async def outcome(api: Api, sample: AuthorisationSample, rule: Rule, caller: str | Caller | None) -> str:
    """Return the outcome of a field for a caller: ok, null, or the code of its only error."""
    variables = variables_for(sample, rule)
    if rule.field.startswith("Subscription."):
        try:
            subscriber = await api.subscribe(caller, rule.operation, **variables)
        except RequestRefused as refused:
            return str(refused.errors[0]["extensions"]["code"])
        await subscriber.next()
        await subscriber.stop()
        return OK
    response = await api.run(caller, rule.operation, **variables)
    if "errors" in response:
        (error,) = response["errors"]
        assert not any((response.get("data") or {}).values())
        return str(error["extensions"]["code"])
    (value,) = response["data"].values()
    return NULL if value is None else OK


def caller_for(sample: AuthorisationSample, relation: str) -> str | None:
    caller: str | None = None if relation == "anonymous" else getattr(sample, relation)
    return caller


@pytest.mark.parametrize("relation", RELATIONS)
async def test_the_table_holds_and_refused_operations_change_nothing(api: Api, relation: str) -> None:
    sample = await create_sample(api)
    refused = [rule for rule in ROOT_FIELDS if rule.outcomes[relation] != OK]
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for rule in refused:
        assert await outcome(api, sample, rule, caller_for(sample, relation)) == rule.outcomes[relation], rule.operation
    await snapshot.assert_unchanged()
    for rule in ROOT_FIELDS:
        if rule.outcomes[relation] == OK:
            own_sample = await create_sample(api) if rule.changes_group else sample
            assert await outcome(api, own_sample, rule, caller_for(own_sample, relation)) == OK, rule.operation


_ERASURES = ("Mutation.eraseUser", "Query.erasure")
"""Fields for services and admins, tested in tests/erasure."""


@pytest.mark.parametrize("role", [CallerRole.SERVICE, CallerRole.ADMIN])
async def test_services_and_admins_may_only_do_a_little_in_addition(api: Api, role: CallerRole) -> None:
    sample = await create_sample(api)
    (user,) = await api.create_users("service")
    service = make_caller(user, role)
    of_services = [rule for rule in ROOT_FIELDS if rule.field in ("Mutation.upsertUsers", "Mutation.addToWorkspace")]
    if role is CallerRole.ADMIN:
        # Lists of the deployment: tests/webhooks/, and moderation/, reports/ and audit/ in tests/api/.
        of_deployment = {"Query.webhooks", "Query.bans", "Query.reports", "Query.auditLog"}
        of_deployment |= {"Mutation.banUser", "Mutation.unbanUser"}
        of_services += [rule for rule in ROOT_FIELDS if rule.field in of_deployment and "id" not in rule.variables]
    for rule in of_services:
        assert await outcome(api, sample, rule, service) == OK
    snapshot = await take_snapshot(api, sample.group, *sample.users)
    for rule in ROOT_FIELDS:
        if rule not in of_services and rule.field not in _ERASURES and rule.outcomes["outsider"] != OK:
            assert await outcome(api, sample, rule, service) == rule.outcomes["outsider"], rule.operation
    await snapshot.assert_unchanged()


MESSAGE = """query ($id: ID!) { message(id: $id) {
    idempotencyKey delivery { status } receipts { edges { node { status } } } sender { id } } }"""
GROUP = """query ($id: ID!) { group(id: $id) { members { edges { node { role } } } viewerRole session { id }
        visibleRanges { fromSeq }
    lastMessage { id } } }"""


@pytest.mark.parametrize("relation", ["left", "removed", "member", "admin", "owner"])
async def test_restricted_fields_are_shown_only_to_their_users(api: Api, relation: str) -> None:
    sample = await create_sample(api)
    caller = getattr(sample, relation)
    payload = await api.send(sample.member, sample.group, "with a key", idempotencyKey="secret key")
    message_id = sample.message if relation in ("left", "removed") else payload["message"]["id"]
    message = (await api.data(caller, MESSAGE, id=message_id))["message"]
    assert message["sender"] == {"id": sample.member}
    sender_fields = [message[field.partition(".")[2]] for field in sorted(fields_of(SENDER_ONLY))]
    assert all(sender_fields) if relation == "member" else sender_fields == [None] * 3
    group = (await api.data(caller, GROUP, id=sample.group))["group"]
    is_member = relation not in ("left", "removed")
    assert (group["members"] is not None, group["viewerRole"] is not None) == (is_member, is_member)
    assert group["session"] == {"id": f"s_{caller}_{sample.group}"}
    assert (group["lastMessage"]["id"] == payload["message"]["id"]) is is_member


async def test_quoted_messages_are_shown_only_to_users_who_may_read_them(api: Api) -> None:
    sample = await create_sample(api)
    first_reply = (await api.send(sample.owner, sample.group, "so it is", replyToId=sample.message))["message"]["id"]
    await api.invite(sample.owner, sample.group, sample.outsider)
    second_reply = (await api.send(sample.owner, sample.group, "once more", replyToId=sample.message))["message"]["id"]
    query = "query ($id: ID!) { message(id: $id) { replyTo { id content } } }"
    assert (await api.data(sample.outsider, query, id=first_reply))["message"] is None
    assert (await api.data(sample.outsider, query, id=second_reply))["message"] == {"replyTo": None}
    assert (await api.data(sample.admin, query, id=second_reply))["message"]["replyTo"]["id"] == sample.message

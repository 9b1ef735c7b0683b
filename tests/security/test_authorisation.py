"""The table of who may what holds, for everybody it names, and names everything."""

from __future__ import annotations

import pytest
from graphql import GraphQLObjectType

from resolvers.users.callers import Caller, CallerRole
from schema.root import SCHEMA
from subscriptions.transport.engine import RequestRefused
from tests.api.client import Api, Json, make_caller
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.state_snapshot import take_snapshot
from tests.security.authorisation import (
    MEMBERS_NOW,
    NULL,
    OK,
    PARTS,
    ROOT_FIELDS,
    THE_SENDERS,
    THE_VIEWERS_OWN,
    WITH_WHAT_HOLDS_IT,
    Rule,
    fields_of,
)

OBJECT_RULES = (WITH_WHAT_HOLDS_IT, THE_VIEWERS_OWN, THE_SENDERS, MEMBERS_NOW)


def test_every_field_of_the_schema_has_one_rule() -> None:
    there = {
        f"{name}.{field}"
        for name, type_ in SCHEMA._schema.type_map.items()
        if isinstance(type_, GraphQLObjectType) and not name.startswith("__")
        for field in type_.fields
    }
    ruled = [field for rules in OBJECT_RULES for field in sorted(fields_of(rules))]
    ruled += sorted({rule.field for rule in ROOT_FIELDS})
    assert sorted(ruled) == sorted(there)


def variables_for(sample: SampleGroup, rule: Rule) -> Json:
    if rule.variables.get("id") == "@owners_session":
        return {"id": f"s_{sample.owner}_{sample.group}"}
    filled: Json = sample.fill_in(rule.variables, "")
    return filled


async def outcome(api: Api, sample: SampleGroup, rule: Rule, who: str | Caller | None) -> str:
    """How a field ends for somebody: ok, null, or the code of its one error."""
    variables = variables_for(sample, rule)
    if rule.field.startswith("Subscription."):
        try:
            subscriber = await api.subscribe(who, rule.operation, **variables)
        except RequestRefused as refused:
            return str(refused.errors[0]["extensions"]["code"])
        await subscriber.next()
        await subscriber.stop()
        return OK
    response = await api.run(who, rule.operation, **variables)
    if "errors" in response:
        (error,) = response["errors"]
        assert not any((response.get("data") or {}).values())
        return str(error["extensions"]["code"])
    (value,) = response["data"].values()
    return NULL if value is None else OK


def playing(sample: SampleGroup, part: str) -> str | None:
    who: str | None = None if part == "anonymous" else getattr(sample, part)
    return who


@pytest.mark.parametrize("part", PARTS)
async def test_everybody_may_what_the_table_says_and_what_is_refused_changes_nothing(api: Api, part: str) -> None:
    sample = await create_sample_group(api)
    refused = [rule for rule in ROOT_FIELDS if rule.outcomes[part] != OK]
    watching = await take_snapshot(api, sample.group, *sample.users)
    for rule in refused:
        assert await outcome(api, sample, rule, playing(sample, part)) == rule.outcomes[part], rule.operation
    await watching.assert_unchanged()
    for rule in ROOT_FIELDS:
        if rule.outcomes[part] == OK:
            place = await create_sample_group(api) if rule.ends else sample
            assert await outcome(api, place, rule, playing(place, part)) == OK, rule.operation


@pytest.mark.parametrize("role", [CallerRole.SERVICE, CallerRole.ADMIN])
async def test_a_service_and_an_admin_may_make_users_and_see_no_more_than_others(api: Api, role: CallerRole) -> None:
    sample = await create_sample_group(api)
    (user,) = await api.create_users("service")
    served = make_caller(user, role)
    made = next(rule for rule in ROOT_FIELDS if rule.field == "Mutation.upsertUsers")
    assert await outcome(api, sample, made, served) == OK
    watching = await take_snapshot(api, sample.group, *sample.users)
    for rule in ROOT_FIELDS:
        if rule is not made and rule.outcomes["outsider"] != OK:
            assert await outcome(api, sample, rule, served) == rule.outcomes["outsider"], rule.operation
    await watching.assert_unchanged()


MESSAGE = """query ($id: ID!) { message(id: $id) {
    idempotencyKey delivery { status } receipts { edges { node { status } } } sender { id } } }"""
GROUP = """query ($id: ID!) { group(id: $id) { members { edges { node { role } } } viewerRole session { id } visibleRanges { fromSeq }
    lastMessage { id } } }"""


@pytest.mark.parametrize("part", ["left", "removed", "member", "admin", "owner"])
async def test_what_is_the_senders_the_members_and_the_viewers_own_is_shown_to_nobody_else(api: Api, part: str) -> None:
    sample = await create_sample_group(api)
    who = getattr(sample, part)
    mine = await api.send(sample.member, sample.group, "with a key", idempotencyKey="secret key")
    seen = sample.message if part in ("left", "removed") else mine["message"]["id"]
    message = (await api.data(who, MESSAGE, id=seen))["message"]
    assert message["sender"] == {"id": sample.member}
    senders = [message[field.partition(".")[2]] for field in sorted(fields_of(THE_SENDERS))]
    assert all(senders) if part == "member" else senders == [None] * 3
    group = (await api.data(who, GROUP, id=sample.group))["group"]
    is_member = part not in ("left", "removed")
    assert (group["members"] is not None, group["viewerRole"] is not None) == (is_member, is_member)
    assert group["session"] == {"id": f"s_{who}_{sample.group}"}
    assert (group["lastMessage"]["id"] == mine["message"]["id"]) is is_member


async def test_what_a_message_replies_to_is_shown_to_those_alone_who_may_read_it(api: Api) -> None:
    sample = await create_sample_group(api)
    reply = (await api.send(sample.owner, sample.group, "so it is", replyToId=sample.message))["message"]["id"]
    await api.invite(sample.owner, sample.group, sample.outsider)
    again = (await api.send(sample.owner, sample.group, "once more", replyToId=sample.message))["message"]["id"]
    query = "query ($id: ID!) { message(id: $id) { replyTo { id content } } }"
    assert (await api.data(sample.outsider, query, id=reply))["message"] is None
    assert (await api.data(sample.outsider, query, id=again))["message"] == {"replyTo": None}
    assert (await api.data(sample.admin, query, id=again))["message"]["replyTo"]["id"] == sample.message

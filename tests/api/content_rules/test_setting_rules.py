"""Setting and reading content rules."""

from __future__ import annotations

from typing import Any

import pytest

from resolvers.content_rules import rule_input
from store.mongo.collections import AUDIT
from store.workspaces.permissions import Permission
from tests.api.channels.calls import DELETE as DELETE_CHANNEL
from tests.api.client import Api, Json, Refusal
from tests.api.content_rules.calls import REJECTED, RULES, SET, Space, create_space, rule
from tests.api.workspaces.calls import DELETE
from tests.api.workspaces.role_calls import DELETE_ROLE, create_role, everyone, set_roles


async def test_rules_are_set_and_read_in_their_order(space: Space, other_api: Api) -> None:
    given = [
        {
            "words": [" Spam ", "ham*", "*wurst", "two words"],
            "patterns": [r"\d{3}-\d{4}", "(?i)x"],
            "action": "TIMEOUT",
            "exemptRoleIds": [space.guide, everyone(space.id)],
            "exemptChannelIds": [space.random],
        },
        {"words": ["傻瓜", "傻瓜"], "action": "FLAG"},
    ]
    stored = await space.set(*given)
    ids = [each.pop("id") for each in stored]
    assert len(set(ids)) == 2
    roles = sorted((space.guide, everyone(space.id)))
    assert stored == [
        given[0] | {"words": ["Spam", "ham*", "*wurst", "two words"], "exemptRoleIds": roles},
        {"words": ["傻瓜"], "patterns": [], "action": "FLAG", "exemptRoleIds": [], "exemptChannelIds": []},
    ]
    found = (await other_api.data(space.alice, RULES, id=space.id))["contentRules"]
    assert [each.pop("id") for each in found] == ids and found == stored
    assert await space.set() == [] == await space.rules()


async def test_a_change_has_an_entry_in_the_audit_log_and_the_same_rules_again_have_none(space: Space) -> None:
    (first,) = await space.set(rule())
    (second,) = await space.set(rule("FLAG", patterns=["a+"]))
    assert await space.set(rule("FLAG", patterns=["a+"])) == [second]
    mongo = space.api.services.app.store.mongo
    entries = await mongo.find(AUDIT, {"a": "setContentRules", "t": space.id}, sort=(("_id", 1),))
    assert [(entry["u"], entry["b"], entry["f"]) for entry in entries] == [
        (space.alice, {"rules": []}, {"rules": [first]}),
        (space.alice, {"rules": [first]}, {"rules": [second]}),
    ]


async def test_setting_and_reading_needs_manage_workspace(space: Space) -> None:
    await space.set(rule())
    before = await space.api.stored_documents()
    for user, code in ((space.bob, "FORBIDDEN"), (space.dave, "NOT_FOUND")):
        assert (await space.refuse_set(user=user)).code == code
        assert (await space.api.expect_refusal(user, RULES, id=space.id)).code == code
    assert (await space.api.expect_refusal(space.alice, SET, id="w_1", rules=[])).code == "NOT_FOUND"
    assert await space.api.stored_documents() == before
    role = await create_role(space.api, space.alice, space.id, "manager", Permission.MANAGE_WORKSPACE.name)
    await set_roles(space.api, space.alice, space.id, space.carol, role)
    assert await space.set(user=space.carol) == []
    assert (await space.api.data(space.carol, RULES, id=space.id))["contentRules"] == []


def words(count: int) -> Json:
    return rule(words=[f"w{number}" for number in range(count)])


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ([words(1_001)], "rules"),
        ([words(600), words(401)], "rules"),
        ([rule(patterns=[f"p{n}" for n in range(6)]), rule(patterns=[f"q{n}" for n in range(5)])], "rules"),
        ([rule(words=[])], "rules[0]"),
        ([rule(), rule(words=["a", ""])], "rules[1].words[1]"),
        ([rule(words=["a" * 61])], "rules[0].words[0]"),
        ([rule(words=["*"])], "rules[0].words[0]"),
        ([rule(words=["**"])], "rules[0].words[0]"),
        ([rule(words=["*a*"])], "rules[0].words[0]"),
        ([rule(words=["a*b"])], "rules[0].words[0]"),
        ([rule(words=["a *"])], "rules[0].words[0]"),
        ([rule(words=["   "])], "rules[0].words[0]"),
        ([rule(words=["\u200b\u00ad"])], "rules[0].words[0]"),
        ([rule(words=["a\0"])], "rules[0].words[0]"),
        ([rule(words=["\ud800"])], "rules[0].words[0]"),
        # Each letter stands for 18 letters.
        ([rule(words=["\ufdfa" * 60])], "rules[0].words[0]"),
        ([rule(patterns=[""])], "rules[0].patterns[0]"),
        ([rule(patterns=["a" * 501])], "rules[0].patterns[0]"),
        ([rule(patterns=["a("])], "rules[0].patterns[0]"),
        ([rule(patterns=["a", "(?=a)b"])], "rules[0].patterns[1]"),
        ([rule(patterns=[r"(a)\1"])], "rules[0].patterns[0]"),
        ([rule(patterns=["a*"])], "rules[0].patterns[0]"),
        ([rule(patterns=[r"((\pL{100}){10}){10}"])], "rules[0].patterns[0]"),
        ([rule(patterns=[r"\pL{900}"])], "rules[0].patterns[0]"),
        ([rule(patterns=[f"((.?){{100}}){{5}}{n}" for n in range(10)])], "rules"),
        ([rule(words=["a"], exemptRoleIds=["r_1"])], "rules[0].exemptRoleIds"),
        ([rule(words=["a"], exemptChannelIds=["c_1.1"])], "rules[0].exemptChannelIds"),
        ([rule(words=["a"], exemptChannelIds=["r_1"] * 5_001)], "rules"),
    ],
)
async def test_bad_rules_are_refused_and_change_nothing(space: Space, rules: list[Json], field: str) -> None:
    await space.set(rule())
    before = await space.api.stored_documents()
    assert await space.refuse_set(*rules) == Refusal("INVALID_INPUT", field)
    assert await space.api.stored_documents() == before
    assert await space.api.expect_send_refusal(space.bob, space.general, "spam") == REJECTED


async def test_the_reason_why_a_pattern_is_refused_is_shown(space: Space) -> None:
    answer = await space.api.run(space.alice, SET, id=space.id, rules=[rule(patterns=["a("])])
    assert answer["errors"][0]["message"] == "RE2 does not accept the pattern: missing ): a("


async def test_the_most_words_and_patterns_are_accepted(space: Space) -> None:
    most = [words(rule_input.MOST_WORDS), rule(patterns=[f"p{n}" for n in range(rule_input.MOST_PATTERNS)])]
    assert [len(each["words"]) for each in await space.set(*most)] == [1_000, 0]
    assert await space.api.expect_send_refusal(space.bob, space.general, "so W999!") == REJECTED


async def test_roles_and_channels_of_other_workspaces_are_unknown(space: Space) -> None:
    other = await create_space(space.api)
    refused = await space.refuse_set(rule(words=["a"], exemptRoleIds=[other.guide]))
    assert refused == Refusal("INVALID_INPUT", "rules[0].exemptRoleIds")
    refused = await space.refuse_set(rule(words=["a"], exemptChannelIds=[other.general]))
    assert refused == Refusal("INVALID_INPUT", "rules[0].exemptChannelIds")


async def test_deleted_roles_and_channels_are_not_shown(space: Space) -> None:
    await space.set(rule(words=["spam"], exemptRoleIds=[space.guide], exemptChannelIds=[space.random]))
    await space.api.data(space.alice, DELETE_ROLE, id=space.guide)
    await space.api.data(space.alice, DELETE_CHANNEL, id=space.random)
    (found,) = await space.rules()
    assert (found["exemptRoleIds"], found["exemptChannelIds"]) == ([], [])
    assert await space.set({name: value for name, value in found.items() if name != "id"}) == await space.rules()


async def test_the_rules_of_a_deleted_workspace_are_removed(space: Space) -> None:
    await space.set(rule())
    await space.api.data(space.alice, DELETE, id=space.id)
    store = space.api.services.app.store
    removal: Any = store.workspace_removal
    while await removal.step(space.id):
        pass
    assert await store.content_rules.read(space.id) == []  # type: ignore[arg-type]


async def test_rules_of_those_who_may_not_set_them_are_not_looked_at(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checking patterns takes long: nobody else can keep a server busy with it."""
    looked_at = list[str]()
    monkeypatch.setattr(rule_input, "compile_pattern", looked_at.append)
    before = await space.api.stored_documents()
    for user, code in ((space.bob, "FORBIDDEN"), (space.dave, "NOT_FOUND")):
        assert (await space.api.expect_refusal(user, SET, id=space.id, rules=[rule(patterns=["a("])])).code == code
    assert looked_at == []
    assert await space.api.stored_documents() == before

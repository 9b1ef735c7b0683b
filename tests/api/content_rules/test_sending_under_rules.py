"""Messages and edits in channels with content rules."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from resolvers.content_rules.rejections import time_out_sender
from resolvers.users.callers import CallerRole
from store.content_rules.rule_matcher import RuleMatcher
from store.mongo.collections import AUDIT
from tests.api.client import EDIT, SEND, Api, Json, Refusal, gather_all, make_caller, message_input
from tests.api.content_rules.calls import REJECTED, Space, rule
from tests.api.requests.test_budgets import Meter
from tests.api.threads.calls import thread_of
from tests.api.workspaces.calls import list_members, own_workspace
from tests.api.workspaces.role_calls import UPDATE_ROLE, create_role, everyone, set_roles
from tests.webhooks.incoming.hooks import Hooks, refusal_of

SERVICE = make_caller("service", CallerRole.SERVICE)


async def test_a_blocked_message_is_refused_and_nothing_changes(space: Space, other_api: Api) -> None:
    api = space.api
    await space.set(rule(words=["spam", "scam*"]), rule(patterns=[r"\d{3}-\d{4}"]))
    await api.send(space.bob, space.general, "fine")
    watching = await api.listen(space.carol)
    before = await api.stored_documents()
    for server in (api, other_api):
        for text in ("SPAM", "a spam.", "Scammers!", "call 555-1234", "\uff33pam", "sp\u200bam"):
            assert await server.expect_send_refusal(space.bob, space.general, text) == REJECTED, text
    assert await api.stored_documents() == before
    await watching.expect_no_event()
    for text in ("spammer", "antispam", "s p a m", "5551234"):
        await api.send(space.bob, space.general, text)
    assert [message["seq"] for message in await api.history(space.bob, space.general)] == [1, 2, 3, 4, 5]


async def test_the_key_of_a_refused_message_can_be_used_again(space: Space) -> None:
    await space.set(rule())
    refused = await space.api.expect_send_refusal(space.bob, space.general, "spam", idempotencyKey="k")
    assert refused == REJECTED
    sent = await space.api.send(space.bob, space.general, "ham", idempotencyKey="k")
    assert not sent["replayed"]
    # A replay is not judged again.
    await space.set(rule(words=["ham"]))
    assert (await space.api.send(space.bob, space.general, "ham", idempotencyKey="k"))["replayed"]


async def test_threads_broadcasts_and_bot_commands_are_judged(space: Space) -> None:
    api = space.api
    await space.set(rule())
    parent = (await api.send(space.bob, space.general, "hello"))["message"]
    for to, more in (
        (parent["id"], {}),
        (parent["id"], {"broadcast": True}),
        (space.general, {"contentType": "BOT_COMMAND"}),
        (space.general, {"replyToId": parent["id"]}),
    ):
        assert await api.expect_send_refusal(space.carol, to, "spam", **more) == REJECTED
    await api.send(space.carol, parent["id"], "a reply", broadcast=True)
    assert await api.expect_send_refusal(space.carol, thread_of(parent), "spam") == REJECTED
    assert await space.texts() == ["hello", "a reply"]
    assert await space.texts(thread_of(parent)) == ["a reply"]


async def test_groups_private_conversations_and_system_messages_are_not_judged(space: Space) -> None:
    api = space.api
    await space.set(rule())
    group = await api.create_group(space.alice, space.bob, space.carol)
    await api.send(space.bob, group, "spam")
    await api.send(space.bob, space.alice, "spam")
    await api.data(SERVICE, SEND, input=message_input(space.general, "spam", contentType="SYSTEM"))


async def test_somebody_who_acts_for_a_member_is_judged_as_the_member(space: Space) -> None:
    await space.set(rule("TIMEOUT"))
    acting = make_caller(space.bob, CallerRole.SERVICE)
    assert await space.api.expect_refusal(acting, SEND, input=message_input(space.general, "spam")) == REJECTED
    assert (await space.api.expect_send_refusal(space.bob, space.general)).code == "FORBIDDEN"


async def test_exempt_roles_and_channels_are_not_judged(space: Space) -> None:
    api = space.api
    await space.set(rule(words=["spam"], exemptRoleIds=[space.guide], exemptChannelIds=[space.random]))
    await api.send(space.bob, space.general, "spam")
    parent = (await api.send(space.carol, space.random, "spam"))["message"]
    await api.send(space.carol, parent["id"], "spam in a thread")
    assert await api.expect_send_refusal(space.carol, space.general, "spam") == REJECTED
    # The owner is exempt by a role only.
    assert await api.expect_send_refusal(space.alice, space.general, "spam") == REJECTED
    await set_roles(api, space.alice, space.id, space.bob)
    assert await api.expect_send_refusal(space.bob, space.general, "spam") == REJECTED
    await space.set(rule(words=["spam"], exemptRoleIds=[everyone(space.id)]))
    await api.send(space.carol, space.general, "spam")


async def test_edits_are_judged(space: Space) -> None:
    api = space.api
    sent = (await api.send(space.bob, space.general, "ham"))["message"]["id"]
    old = (await api.send(space.bob, space.general, "spam"))["message"]["id"]
    reply = (await api.send(space.bob, sent, "in a thread"))["message"]["id"]
    await space.set(rule())
    before = await api.stored_documents()
    for message in (sent, reply):
        assert await api.expect_refusal(space.bob, EDIT, id=message, content="SPAM") == REJECTED
    # The same text changes nothing, so it is not judged.
    await api.edit(space.bob, old, "spam")
    assert await api.stored_documents() == before
    await api.edit(space.bob, sent, "jam")
    assert await space.texts() == ["jam", "spam"]


async def test_embeds_that_bots_and_webhooks_give_are_judged(space: Space) -> None:
    api = space.api
    hooks = Hooks(api)
    hook = await hooks.create(space.alice, space.general)
    await space.set(rule(), rule("TIMEOUT", words=["scam"]), rule(words=["guides"], exemptRoleIds=[everyone(space.id)]))
    for body in (
        {"content": "spam"},
        {"content": "scam"},
        # Webhooks have no roles.
        {"content": "guides"},
        {"embeds": [{"title": "spam"}]},
        {"embeds": [{"title": "x", "fields": [{"name": "n", "value": "free spam"}]}]},
    ):
        answer = await hooks.http.post(hook.path, json=body)
        assert refusal_of(answer) == (400, "REJECTED", "content"), body
    await hooks.sent(hook, "built")
    assert await space.texts() == ["built"]
    embeds: list[Json] = [{"description": "spam"}]
    acting = make_caller(space.carol, CallerRole.SERVICE)
    refused = await api.expect_refusal(acting, SEND, input=message_input(space.general, "x", embeds=embeds))
    assert refused == REJECTED


async def until(space: Space, user: str) -> str | None:
    members = await list_members(space.api, space.alice, space.id)
    found: str | None = next(each["timedOutUntil"] for each in members if each["user"]["id"] == user)
    return found


async def test_a_time_out_of_ten_minutes_is_given_in_the_name_of_the_owner(space: Space) -> None:
    api = space.api
    await space.set(rule(), rule("TIMEOUT", words=["scam"]), rule("FLAG", words=["scam"]))
    sent = (await api.send(space.carol, space.general, "hello"))["message"]["id"]
    start_ms = api.services.app.store.clock.now_ms()
    assert await api.expect_send_refusal(space.bob, space.general, "a spam scam") == REJECTED
    assert (await api.expect_send_refusal(space.bob, space.general, "hello")).code == "FORBIDDEN"
    assert await api.expect_refusal(space.carol, EDIT, id=sent, content="scam") == REJECTED
    assert await until(space, space.bob) is not None and await until(space, space.carol) is not None
    entries = await api.services.app.store.mongo.find(AUDIT, {"a": "timeoutMember"}, sort=(("_id", 1),))
    entries = [entry for entry in entries if entry["_id"].startswith(f"{space.id} ")]
    assert [(entry["u"], entry["t"], entry.get("ab")) for entry in entries] == [
        (space.alice, space.bob, None),
        (space.alice, space.carol, None),
    ]
    facts = await api.services.app.store.policies.find_member(space.id, space.bob)  # type: ignore[arg-type]
    assert facts is not None
    assert start_ms + 600_000 <= facts.timed_out_until_ms <= api.services.app.store.clock.now_ms() + 600_000
    assert await space.reports() == []


async def test_a_longer_time_out_stays_and_the_owner_gets_none(space: Space) -> None:
    api, store = space.api, space.api.services.app.store
    await space.set(rule("TIMEOUT"))
    assert await api.expect_send_refusal(space.alice, space.general, "spam") == REJECTED
    assert await until(space, space.alice) is None
    await time_out_sender(api.services.app, space.bob, space.general)  # type: ignore[arg-type]
    first = await until(space, space.bob)
    before = await store.policies.read(space.id)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("resolvers.content_rules.rejections.TIMEOUT_MS", 1_000)
        await time_out_sender(api.services.app, space.bob, space.general)  # type: ignore[arg-type]
    assert await until(space, space.bob) == first
    after = await store.policies.read(space.id)  # type: ignore[arg-type]
    assert before is not None and after is not None and before.version == after.version


async def test_an_administrator_can_be_timed_out(space: Space) -> None:
    role = await create_role(space.api, space.alice, space.id, "admin", "ADMINISTRATOR")
    await set_roles(space.api, space.alice, space.id, space.bob, role)
    await space.set(rule("TIMEOUT"))
    assert await space.api.expect_send_refusal(space.bob, space.general, "spam") == REJECTED
    assert (await space.api.expect_send_refusal(space.bob, space.general)).code == "FORBIDDEN"


async def test_rights_are_judged_before_contents(space: Space) -> None:
    await space.set(rule("TIMEOUT"))
    await space.api.data(
        space.alice, UPDATE_ROLE, id=everyone(space.id), input={"permissions": ["VIEW_CHANNEL", "READ_HISTORY"]}
    )
    assert (await space.api.expect_send_refusal(space.bob, space.general, "spam")).code == "FORBIDDEN"
    assert (await space.api.expect_send_refusal(space.dave, space.general, "spam")).code == "NOT_FOUND"
    assert await until(space, space.bob) is None


async def test_rules_do_not_cost_a_send_further_round_trips(space: Space) -> None:
    words = [f"w{number}" for number in range(1_000)]
    await space.set(rule(words=words), rule("FLAG", patterns=["never", "x{30}"]))
    meter = Meter(space.api)
    await meter.expect("sendMessage, rules", lambda: meter.send(space.bob, space.general), 1, 2)
    parent = (await space.api.send(space.bob, space.general))["message"]["id"]
    await space.api.send(space.bob, parent, "a reply")
    await meter.expect("sendMessage, rules, thread", lambda: meter.send(space.bob, parent), 1, 2)
    # The report is stored in the round trip of the message.
    await space.set(rule("FLAG", words=["hello"]))
    await meter.expect("sendMessage, flagged", lambda: meter.send(space.bob, space.general), 1, 2)
    assert await space.reports()


async def test_a_server_reads_the_rules_once(space: Space, other_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await space.set(rule())
    rules: Any = other_api.services.app.store.content_rules
    reads = []
    original = rules._read

    async def read(workspace: str) -> Any:
        reads.append(workspace)
        return await original(workspace)

    monkeypatch.setattr(rules, "_read", read)
    for _ in range(3):
        await other_api.send(space.bob, space.general, "ham")
        await other_api.send(space.carol, space.general, "ham")
    assert reads == [space.id]
    await own_workspace(other_api, space.bob, space.id)


async def test_old_messages_stay(space: Space) -> None:
    sent = (await space.api.send(space.bob, space.general, "spam"))["message"]
    await space.set(rule())
    assert await space.texts() == ["spam"]
    assert (await space.api.expect_refusal(space.bob, EDIT, id=sent["id"], content="spam spam")) == Refusal(
        "REJECTED", "content"
    )


async def test_what_takes_long_to_judge_is_judged_next_to_the_event_loop(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stored, _) = await space.set(rule("FLAG", patterns=["x((.?){100}){2}z"]), rule(words=["spam"]))
    threads = list[str]()
    original = RuleMatcher.judge

    def judge(*args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return original(*args)

    monkeypatch.setattr(RuleMatcher, "judge", judge)
    long = "x" * 4_000
    assert await space.api.expect_send_refusal(space.bob, space.general, long[5:] + " spam") == REJECTED
    sent = (await space.api.send(space.bob, space.general, long[1:] + "z"))["message"]["id"]
    assert await space.api.expect_refusal(space.bob, EDIT, id=sent, content=long[5:] + " spam") == REJECTED
    assert threading.main_thread().name not in threads
    await space.api.send(space.bob, space.general, "short")
    assert threads[-1] == threading.main_thread().name
    assert [report.note for report in await space.reports()] == [f"flagged by the content rule {stored['id']}"]


async def test_messages_at_once_cause_one_time_out(space: Space, other_api: Api) -> None:
    """Each was judged before the sender was timed out."""
    await space.set(rule("TIMEOUT"))
    store: Any = space.api.services.app.store
    before = await store.policies.current_version(space.id)
    refused = await gather_all(
        *((space.api, other_api)[n % 2].expect_send_refusal(space.bob, space.general, "spam") for n in range(30))
    )
    assert {refusal.code for refusal in refused} <= {"REJECTED", "FORBIDDEN"}
    entries = [row for row in await store.mongo.find(AUDIT, {"a": "timeoutMember"}) if row["_id"].startswith(space.id)]
    assert (len(entries), await store.policies.current_version(space.id)) == (1, before + 1)

"""Flagged messages are sent, and reported in the name of the owner, even if servers die."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import PARTITIONS
from store.mongo.collections import MESSAGES
from store.reports.report import Report, ReportReason
from tests.api.client import EDIT, Api
from tests.api.content_rules.calls import Space, rule
from tests.webhooks.incoming.hooks import Hooks


def shape(report: Report) -> tuple[str, str, str | None, str]:
    return report.reporter, report.user, report.text, report.note or ""


async def test_a_flagged_message_is_sent_and_reported_once(space: Space) -> None:
    api = space.api
    (stored,) = await space.set(rule("FLAG"))
    sent = (await api.send(space.bob, space.general, "spam", idempotencyKey="k"))["message"]
    assert (await api.send(space.bob, space.general, "spam", idempotencyKey="k"))["replayed"]
    await api.send(space.bob, space.general, "ham")
    (report,) = await space.reports()
    assert shape(report) == (space.alice, space.bob, "spam", f"flagged by the content rule {stored['id']}")
    assert (report.reason, report.workspace) == (ReportReason.OTHER, space.id)
    assert report.message is not None
    assert (report.message.conversation, report.message.seq) == (space.general, sent["seq"])
    # The mark is gone: it names the owner.
    rows = await api.services.app.store.mongo.find(MESSAGES, {"c": space.general})
    assert not any("fl" in row for row in rows)
    head = await api.services.app.store.conversations.find(space.general)  # type: ignore[arg-type]
    assert head is not None and head.newest is not None and head.newest.flag is None


async def test_flagged_messages_of_the_owner_are_reported_too(space: Space) -> None:
    await space.set(rule("FLAG"))
    await space.api.send(space.alice, space.general, "spam")
    assert [shape(report)[:2] for report in await space.reports()] == [(space.alice, space.alice)]


async def test_replies_broadcasts_and_messages_of_webhooks_are_reported_once(space: Space) -> None:
    api = space.api
    hooks = Hooks(api)
    hook = await hooks.create(space.alice, space.general)
    await space.set(rule("FLAG"))
    parent = (await api.send(space.bob, space.general))["message"]["id"]
    # The first reply makes the thread, in a transaction.
    await api.send(space.bob, parent, "spam 1", broadcast=True)
    await api.send(space.bob, parent, "spam 2")
    await api.send(space.carol, parent, "spam 3", mentions=[space.bob])
    await hooks.sent(hook, "spam 4")
    found = [(report.user, report.text) for report in await space.reports()]
    assert found == [(space.bob, "spam 1"), (space.bob, "spam 2"), (space.carol, "spam 3"), (hook.id, "spam 4")]


async def test_edits_are_reported_with_their_text_each_time(space: Space) -> None:
    api = space.api
    sent = (await api.send(space.bob, space.general, "ham"))["message"]["id"]
    await space.set(rule("FLAG"))
    await api.edit(space.bob, sent, "jam")
    await api.edit(space.bob, sent, "spam")
    await api.edit(space.bob, sent, "spam")
    await api.edit(space.bob, sent, "more spam")
    assert [report.text for report in await space.reports()] == ["spam", "more spam"]
    assert await space.texts() == ["more spam"]


async def test_a_failed_edit_is_not_reported(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    api, store = space.api, space.api.services.app.store
    sent = (await api.send(space.bob, space.general, "ham"))["message"]["id"]
    await space.set(rule("FLAG"))

    async def fail(*_: Any) -> None:
        raise Unreachable("the report is not stored")

    with monkeypatch.context() as patch:
        patch.setattr(store.revisions._flag_reports, "insert", fail)
        assert (await api.expect_refusal(space.bob, EDIT, id=sent, content="spam")).code == "UNAVAILABLE"
    assert await space.texts() == ["ham"] and await space.reports() == []


@pytest.mark.parametrize("is_stored", [False, True])
async def test_another_server_reports_messages_of_a_server_that_died(
    space: Space, other_api: Api, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    """The message took its place, and its server died before the commit, or before it knew of it."""
    api, store = space.api, space.api.services.app.store
    await space.set(rule("FLAG"))
    original = store.commits.commit

    async def die(*arguments: Any, **options: Any) -> Any:
        if is_stored:
            await original(*arguments, **options)
        raise Unreachable("dead")

    with monkeypatch.context() as patch:
        patch.setattr("subscriptions.delivery.commit_stage._COMMIT_SECONDS", 0.0)
        patch.setattr(store.commits, "commit", die)
        assert (await api.expect_send_refusal(space.bob, space.general, "spam")).code == "UNAVAILABLE"
    assert len(await space.reports()) == is_stored
    for _ in range(2):
        await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    assert await space.texts() == ["spam"]
    assert [report.text for report in await space.reports()] == ["spam"]


async def test_the_report_has_the_final_place_of_the_message(space: Space) -> None:
    api, store = space.api, space.api.services.app.store
    await api.send(space.bob, space.general, "first")
    await space.set(rule("FLAG"))
    # Redis does not know the message at the next place.
    row = await store.mongo.find_one(MESSAGES, {"c": space.general, "s": 1})
    assert row is not None
    await store.mongo.insert_one(MESSAGES, row | {"_id": store.ids.next(), "s": 2, "n": 2})
    sent = (await api.send(space.bob, space.general, "spam"))["message"]
    assert sent["seq"] == 3
    (report,) = await space.reports()
    assert report.message is not None and report.message.seq == 3


async def test_the_report_opened_event_is_noted_for_webhooks(space: Space) -> None:
    app = space.api.services.app
    await space.set(rule("FLAG"))
    await space.api.send(space.bob, space.general, "spam")
    noted = [report.text for report in await app.store.reports.list_note_due()]
    assert "spam" in noted
    await app.reports.note_abandoned()
    assert await app.store.reports.list_note_due() == []

"""Expired messages, erasures and exports at the same time."""

from __future__ import annotations

from tests.api.client import private_id
from tests.api.conftest import OpenApi
from tests.api.export.calls import download
from tests.api.reports.calls import find_node, make_report, root
from tests.api.retention.calls import advance, expire, remove_expired
from tests.clock import ManualClock
from tests.erasure.test_erasing import erase
from tests.erasure.traces import list_traces


async def test_expired_messages_of_a_moved_conversation_are_still_removed(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("moved-and-expired", clock, retention_days=30) as api:
        alice, bob = await api.create_users("alice", "bob")
        for text in ("too old", "too old as well"):
            await api.send(bob, alice, text)
        await api.wait_until_idle()
        await advance([api], clock, 31)
        await api.send(bob, alice, "young")
        await expire(api)
        assert [row["_id"] for row in api.database["expired"].find({"_id": {"$ne": "-"}})] == [private_id(alice, bob)]
        await erase(api, alice)
        assert list_traces(api, alice) == []
        (moved,) = [row["_id"] for row in api.database["expired"].find({"_id": {"$ne": "-"}})]
        assert [m["content"] for m in await api.history(bob, moved)] == ["young"]
        assert api.database["messages"].count_documents({"c": moved}) == 3
        await remove_expired([api], clock)
        assert api.database["messages"].count_documents({"c": moved}) == 1


async def test_exports_leave_out_expired_messages_at_once(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("export-of-expired", clock, workers=False, retention_days=30) as api:
        alice, bob = await api.create_users("alice", "bob")
        here = private_id(alice, bob)
        old = (await api.send(alice, bob, "too old"))["message"]
        await api.send(alice, old["id"], "a reply to it")
        await advance([api], clock, 31)
        await api.send(alice, bob, "young")
        await expire(api)
        assert api.database["messages"].count_documents({"c": here}) == 2
        texts = [line["content"] for line in (await download(api, alice)).lines("messages")]
        assert texts == ["young"]


async def test_reports_keep_the_text_of_expired_messages(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("report-of-expired", clock, retention_days=30) as api:
        alice, bob = await api.create_users("alice", "bob")
        message = (await api.send(alice, bob, "an insult"))["message"]
        report = await make_report(api, bob, message=message["id"])
        await api.wait_until_idle()
        await advance([api], clock, 31)
        await expire(api)
        await remove_expired([api], clock)
        found = await find_node(api, root(), report["id"])
        assert found is not None and (found["text"], found["message"]) == ("an insult", None)

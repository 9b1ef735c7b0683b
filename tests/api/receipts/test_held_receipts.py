"""ackDelivered of an INVISIBLE user: senders learn of it with the next markRead, or when the user is visible again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.presence.presence_record import PresenceSetting
from subscriptions.delivery.receipts.receipt_release import CHECK_MS, ReceiptRelease
from tests.api.client import LIVE_SESSIONS, Api, Json, Subscriber, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.receipt_calls import Receipts, receipt_advanced, without_cursor
from tests.api.receipts.lost_answers import only_session_rows_are_written
from tests.clock import ManualClock

SET_PRESENCE = """mutation ($status: PresenceSetting!, $until: DateTime) {
    setPresence(status: $status, until: $until) { setting } }"""
KINDS = ("private", "group")
MINUTE_MS = 60_000


async def set_presence(api: Api, user: str, value: PresenceSetting, until_ms: int | None = None) -> None:
    until = datetime.fromtimestamp(until_ms / 1000, UTC).isoformat() if until_ms is not None else None
    await api.data(user, SET_PRESENCE, status=value.value, until=until)
    await api.wait_until_idle()


async def set_invisible(api: Api, user: str, until_ms: int | None = None) -> None:
    await set_presence(api, user, PresenceSetting.INVISIBLE, until_ms)


@dataclass
class Sent:
    """Two messages of alice to bob, who is INVISIBLE, in a private conversation or a group."""

    api: Api
    conversation: str
    alice: str
    bob: str
    messages: list[Json]
    live: Subscriber
    """A device of alice."""

    async def statuses(self) -> list[str]:
        """Return the status of each message for bob, as alice sees it in every way there is."""
        receipts, found = Receipts(self.api), []
        for message in self.messages:
            status = (await receipts.statuses(self.alice, message))[self.bob]
            delivery = await receipts.delivery(self.alice, message)
            assert delivery is not None
            assert delivery[2:] == (int(status != "SENT"), int(status == "READ"))
            listed = await receipts.statuses(self.alice, message, status=status)
            assert self.bob in listed
            found.append(status)
        own = await self.api.own_session(self.alice, self.conversation)
        if self.conversation.startswith("p_"):
            seqs = [message["seq"] for message in self.messages]
            assert own["peerDeliveredSeq"] == max(
                [0, *(s for s, each in zip(seqs, found, strict=True) if each != "SENT")]
            )
        return found

    async def expect_held(self) -> None:
        """Expect that alice knows nothing."""
        await self.api.wait_until_idle()
        assert await self.statuses() == ["SENT", "SENT"]
        await self.live.expect_no_event(0.03)

    async def expect_receipt(self, status: str, seq: int) -> None:
        await self.api.wait_until_idle()
        event = without_cursor(await self.live.next())
        assert event == receipt_advanced(self.conversation, self.bob, status, seq)
        await self.live.expect_no_event(0.03)
        assert set(self.api.database["held_receipts"].find({"_id": {"$regex": f"^{self.bob} "}})) == set()

    @property
    def last(self) -> int:
        """Seq of the newest message."""
        seq: int = self.messages[-1]["seq"]
        return seq


async def send_to_invisible(api: Api, kind: str, until_ms: int | None = None) -> Sent:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol)
    messages = [(await api.send(alice, conversation if kind == "group" else bob))["message"] for _ in range(2)]
    await set_invisible(api, bob, until_ms)
    return Sent(api, conversation, alice, bob, messages, await api.listen(alice))


@dataclass(frozen=True)
class StillProcess:
    """A process whose clock stands still."""

    api: Api
    clock: ManualClock

    async def advance(self, ms: int) -> None:
        """Move the clock, and renew the server's lease as housekeeping does."""
        self.clock.ms += ms
        await self.api.services.housekeeper._lease()

    async def release_due(self) -> int:
        """Do what housekeeping does."""
        return await self.api.services.app.receipt_release.release_due()


@pytest.fixture(scope="module")
async def still(open_api: OpenApi) -> AsyncIterator[StillProcess]:
    clock = ManualClock()
    async with open_api("still", clock) as api:
        yield StillProcess(api, clock)


@pytest.mark.parametrize("kind", KINDS)
async def test_senders_get_no_delivery_receipt_of_an_invisible_user(api: Api, other_process: Api, kind: str) -> None:
    sent = await send_to_invisible(api, kind)
    device = await other_process.listen(sent.bob, LIVE_SESSIONS)
    session = await api.ack(sent.bob, sent.conversation, sent.last)
    assert session["deliveredSeq"] == sent.last
    synced = await device.next()
    assert (synced["reason"], synced["sessions"][0]["deliveredSeq"]) == ("DELIVERED", sent.last)
    assert await Receipts(api).offline(sent.bob) == []
    await sent.expect_held()
    # The same again changes nothing.
    assert await api.ack(sent.bob, sent.conversation, sent.last) == session
    await sent.expect_held()


@pytest.mark.parametrize("kind", KINDS)
async def test_senders_get_held_receipts_when_the_user_is_visible_again(api: Api, kind: str) -> None:
    sent = await send_to_invisible(api, kind)
    await api.ack(sent.bob, sent.conversation, sent.last)
    await sent.expect_held()
    await set_presence(api, sent.bob, PresenceSetting.DND)
    await sent.expect_receipt("DELIVERED", sent.last)
    assert await sent.statuses() == ["DELIVERED", "DELIVERED"]


@pytest.mark.parametrize("kind", KINDS)
async def test_senders_get_the_read_receipt_of_an_invisible_user(api: Api, kind: str) -> None:
    sent = await send_to_invisible(api, kind)
    await api.ack(sent.bob, sent.conversation, sent.last)
    await sent.expect_held()
    await api.mark_read(sent.bob, sent.conversation, sent.messages[0]["seq"])
    await api.wait_until_idle()
    assert without_cursor(await sent.live.next())["status"] == "READ"
    assert await sent.statuses() == ["READ", "SENT"]
    await api.mark_read(sent.bob, sent.conversation)
    await api.wait_until_idle()
    assert without_cursor(await sent.live.next())["status"] == "READ"
    assert await sent.statuses() == ["READ", "READ"]
    # Senders know everything already.
    await set_presence(api, sent.bob, PresenceSetting.ONLINE)
    await sent.live.expect_no_event(0.03)
    assert list(api.database["held_receipts"].find({"_id": {"$regex": f"^{sent.bob} "}})) == []


async def test_receipts_of_many_conversations_are_held_and_released_together(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    groups = [await api.create_group(alice, bob, carol) for _ in range(3)]
    messages = [(await api.send(alice, group))["message"] for group in groups]
    await set_invisible(api, bob)
    await api.ack_many(bob, *((message["conversationId"], message["seq"]) for message in messages))
    await api.wait_until_idle()
    receipts = Receipts(api)
    assert [(await receipts.statuses(alice, message))[bob] for message in messages] == ["SENT"] * 3
    await set_presence(api, bob, PresenceSetting.ONLINE)
    assert [(await receipts.statuses(alice, message))[bob] for message in messages] == ["DELIVERED"] * 3


@pytest.mark.parametrize("kind", KINDS)
async def test_held_receipts_survive_the_loss_of_redis(losing_api: Api, deployments: Deployments, kind: str) -> None:
    api = losing_api
    sent = await send_to_invisible(api, kind)
    await api.ack(sent.bob, sent.conversation, sent.last)
    await api.wait_until_idle()
    deployments.flush_redis("lost")
    await api.services.housekeeper.check_redis()
    assert (await api.own_session(sent.bob, sent.conversation))["deliveredSeq"] == sent.last
    assert await sent.statuses() == ["SENT", "SENT"]
    await set_presence(api, sent.bob, PresenceSetting.ONLINE)
    assert await sent.statuses() == ["DELIVERED", "DELIVERED"]


@pytest.mark.parametrize("kind", KINDS)
async def test_senders_get_held_receipts_at_the_end_of_the_setting(still: StillProcess, kind: str) -> None:
    sent = await send_to_invisible(still.api, kind, until_ms=still.clock.ms + MINUTE_MS)
    await still.api.ack(sent.bob, sent.conversation, sent.last)
    await still.advance(MINUTE_MS - 1)
    assert await still.release_due() == 0
    await sent.expect_held()
    await still.advance(1)
    assert await still.release_due() == 1
    await sent.expect_receipt("DELIVERED", sent.last)
    assert await sent.statuses() == ["DELIVERED", "DELIVERED"]


async def test_a_setting_that_gets_an_end_later_releases_them_then(still: StillProcess) -> None:
    sent = await send_to_invisible(still.api, "private")
    await still.api.ack(sent.bob, sent.conversation, sent.last)
    await set_invisible(still.api, sent.bob, still.clock.ms + MINUTE_MS)
    await sent.expect_held()
    await still.advance(MINUTE_MS)
    assert await still.release_due() == 1
    await sent.expect_receipt("DELIVERED", sent.last)


async def test_any_server_finishes_a_release_that_a_dead_server_left(
    still: StillProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await send_to_invisible(still.api, "group")
    await still.api.ack(sent.bob, sent.conversation, sent.last)
    await sent.expect_held()
    with monkeypatch.context() as patch:
        patch.setattr(ReceiptRelease, "begin", lambda *_: None)
        await set_presence(still.api, sent.bob, PresenceSetting.ONLINE)
    await sent.expect_held()
    await still.advance(CHECK_MS)
    assert await still.release_due() == 1
    await sent.expect_receipt("DELIVERED", sent.last)


async def test_receipts_stay_held_while_the_user_stays_invisible(still: StillProcess) -> None:
    sent = await send_to_invisible(still.api, "private")
    await still.api.ack(sent.bob, sent.conversation, sent.last)
    for _ in range(2):
        await still.advance(CHECK_MS)
        assert await still.release_due() == 0
        assert await sent.statuses() == ["SENT", "SENT"]
        due = await still.api.services.app.store.held_receipts.list_due_users(still.clock.ms, 10)
        assert due == []


async def test_a_user_who_becomes_visible_during_an_acknowledgement_gives_receipts(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await send_to_invisible(api, "private")
    rows = api.services.app.store.session_rows
    write = rows.write

    async def become_visible_and_write(*args: Any) -> None:
        await api.services.app.store.presence.set_presence(UserId(sent.bob), PresenceSetting.ONLINE, None)
        await write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(type(rows), "write", lambda _, *args: become_visible_and_write(*args))
        await api.ack(sent.bob, sent.conversation, sent.last)
    await sent.expect_receipt("DELIVERED", sent.last)


async def test_a_held_receipt_written_without_an_answer_is_released_later(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MongoDB wrote the session row and nothing else before the connection was lost."""
    sent = await send_to_invisible(api, "group")
    with only_session_rows_are_written(api, monkeypatch):
        query = f"mutation ($id: ID!) {{ ackDelivered(conversationId: $id, upToSeq: {sent.last}) {{ id }} }}"
        assert (await api.expect_refusal(sent.bob, query, id=sent.conversation)).code == "UNAVAILABLE"
    assert (await api.own_session(sent.bob, sent.conversation))["deliveredSeq"] == sent.last
    await sent.expect_held()
    await set_presence(api, sent.bob, PresenceSetting.ONLINE)
    await sent.expect_receipt("DELIVERED", sent.last)


async def test_a_release_that_fails_is_due_at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = await send_to_invisible(api, "private")
    await api.ack(sent.bob, sent.conversation, sent.last)
    await api.wait_until_idle()
    receipts = api.services.app.store.receipts

    async def fail(*_: Any) -> None:
        raise Unreachable("an election")

    with monkeypatch.context() as patch:
        patch.setattr(type(receipts), "save_marks", fail)
        await set_presence(api, sent.bob, PresenceSetting.ONLINE)
        await sent.expect_held()
        store = api.services.app.store
        (row,) = api.database["held_receipts"].find({"_id": {"$regex": f"^{sent.bob} "}})
        # Housekeeping may have tried it meanwhile, and tries it again.
        assert row["l"] < store.clock.now_ms() + CHECK_MS / 2
        await store.held_receipts.hold(await store.held_receipts.list_of(UserId(sent.bob), 0), 1)
    # Or housekeeping does it.
    await api.services.app.receipt_release.release_due()
    await sent.expect_receipt("DELIVERED", sent.last)


async def test_a_refused_acknowledgement_of_an_invisible_user_holds_nothing(api: Api) -> None:
    sent = await send_to_invisible(api, "group")
    before = await api.stored_documents()
    query = "mutation ($id: ID!, $seq: Int!) { ackDelivered(conversationId: $id, upToSeq: $seq) { id } }"
    assert (await api.expect_refusal(sent.bob, query, id=sent.conversation, seq=-1)).code == "INVALID_INPUT"
    assert (await api.expect_refusal(sent.bob, query, id="g_unknown", seq=1)).code == "NOT_FOUND"
    assert await api.stored_documents() == before

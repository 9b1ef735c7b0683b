"""Rooms of the media server are compared with voice states. Ghosts go, and no failure of LiveKit empties a channel."""

from __future__ import annotations

from functools import partial

import pytest
import uvicorn
from starlette.applications import Starlette

from resolvers.voice.media.owned_states import ring_key
from resolvers.voice.media.room_history import STRANGER_MS, UNSEEN_MS
from server.voice.livekit_webhook import WEBHOOK_PATH, livekit_webhook_route
from store.base.errors import Unreachable
from store.base.ids import ConversationId
from store.base.workspace_ids import workspace_of_channel
from tests.api.client import wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.api.voice.calls import JOIN, MODERATE, Device, next_voice
from tests.api.voice.media.conftest import MediaWorkspace, livekit_of
from tests.protocol.serving import serving, until
from tests.voice.livekit_server import FakeParticipant, LiveKitServer

SHOWN_SECONDS = 45


async def test_a_ghost_is_gone_after_45_s_without_any_webhook(media: MediaWorkspace) -> None:
    _, ann = await media.connect(media.voice.member)
    await media.connect(media.voice.owner)
    listener, _ = await media.voice.listen(media.voice.owner)
    await media.look_for(20)
    media.livekit.leave(media.lounge, ann)
    await media.look_for(SHOWN_SECONDS)
    assert await media.voice.users(media.voice.lounge) == [media.voice.owner]
    event = await next_voice(listener)
    assert event["left"] and event["state"]["user"]["id"] == media.voice.member


async def test_the_state_of_the_last_participant_ends_after_45_s(media: MediaWorkspace) -> None:
    _, ann = await media.connect(media.voice.member)
    await media.look_for(20)
    media.livekit.leave(media.lounge, ann)
    await media.look_for(20)
    # An empty room closes some time later.
    del media.livekit.rooms[media.lounge]
    await media.look_for(SHOWN_SECONDS - 20)
    assert await media.voice.users(media.voice.lounge) == []


async def test_a_client_that_reconnects_in_time_stays(media: MediaWorkspace) -> None:
    device, ann = await media.connect(media.voice.member)
    await media.look_for(20)
    for _ in range(3):
        media.livekit.leave(media.lounge, ann)
        await media.look_for(20)
        media.livekit.join((await device.data(JOIN, id=media.voice.lounge))["token"])
        await media.look_for(20)
    assert await media.voice.users(media.voice.lounge) == [media.voice.member]


async def test_a_client_may_take_ten_minutes_to_connect(media: MediaWorkspace) -> None:
    device = Device(media.voice.api, media.voice.member)
    await device.join(media.voice.lounge)
    await media.look()
    await media.look(UNSEEN_MS - 5_000)
    assert await media.voice.users(media.voice.lounge) == [media.voice.member]
    await media.look(20_000)
    await media.look(1)
    assert await media.voice.users(media.voice.lounge) == []


@pytest.mark.parametrize("failing", [set(), {"ListRooms"}, {"ListParticipants"}])
async def test_a_failing_media_server_empties_no_channel(media: MediaWorkspace, failing: set[str]) -> None:
    _, ann = await media.connect(media.voice.member)
    await media.look_for(20)
    media.livekit.leave(media.lounge, ann)
    media.livekit.status, media.livekit.failing = 500, failing
    for _ in range(100):
        await media.look(10_000)
    assert await media.voice.users(media.voice.lounge) == [media.voice.member]
    media.livekit.status = 0
    await media.look(15_000)
    assert await media.voice.users(media.voice.lounge) == [media.voice.member]
    await media.look_for(SHOWN_SECONDS)
    assert await media.voice.users(media.voice.lounge) == []


async def test_a_media_server_that_answers_too_slowly_empties_no_channel(
    media: MediaWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ann = await media.connect(media.voice.member)
    await media.look_for(20)
    media.livekit.leave(media.lounge, ann)
    monkeypatch.setattr(media.parts.api, "_timeout_seconds", 0.01)
    media.livekit.delay_seconds = 0.2
    for _ in range(5):
        await media.look(20_000)
    assert await media.voice.users(media.voice.lounge) == [media.voice.member]


async def test_a_restarted_media_server_empties_no_channel(media: MediaWorkspace) -> None:
    device, ann = await media.connect(media.voice.member)
    await media.connect(media.voice.owner)
    await media.look_for(20)
    media.livekit.restart()
    await media.look_for(100)
    assert len(await media.voice.users(media.voice.lounge)) == 2
    media.livekit.join((await device.data(JOIN, id=media.voice.lounge))["token"])
    await media.look_for(100)
    assert len(await media.voice.users(media.voice.lounge)) == 2
    media.livekit.leave(media.lounge, ann)
    await media.look_for(SHOWN_SECONDS)
    assert await media.voice.users(media.voice.lounge) == [media.voice.owner]
    await media.look(UNSEEN_MS)
    await media.look(1_000)
    assert await media.voice.users(media.voice.lounge) == []


async def test_a_participant_without_a_state_is_removed_after_some_seconds(media: MediaWorkspace) -> None:
    _, ann = await media.connect(media.voice.member)
    media.livekit.room(media.lounge).participants["eve:1"] = FakeParticipant("eve:1", {})
    media.livekit.room(media.lounge).participants["agent"] = FakeParticipant("agent", {}, kind="AGENT")
    await media.look()
    assert media.livekit.identities(media.lounge) == {ann, "eve:1", "agent"}
    await media.look(STRANGER_MS)
    assert media.livekit.identities(media.lounge) == {ann, "agent"}


async def test_rooms_without_any_state_are_looked_at_every_minute(media: MediaWorkspace) -> None:
    await media.look()
    stage = media.room(media.voice.stage)
    media.livekit.room(stage).participants["eve:1"] = FakeParticipant("eve:1", {})
    media.livekit.room("meeting of others").participants["eve:1"] = FakeParticipant("eve:1", {})
    await media.look_for(66)
    assert media.livekit.identities(stage) == set()
    assert media.livekit.identities("meeting of others") == {"eve:1"}


async def test_an_old_token_does_not_bring_a_removed_user_back_for_long(media: MediaWorkspace) -> None:
    device = Device(media.voice.api, media.voice.member)
    token = (await device.data(JOIN, id=media.voice.lounge))["token"]
    media.livekit.join(token)
    await media.look()
    given = {"id": media.voice.lounge, "user": media.voice.member}
    await media.voice.api.data(media.voice.owner, MODERATE, **given, disconnect=True)
    await media.wait_for_room(media.lounge)
    identity = media.livekit.join(token).identity
    assert media.livekit.identities(media.lounge) == {identity}
    media.parts.note_room(media.lounge)
    await media.look_for(1 + 15 + STRANGER_MS // 1000)
    assert media.livekit.identities(media.lounge) == set()


async def test_permissions_that_changed_before_the_client_connected_are_corrected(media: MediaWorkspace) -> None:
    device = Device(media.voice.api, media.voice.member)
    token = (await device.data(JOIN, id=media.voice.lounge))["token"]
    given = {"id": media.voice.lounge, "user": media.voice.member}
    await media.voice.api.data(media.voice.owner, MODERATE, **given, mute=True)
    await media.parts.calls.settle()
    participant = media.livekit.join(token)
    assert participant.can_publish("MICROPHONE")
    await media.look()
    assert not participant.can_publish("MICROPHONE") and participant.can_publish("CAMERA")


async def test_a_hint_makes_the_owner_look_at_most_once_a_second(media: MediaWorkspace) -> None:
    _, ann = await media.connect(media.voice.member)
    await media.look()
    media.livekit.calls.clear()
    channel = ConversationId(media.voice.lounge)
    for _ in range(10):
        media.reconciler.note_hint(channel)
        await media.look(100)
    lists = len(media.livekit.made("ListParticipants"))
    assert lists == 1
    media.livekit.leave(media.lounge, ann)
    media.reconciler.note_hint(channel)
    await media.look(1_000)
    assert len(media.livekit.made("ListParticipants")) == lists + 1


async def test_a_loss_of_redis_removes_nobody_from_a_room(media: MediaWorkspace, deployments: Deployments) -> None:
    _, ann = await media.connect(media.voice.member)
    media.livekit.rooms[media.lounge].participants["eve:1"] = FakeParticipant("eve:1", {})
    await media.look()
    services = media.voice.api.services
    deployments.flush_redis("main")
    await services.housekeeper.check_redis()
    await media.look_for(29)
    assert media.livekit.identities(media.lounge) == {ann, "eve:1"}
    await media.voice.wait_for(media.voice.lounge, media.voice.member)
    await media.look_for(10)
    assert media.livekit.identities(media.lounge) == {ann}


async def test_nothing_is_judged_while_redis_is_away(media: MediaWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ann = await media.connect(media.voice.member)
    await media.look_for(20)
    media.livekit.leave(media.lounge, ann)
    media.livekit.rooms[media.lounge].participants["eve:1"] = FakeParticipant("eve:1", {})

    def refuse() -> None:
        raise Unreachable("Redis is away")

    with monkeypatch.context() as away:
        away.setattr(media.voice.api.services.app.store.cache, "require_shared", refuse)
        for _ in range(12):
            await media.look(10_000)
    assert media.livekit.identities(media.lounge) == {"eve:1"}
    assert await media.voice.users(media.voice.lounge) == [media.voice.member]
    await media.look_for(SHOWN_SECONDS)
    assert media.livekit.identities(media.lounge) == set()
    assert await media.voice.users(media.voice.lounge) == []


async def test_a_webhook_makes_the_process_look_at_once(media: MediaWorkspace) -> None:
    _, ann = await media.connect(media.voice.member)
    media.parts.reconciler.open()
    participant = media.livekit.rooms[media.lounge].participants[ann]

    async def is_corrected() -> bool:
        return participant.can_publish("MICROPHONE")

    app = Starlette(routes=[livekit_webhook_route(media.parts.tokens, media.parts.note_room)])
    config = uvicorn.Config(app, log_config=None, lifespan="off", access_log=False)
    try:
        async with serving(config) as served:
            for _ in range(3):
                participant.permission["can_publish"] = False
                url = f"http://127.0.0.1:{served.port}{WEBHOOK_PATH}"
                assert await media.livekit.send_webhook(url, "participant_joined", media.lounge) == 200
                await wait_until(is_corrected)
    finally:
        await media.parts.reconciler.close()


async def test_a_hint_goes_to_the_server_that_owns_the_workspace(
    media: MediaWorkspace, open_api: OpenApi, livekit_server: LiveKitServer
) -> None:
    channel = ConversationId(media.voice.lounge)
    async with open_api("main", **livekit_server.settings()) as other:
        parts = {each.services.app.hub.server: livekit_of(each) for each in (media.voice.api, other)}
        await livekit_of(other).reconciler.close()
        rings = [each.services.app.shared_events.typing.ring for each in (media.voice.api, other)]
        for ring in rings:
            ring.update(parts)
        owner = rings[0].owner_of(ring_key(workspace_of_channel(channel)))
        for sender in parts.values():
            for each in parts.values():
                each.reconciler._due_ms.clear()
            sender.note_room(media.lounge)
            await until(partial(parts[owner].reconciler._due_ms.__contains__, channel))
        (not_owner,) = parts.keys() - {owner}
        assert channel not in parts[not_owner].reconciler._due_ms
    rings[0].update([])

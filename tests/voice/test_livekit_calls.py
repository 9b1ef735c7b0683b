"""Calls of the server API: what they change, and what happens when LiveKit fails, is slow, or is something else."""

from __future__ import annotations

import asyncio

import pytest

from resolvers.voice.media import participant_calls
from resolvers.voice.media.livekit_api import LiveKitApi, MediaServerError
from resolvers.voice.media.participant_calls import MOST_CALLS, Removal
from resolvers.voice.media.rooms import MediaPermission
from tests.protocol.serving import until
from tests.voice.conftest import ROOM, Media, state_of
from tests.voice.livekit_server import ALL_SOURCES

NOTHING = MediaPermission(can_speak=False, can_show=False, can_hear=False)


async def test_a_state_that_ended_loses_its_participant(media: Media) -> None:
    ann, bob = media.join(state_of()), media.join(state_of("bob"))
    media.end(state_of())
    await media.calls.settle()
    assert media.server.identities(ROOM) == {bob} and ann == media.identity()
    (removal,) = media.server.made("RemoveParticipant")
    assert removal == {"room": ROOM, "identity": ann, "revoke_token_ts": str(media.clock.ms // 1000)}


async def test_a_changed_state_changes_what_its_participant_may_do(media: Media) -> None:
    media.join(state_of())
    participant = media.server.rooms[ROOM].participants[media.identity()]
    for state, sources, hears in (
        (state_of(muted=True), ALL_SOURCES[1:], True),
        (state_of(muted=True, may_show=False, deafened=True), (), False),
        (state_of(may_show=False), ALL_SOURCES[:1], True),
        (state_of(), ALL_SOURCES, True),
    ):
        media.change(state)
        await media.calls.settle()
        assert tuple(source for source in ALL_SOURCES if participant.can_publish(source)) == sources
        assert participant.permission["can_subscribe"] is hears
        assert MediaPermission.of_state(state).matches(participant.permission)
        assert not NOTHING.matches(participant.permission) or not sources
    assert not media.failed_rooms


async def test_calls_about_participants_who_are_not_there_do_nothing(media: Media) -> None:
    media.end(state_of())
    media.change(state_of("bob"))
    await media.calls.settle()
    assert not media.failed_rooms and not media.server.rooms


async def test_of_several_changes_of_a_state_only_the_newest_is_sent(media: Media) -> None:
    media.join(state_of())
    media.join(state_of("bob"))
    media.server.delay_seconds = 0.05
    media.change(state_of("bob", muted=True))
    await asyncio.sleep(0)
    for number in range(50):
        media.change(state_of(muted=number % 2 == 0))
    media.end(state_of())
    await media.calls.settle()
    assert [name for name, _ in media.server.calls] == ["UpdateParticipant", "RemoveParticipant"]


async def test_a_device_that_joins_again_is_not_removed_by_an_earlier_leave(media: Media) -> None:
    media.join(state_of("bob"))
    media.server.delay_seconds = 0.05
    media.end(state_of("bob"))
    await asyncio.sleep(0)
    media.end(state_of())
    identity = media.join(state_of())
    await media.calls.settle()
    assert media.server.identities(ROOM) == {identity}


async def test_a_call_is_repeated_after_a_passing_failure(media: Media) -> None:
    media.server.status, media.server.failures = 503, 2
    identity = media.join(state_of())
    await media.api.remove(ROOM, identity, 0)
    assert not media.server.identities(ROOM) and len(media.server.calls) == 3


@pytest.mark.parametrize(("status", "attempts"), [(500, 3), (429, 3), (401, 1), (404, 1), (302, 1)])
async def test_lasting_failures_are_errors(media: Media, status: int, attempts: int) -> None:
    media.server.status = status
    with pytest.raises(MediaServerError):
        await media.api.list_participants(ROOM)
    assert len(media.server.calls) == attempts


async def test_failed_calls_of_a_room_are_dropped_and_the_room_is_named(media: Media) -> None:
    media.join(state_of())
    media.server.status = 500
    media.end(state_of())
    media.change(state_of("bob"))
    await media.calls.settle()
    assert media.failed_rooms == [ROOM] and len(media.server.calls) == 3
    media.server.status = 0
    media.end(state_of())
    await media.calls.settle()
    assert not media.server.identities(ROOM)


async def test_an_answer_that_takes_too_long_is_an_error(media: Media) -> None:
    slow = LiveKitApi(media.server.url, media.tokens, timeout_seconds=0.02)
    media.server.delay_seconds = 0.5
    with pytest.raises(MediaServerError, match="Timeout"):
        await slow.list_rooms()
    await slow.close()


async def test_an_unreachable_server_is_an_error(media: Media) -> None:
    api = LiveKitApi("http://127.0.0.1:1", media.tokens)
    with pytest.raises(MediaServerError):
        await api.list_rooms()
    await api.close()


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"participants": 3}', b'{"participants": [1]}', b"<html>"])
async def test_answers_of_something_else_are_errors_and_no_empty_lists(
    media: Media, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def post(*_: object) -> tuple[int, bytes]:
        return 200, content

    monkeypatch.setattr(media.api, "_post", post)
    with pytest.raises(MediaServerError):
        await media.api.list_participants(ROOM)


async def test_lists_are_read_in_both_spellings_without_participants_who_left(
    media: Media, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def post(*_: object) -> tuple[int, bytes]:
        return 200, (
            b'{"participants": [{"identity": "a:1", "state": "ACTIVE", "kind": "AGENT"},'
            b'{"identity": "b:1", "state": "DISCONNECTED"},'
            b'{"identity": "c:1", "permission": {"canPublish": true, "canPublishSources": ["MICROPHONE"],'
            b'"canSubscribe": true}}]}'
        )

    monkeypatch.setattr(media.api, "_post", post)
    agent, person = await media.api.list_participants(ROOM)
    assert (agent.identity, agent.is_person) == ("a:1", False) and (person.identity, person.is_person) == ("c:1", True)
    assert MediaPermission(can_speak=True, can_show=False, can_hear=True).matches(person.permission)


async def test_a_room_that_does_not_exist_has_no_participants(media: Media) -> None:
    assert await media.api.list_participants(ROOM) == [] and await media.api.list_rooms() == []


async def test_waiting_calls_are_bounded(media: Media, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(participant_calls, "MOST_CALLS", 3)
    for number in range(5):
        media.calls.put(ROOM, f"user:{number}", Removal(0))
    media.calls.put(ROOM, "user:0", NOTHING)
    assert media.failed_rooms == [ROOM, ROOM] and MOST_CALLS > 3
    monkeypatch.setattr(participant_calls, "_MOST_ROOMS", 1)
    media.calls.put("another room", "user:0", Removal(0))
    assert media.failed_rooms == [ROOM, ROOM, "another room"]
    await media.calls.settle()
    assert len(media.server.calls) == 3


async def test_calls_that_wait_are_made_when_the_process_stops(media: Media) -> None:
    media.join(state_of())
    media.end(state_of())
    await media.calls.close()
    assert not media.server.identities(ROOM)


async def test_a_call_that_comes_when_the_last_one_has_just_ended_is_made(media: Media) -> None:
    first, second = media.join(state_of()), media.join(state_of("bob"))
    remove = media.api.remove

    async def remove_and_put(room: str, identity: str, at_ms: int) -> None:
        await remove(room, identity, at_ms)
        if identity == first:
            # Callbacks run after the task has ended, and before those who wait for it.
            task = asyncio.current_task()
            assert task is not None
            task.add_done_callback(lambda _: media.calls.put(ROOM, second, Removal(0)))

    media.api.remove = remove_and_put  # type: ignore[method-assign]
    media.calls.put(ROOM, first, Removal(0))
    await until(lambda: not media.server.identities(ROOM))

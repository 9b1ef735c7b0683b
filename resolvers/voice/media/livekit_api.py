"""Calls of LiveKit's server API: JSON over HTTP (Twirp)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
import orjson

from resolvers.voice.media.livekit_tokens import LiveKitTokens
from resolvers.voice.media.rooms import MediaPermission, read

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.3
_REPEATABLE = frozenset({408, 429, 500, 502, 503, 504})
_CONNECT_SECONDS = 2.0
_CALLS_AT_ONCE = 16
_MOST_BYTES = 16 * 1024 * 1024
"""Largest answer that is read. The list of 10,000 rooms has about 4 MB."""


class MediaServerError(Exception):
    """Raised if LiveKit gives no answer, or another one than expected. Nothing is known about the call's effect."""


class Room(NamedTuple):
    """A room that exists. id: each room has its own, also if there was a room of the same name before."""

    name: str
    id: str


class Participant(NamedTuple):
    """A participant of a room. is_person: neither an agent, nor a recording, nor another service."""

    identity: str
    is_person: bool
    permission: Mapping[str, Any]


class LiveKitApi:
    """Makes calls, which may all be repeated. Every call raises MediaServerError."""

    def __init__(self, url: str, tokens: LiveKitTokens, *, timeout_seconds: float = 4.0) -> None:
        """Prepare the connections; open none. timeout_seconds: time limit of an attempt, of which there are three."""
        self._url = f"{url}/twirp/livekit.RoomService/"
        self._tokens = tokens
        self._timeout_seconds = timeout_seconds
        self._turns = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, _CONNECT_SECONDS)),
            limits=httpx.Limits(max_connections=_CALLS_AT_ONCE, max_keepalive_connections=_CALLS_AT_ONCE),
            trust_env=False,
        )

    async def close(self) -> None:
        """End all connections."""
        await self._client.aclose()

    async def list_rooms(self, names: list[str] | None = None) -> list[Room]:
        """Return the rooms that exist, of these names or all."""
        body = {"names": names} if names is not None else {}
        answer = await self._call("ListRooms", {"roomList": True}, body)
        return [Room(str(read(room, "name")), str(read(room, "sid"))) for room in _list(answer, "rooms")]

    async def list_participants(self, room: str) -> list[Participant]:
        """Return the participants of a room; none if it does not exist. Those that have left already are skipped."""
        answer = await self._call("ListParticipants", _administer(room), {"room": room})
        return [
            Participant(
                str(read(found, "identity")),
                read(found, "kind") in (None, 0, "STANDARD"),
                read(found, "permission") or {},
            )
            for found in _list(answer, "participants")
            if read(found, "state") not in ("DISCONNECTED", 3)
        ]

    async def remove(self, room: str, identity: str, at_ms: int) -> None:
        """Remove a participant, if it is there.

        at_ms: LiveKit Cloud refuses tokens that were signed before this time. Other servers ignore it.
        """
        body = {"room": room, "identity": identity, "revoke_token_ts": str(at_ms // 1000)}
        await self._call("RemoveParticipant", _administer(room), body)

    async def set_permission(self, room: str, identity: str, permission: MediaPermission) -> None:
        """Change what a participant may do, if it is there. LiveKit ends what it must not publish any more."""
        body = {"room": room, "identity": identity, "permission": permission.to_message()}
        await self._call("UpdateParticipant", _administer(room), body)

    async def _call(self, method: str, grants: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a call; None if the room or the participant does not exist."""
        async with self._turns:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    status, content = await self._post(method, grants, body)
                except (httpx.HTTPError, TimeoutError, OSError) as error:
                    problem = f"{method}: {type(error).__name__}: {error}"
                else:
                    if status == 200 or status == 404:
                        return _parse(method, status, content)
                    problem = f"{method}: status {status}"
                    if status not in _REPEATABLE:
                        break
                if attempt < _ATTEMPTS:
                    await asyncio.sleep(_PAUSE_SECONDS * attempt)
        raise MediaServerError(problem)

    async def _post(self, method: str, grants: Mapping[str, Any], body: Mapping[str, Any]) -> tuple[int, bytes]:
        headers = {"authorization": f"Bearer {self._tokens.sign_call(grants)}", "content-type": "application/json"}
        request = self._client.build_request("POST", self._url + method, headers=headers, content=orjson.dumps(body))
        async with asyncio.timeout(self._timeout_seconds):
            answer = await self._client.send(request, stream=True)
            try:
                content = bytearray()
                async for piece in answer.aiter_bytes():
                    content += piece
                    if len(content) > _MOST_BYTES:
                        raise MediaServerError(f"{method}: the answer is too large")
            finally:
                await answer.aclose()
        return answer.status_code, bytes(content)


def _administer(room: str) -> dict[str, Any]:
    return {"roomAdmin": True, "room": room}


def _parse(method: str, status: int, content: bytes) -> dict[str, Any] | None:
    try:
        answer = orjson.loads(content)
    except ValueError:
        answer = None
    if status == 404:
        # Another 404 comes from something that is not LiveKit's server API.
        if isinstance(answer, dict) and answer.get("code") == "not_found":
            return None
        raise MediaServerError(f"{method}: no server API at this address")
    if not isinstance(answer, dict):
        raise MediaServerError(f"{method}: the answer is not a JSON object")
    return answer


def _list(answer: Mapping[str, Any] | None, field: str) -> list[Mapping[str, Any]]:
    # LiveKit sends empty lists too. An answer without a list comes from something else, and must not empty a channel.
    found = answer.get(field) if answer is not None else []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise MediaServerError(f"the answer has no list of {field}")
    return found

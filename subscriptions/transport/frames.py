"""The messages of graphql-transport-ws: parses clients' messages, and encodes the server's."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from subscriptions.transport.engine import GraphQLRequest, Json
from subscriptions.transport.graphql_request import InvalidRequest, graphql_request

SUBPROTOCOL = "graphql-transport-ws"

ACK_FRAME = '{"type":"connection_ack"}'
PING_FRAME = '{"type":"ping"}'
PONG = b'{"type":"pong"}'
"""The usual answer to a ping. A pong has no effect, whatever it contains."""


class InvalidFrame(Exception):
    """Raised for a text that is not a valid message of a client. `reason` can be sent in a close frame."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ConnectionInit:
    """The first message of a client, with its token in the payload."""

    payload: Json | None


@dataclass(frozen=True, slots=True)
class Ping:
    """A ping, which the server answers with its payload."""

    payload: Json | None


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping of the server."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """The start of an operation of any kind."""

    id: str
    request: GraphQLRequest


@dataclass(frozen=True, slots=True)
class Complete:
    """The end of an operation by the client."""

    id: str


ClientFrame = ConnectionInit | Ping | Pong | Subscribe | Complete


def parse_frame(text: str) -> ClientFrame:
    """Parse a client's message. Unknown members are ignored. Raises InvalidFrame."""
    message = _decode(text)
    if not isinstance(message, dict):
        raise InvalidFrame("Message is expected to be an object")
    match message.get("type"):
        case "connection_init":
            return ConnectionInit(_object_or_none(message, "payload"))
        case "ping":
            return Ping(_object_or_none(message, "payload"))
        case "pong":
            _object_or_none(message, "payload")
            return Pong()
        case "subscribe":
            return Subscribe(_id(message), _request(message))
        case "complete":
            return Complete(_id(message))
        case _:
            raise InvalidFrame("Message has no 'type' that a client may send")


def pong_frame(payload: Json | None) -> str:
    """Encode the answer to a ping. Raises InvalidFrame if the payload is nested too deeply to encode."""
    if payload is None:
        return '{"type":"pong"}'
    try:
        return _encode({"type": "pong", "payload": payload})
    except orjson.JSONEncodeError:
        raise InvalidFrame("The 'payload' is nested too deeply") from None


def next_frame_start(id: str) -> bytes:
    """Return the bytes before the response in an operation's `next` frames. A closing brace follows the response."""
    return b'{"id":%b,"type":"next","payload":' % orjson.dumps(id)


def error_frame(id: str, errors: list[Json]) -> str:
    """Encode the failure of an operation. It is the last frame for this id."""
    return _encode({"id": id, "type": "error", "payload": errors})


def complete_frame(id: str) -> str:
    """Encode the end of an operation. It is the last frame for this id."""
    return _encode({"id": id, "type": "complete"})


_LONE_SURROGATE = re.compile(
    r"""\\u[dD][89abAB][0-9a-fA-F]{2} (?! \\u[dD][c-fC-F][0-9a-fA-F]{2} )
      | (?<! \\u[dD][89abAB][0-9a-fA-F]{2} ) \\u[dD][c-fC-F][0-9a-fA-F]{2}""",
    re.VERBOSE,
)


def _decode(text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    # If text is cut in the middle of an emoji, JavaScript writes a lone surrogate, which is not valid Unicode. Browsers
    # replace it by U+FFFD. The same here, because refusing the frame would end the user's connection for good.
    try:
        return orjson.loads(_replace_lone_surrogates(text))
    except ValueError:
        raise InvalidFrame("Message is not valid JSON") from None


def _replace_lone_surrogates(text: str) -> str:
    """Replace each lone surrogate in JSON by U+FFFD. Takes milliseconds for a megabyte, whatever it contains."""
    if "\0" in text:
        raise ValueError("JSON must not contain NUL")
    # Hide escaped backslashes. Every remaining backslash begins an escape sequence.
    hidden = text.replace(r"\\", "\0")
    return _LONE_SURROGATE.sub(r"\\ufffd", hidden).replace("\0", r"\\")


def _encode(message: Json) -> str:
    return orjson.dumps(message).decode()


def _id(message: Json) -> str:
    id = message.get("id")
    if not isinstance(id, str) or not id:
        raise InvalidFrame("The 'id' is expected to be a non-empty string")
    return id


def _request(message: Json) -> GraphQLRequest:
    payload = message.get("payload")
    if not isinstance(payload, dict):
        raise InvalidFrame("The 'payload' of subscribe is expected to be an object")
    try:
        return graphql_request(payload)
    except InvalidRequest as invalid:
        raise InvalidFrame(str(invalid)) from None


def _object_or_none(holder: Json, name: str) -> Json | None:
    value = holder.get(name)
    if value is not None and not isinstance(value, dict):
        raise InvalidFrame(f"The '{name}' is expected to be an object or null")
    return value

"""The messages of graphql-transport-ws: a client's, parsed and checked; ours, encoded."""

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


class InvalidFrame(Exception):
    """The text is no message that a client may send. `reason` is fit for a close frame."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ConnectionInit:
    payload: Json | None


@dataclass(frozen=True, slots=True)
class Ping:
    payload: Json | None


@dataclass(frozen=True, slots=True)
class Pong:
    pass


@dataclass(frozen=True, slots=True)
class Subscribe:
    id: str
    request: GraphQLRequest


@dataclass(frozen=True, slots=True)
class Complete:
    id: str


ClientFrame = ConnectionInit | Ping | Pong | Subscribe | Complete


def parse_frame(text: str) -> ClientFrame:
    """The message that `text` spells; members the protocol doesn't know are ignored. Raises InvalidFrame."""
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
    """The answer to a ping, with its payload. Raises InvalidFrame if that is nested too deeply to encode."""
    if payload is None:
        return '{"type":"pong"}'
    try:
        return _encode({"type": "pong", "payload": payload})
    except orjson.JSONEncodeError:
        raise InvalidFrame("The 'payload' is nested too deeply") from None


def next_frame_start(id: str) -> bytes:
    """What comes before the response in each of an operation's results; after it comes a closing brace."""
    return b'{"id":%b,"type":"next","payload":' % orjson.dumps(id)


def error_frame(id: str, errors: list[Json]) -> str:
    """The operation failed as a whole; nothing follows for this id."""
    return _encode({"id": id, "type": "error", "payload": errors})


def complete_frame(id: str) -> str:
    """The operation is over; nothing follows for this id."""
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
    # JavaScript writes half an emoji (text that was cut in the middle of one) as a lone surrogate, which is no
    # Unicode. That is no reason to end a user's connection for good: take it for U+FFFD, as browsers do.
    try:
        return orjson.loads(_mend(text))
    except ValueError:
        raise InvalidFrame("Message is not valid JSON") from None


def _mend(text: str) -> str:
    """JSON with U+FFFD for each lone surrogate. A megabyte takes milliseconds, whatever is in it."""
    if "\0" in text:
        raise ValueError("JSON has no such character")
    # Escaped backslashes out of the way, every other one begins an escape.
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

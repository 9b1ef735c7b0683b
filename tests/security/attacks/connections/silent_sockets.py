"""WebSockets that finish their handshake and send no connection_init."""

from __future__ import annotations

from tests.security.attacks.attack import Attack, Limits
from tests.security.attacks.attacker import Attacker
from tests.security.attacks.connections.slow_bytes import run_slowly

_HANDSHAKE = (
    b"GET /graphql HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"sec-websocket-protocol: graphql-transport-ws\r\n\r\n"
)
_CLOSE_FRAME = b"\x88"
"""First byte of a close frame. The server keeps the connection for the answer to it, which never comes."""


async def run(attacker: Attacker) -> None:
    await run_slowly(attacker, _HANDSHAKE, b"", _CLOSE_FRAME)


ATTACK = Attack(
    "1,000 WebSockets without connection_init",
    run,
    full=1_000,
    short=60,
    short_seconds=3,
    rate=200,
    limits=Limits(open_after=0),
    extra_seconds=20,
)

"""A cheap XMPP client: it writes prepared stanzas and only looks for marks in what it receives."""

from __future__ import annotations

import asyncio
import re
from typing import cast

from bench.peers.ejabberd import HOST, ROOMS, credentials
from bench.subscriber import PATIENCE_SECONDS, STAMP, Deliveries
from bench.suite.clients import Taken

_STREAM = (
    f"<?xml version='1.0'?><stream:stream to='{HOST}' version='1.0' xml:lang='en' xmlns='jabber:client' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
).encode()
_BIND = b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>"
_ASK_ACK = b"<r xmlns='urn:xmpp:sm:3'/>"
_END = b"</message>"
_OWN_GROUP_MESSAGE = re.compile(STAMP + rb".*?</message>", re.DOTALL)
_ACK = re.compile(rb"<a [^>]*/>")


class XmppClient(asyncio.Protocol):
    """One connection of a user, and the only occupant of that name in its room.

    `ready` is done once the server has the user's presence, in the room too. asks: whether it sends messages. The
    server confirms that it has received one, which is its answer; the answer of a room is the same message.
    """

    def __init__(self, user: str, heard: Deliveries, *, room: str = "", asks: bool = False) -> None:
        self.heard = heard
        self.closed: tuple[int, str] | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._user = user
        self._room = room
        self._asks = asks
        self._buffer = b""
        self._taken: Taken | None = None
        self._transport: asyncio.Transport | None = None
        present = f"<presence/><presence to='{room}@{ROOMS}/{user}'>" if room else "<presence/>"
        if room:
            present += "<x xmlns='http://jabber.org/protocol/muc'><history maxstanzas='0'/></x></presence>"
        enable = "<enable xmlns='urn:xmpp:sm:3'/>" if asks and not room else ""
        auth = f"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{credentials(user)}</auth>"
        self._steps = [
            (b"</stream:features>", auth.encode()),
            (b"<success", _STREAM),
            (b"</stream:features>", _BIND),
            (b"</bind>", enable.encode() + present.encode()),
            (b"'110'" if room else b"<presence ", b""),
        ]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's class is not a subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(_STREAM)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = self.closed or (1006, self._buffer[-200:].decode(errors="replace"))
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(f"closed before it was ready: {self.closed}"))
            self.ready.exception()
        self._finish(b'"errors": the connection was lost')

    async def open(self) -> None:
        """Wait until the client is ready."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.ready

    def ask(self, body: bytes, taken: Taken) -> None:
        """Send a stanza."""
        assert self._transport is not None and self._taken is None
        self._taken = taken
        self._transport.write(body if self._room or body.startswith(b"<iq") else body + _ASK_ACK)

    def close(self) -> None:
        if self._transport is not None:
            self.closed = (1000, "")
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self.ready.done():
            self._step()
        elif self._asks:
            self._receive_answer()
        else:
            *stanzas, self._buffer = self._buffer.split(_END)
            for stanza in stanzas:
                self.heard.take(stanza)

    def _step(self) -> None:
        assert self._transport is not None
        mark, answer = self._steps[0]
        at = self._buffer.find(mark)
        if at < 0:
            return
        self._buffer = self._buffer[at + len(mark) :]
        self._transport.write(answer)
        del self._steps[0]
        if not self._steps:
            self.ready.set_result(None)
        elif self._buffer:
            self._step()

    def _receive_answer(self) -> None:
        if self._taken is None:
            self._buffer = b""
        elif b"</fin></iq>" in self._buffer:
            answer, self._buffer = self._buffer, b""
            self._finish(answer)
        elif found := (_OWN_GROUP_MESSAGE if self._room else _ACK).search(self._buffer):
            answer, self._buffer = self._buffer[: found.end()], self._buffer[found.end() :]
            self._finish(answer)

    def _finish(self, answer: bytes) -> None:
        taken, self._taken = self._taken, None
        if taken is not None:
            taken(answer)

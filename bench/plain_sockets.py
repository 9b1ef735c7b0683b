"""The minimum work of any WebSocket server on the same libraries: the same text to every socket.

An ASGI application. POST /send writes its body to all sockets of GET /sockets, then answers.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

_sockets: set[WebSocket] = set()


async def _serve(socket: WebSocket) -> None:
    await socket.accept()
    _sockets.add(socket)
    try:
        while True:
            await socket.receive_text()
    except WebSocketDisconnect:
        pass
    finally:
        _sockets.discard(socket)


async def _ready(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ready")


async def _send(request: Request) -> PlainTextResponse:
    text = (await request.body()).decode()
    for socket in list(_sockets):
        await socket.send_text(text)
    return PlainTextResponse(str(len(_sockets)))


app = Starlette(
    routes=[WebSocketRoute("/sockets", _serve), Route("/readyz", _ready), Route("/send", _send, methods=["POST"])]
)

"""The endpoint for LiveKit's webhooks in the application: only with the settings, and without a user's token."""

from __future__ import annotations

import pytest

from server.voice.livekit_webhook import WEBHOOK_PATH
from store.base.clock import SystemClock
from tests.server.served_app import ServeApp
from tests.voice.livekit_server import LiveKitServer, serving_livekit


async def test_webhooks_are_received_with_the_settings_of_livekit(serve_app: ServeApp) -> None:
    async with serving_livekit(SystemClock()) as livekit, serve_app(**livekit.settings()) as app:
        url = f"http://127.0.0.1:{app.served.port}{WEBHOOK_PATH}"
        assert await livekit.send_webhook(url, "participant_left", "confab-somebody-c_1.2") == 200
        assert await livekit.send_webhook(url, "participant_left", "a room", secret="x" * 40) == 401
        assert (await app.http.post(WEBHOOK_PATH, content=b"{}")).status_code == 401
        assert (await app.http.get(WEBHOOK_PATH)).status_code == 405


async def test_there_is_no_endpoint_without_the_settings(serve_app: ServeApp) -> None:
    async with serve_app() as app:
        url = f"http://127.0.0.1:{app.served.port}{WEBHOOK_PATH}"
        assert await LiveKitServer(SystemClock()).send_webhook(url, "participant_left", "a room") == 404


@pytest.mark.parametrize("has_livekit", [True, False])
async def test_a_server_starts_while_livekit_is_away(serve_app: ServeApp, has_livekit: bool) -> None:
    settings = LiveKitServer(SystemClock(), port=1).settings() if has_livekit else {}
    async with serve_app(**settings) as app:
        assert (await app.http.get("/readyz")).status_code == 200

"""Firefox without a screen, driven by WebDriver BiDi, which is built into it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import websockets

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")

_START_SECONDS = 120.0
_ANSWER_SECONDS = 90.0
_STOP_SECONDS = 30.0

_PREFERENCES: Mapping[str, str | int | bool] = {
    # Else Firefox switches its connection to push services off while it is driven.
    "remote.prefs.recommended": False,
    # Every address but loopback is unreachable.
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.newtabpage.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.enabled": False,
}


class BidiError(Exception):
    """Firefox refused a command, or a script in the page failed."""


class Firefox:
    """A window of a running Firefox."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0
        self._context = ""

    async def follow(self) -> None:
        """Receive answers until the connection ends."""
        try:
            async for text in self._socket:
                answer = json.loads(text)
                waiting = self._answers.pop(answer.get("id", 0), None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except websockets.ConnectionClosedError:
            pass
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_exception(BidiError("Firefox has closed the connection"))

    async def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Run a command of WebDriver BiDi and return its result. Raises BidiError and TimeoutError."""
        self._last += 1
        waiting = self._answers[self._last] = asyncio.get_running_loop().create_future()
        await self._socket.send(json.dumps({"id": self._last, "method": method, "params": params}))
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer = await waiting
        if "result" not in answer:
            raise BidiError(f"{method}: {answer.get('error')}: {answer.get('message')}")
        result: dict[str, Any] = answer["result"]
        return result

    async def begin(self) -> None:
        """Begin the session, in the window that is there."""
        await self.command("session.new", capabilities={})
        tree = await self.command("browsingContext.getTree")
        self._context = tree["contexts"][0]["context"]

    async def open(self, url: str) -> None:
        """Open an address in the window, and wait until it is loaded."""
        await self.command("browsingContext.navigate", context=self._context, url=url, wait="complete")

    async def run(self, expression: str) -> Any:
        """Return the value of an expression, or of its promise, in the page. It counts as an action of the user."""
        done = await self.command(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
            target={"context": self._context},
            awaitPromise=True,
            userActivation=True,
        )
        if done["type"] != "success":
            raise BidiError(f"{expression}: {done['exceptionDetails']['text']}")
        return json.loads(done["result"]["value"])


@asynccontextmanager
async def open_firefox(folder: Path, preferences: Mapping[str, str | int | bool]) -> AsyncIterator[Firefox]:
    """Run Firefox with a new profile in a folder for the time of the block."""
    assert FIREFOX is not None
    lines = (
        f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in (_PREFERENCES | preferences).items()
    )
    (folder / "user.js").write_text("\n".join(lines))
    process = await asyncio.create_subprocess_exec(
        FIREFOX,
        *("--headless", "--no-remote", "--profile", str(folder), "--remote-debugging-port", "0", "about:blank"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(folder), "MOZ_CRASHREPORTER_DISABLE": "1", "MOZ_DATA_REPORTING": "0"},
    )
    assert process.stderr is not None
    reading: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(_START_SECONDS):
            url = await _address_in(process.stderr)
        reading = asyncio.create_task(_discard(process.stderr))
        async with websockets.connect(f"{url}/session", max_size=None, ping_interval=None) as socket:
            firefox = Firefox(socket)
            following = asyncio.create_task(firefox.follow())
            try:
                await firefox.begin()
                yield firefox
            finally:
                following.cancel()
    finally:
        # Firefox ends its own processes.
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        if reading is not None:
            await reading


async def _address_in(output: asyncio.StreamReader) -> str:
    seen = b""
    while line := await output.readline():
        seen += line
        found = re.search(rb"WebDriver BiDi listening on (ws://\S+)", line)
        if found:
            return found[1].decode()
    raise BidiError(f"Firefox has ended: {seen.decode(errors='replace')[-2000:]}")


async def _discard(output: asyncio.StreamReader) -> None:
    while await output.read(65_536):
        pass

"""Executes the playground's examples on a served Confab as the playground does."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from server.demo.seed import seed_demo
from server.settings import UNLIMITED, Settings
from tests.playground.examples import Example, value_in, values
from tests.protocol.peer import Peer
from tests.protocol.serving import PATIENCE
from tests.server.served_app import App, serving_app

_TIMES = {"inAnHour": timedelta(hours=1), "tomorrow": timedelta(days=1), "yesterday": timedelta(days=-1)}
_ROLES = ("service", "admin")


@asynccontextmanager
async def serving_demo(settings: Settings) -> AsyncIterator[Playground]:
    """Serve the demo's data without rate limits."""
    settings = settings.model_copy(update=UNLIMITED)
    assert await seed_demo(settings)
    async with serving_app(settings) as app:
        yield Playground(app)


@dataclass
class Playground:
    """One browser tab: its tokens, and the open WebSocket of its user."""

    app: App
    _tokens: dict[str, str] = field(default_factory=dict)
    _socket: Peer | None = None
    _used_ids: int = 0

    async def open_and_execute(self, example: Example) -> Any:
        """Fill the variables of an example, execute it, and return the answer; the first one of a subscription."""
        known: dict[str, Any] = {}
        for needed in example.notes.get("Needs", "").split():
            await self._value(needed, known)
        variables = await self._fill(example.given("Variables"), known)
        headers = {"Authorization": await self._bearer("alice")}
        headers |= await self._fill(example.given("Headers"), known)
        return await self._execute(example, variables, headers)

    async def _value(self, name: str, known: dict[str, Any]) -> Any:
        """Return what stands for `{name}`."""
        if name not in known:
            known[name] = await self._find(name, known)
        return known[name]

    async def _find(self, name: str, known: dict[str, Any]) -> Any:
        if name in _TIMES:
            return (datetime.now(UTC) + _TIMES[name]).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if name == "random":
            return secrets.token_hex(4)
        if name.endswith("Token"):
            return await self._token(name.removesuffix("Token"))
        operation = values()[name]
        variables = await self._fill(operation.given("Variables"), known)
        headers = {"Authorization": await self._bearer(operation.notes.get("As", "alice"))}
        if "For" in operation.notes:
            headers["Confab-Act-As"] = await self._fill(operation.notes["For"], known)
        answer = await self._execute(operation, variables, headers)
        assert "errors" not in answer, (name, answer)
        if "Bytes" in operation.notes:
            (upload,) = answer["data"].values()
            sent = {header["name"]: header["value"] for header in upload["headers"]}
            body = operation.notes["Bytes"].encode()
            response = await self.app.http.request(upload["method"], upload["url"], content=body, headers=sent)
            assert response.is_success, response.text
        found = value_in(answer["data"], operation.given("Where"))
        assert found is not None, (name, answer)
        return found

    async def _fill(self, given: Any, known: dict[str, Any]) -> Any:
        """Return JSON in which each `{name}` is replaced by its value, which keeps its type if it is the whole text."""
        if isinstance(given, dict):
            return {key: await self._fill(value, known) for key, value in given.items()}
        if isinstance(given, list):
            return [await self._fill(value, known) for value in given]
        if not isinstance(given, str):
            return given
        whole = re.fullmatch(r"\{(\w+)\}", given)
        if whole:
            return await self._value(whole[1], known)
        parts = re.split(r"\{(\w+)\}", given)
        parts[1::2] = [str(await self._value(name, known)) for name in parts[1::2]]
        return "".join(parts)

    async def _execute(self, operation: Example, variables: dict[str, Any], headers: dict[str, str]) -> Any:
        if not operation.is_on_socket:
            body = {"query": operation.text, "variables": variables}
            return (await self.app.http.post("/graphql", json=body, headers=headers)).json()
        if self._socket is None:
            self._socket = await self.app.socket()
            await self._socket.init({"Authorization": headers["Authorization"], "deviceId": "playground"})
        self._used_ids += 1
        id = str(self._used_ids)
        await self._socket.subscribe(id, operation.text, variables=variables)
        async with asyncio.timeout(PATIENCE):
            while (answer := await self._socket.receive()).get("id") != id or answer["type"] == "complete":
                pass
        if operation.kind == "subscription":
            await self._socket.complete(id)
        return {"errors": answer["payload"]} if answer["type"] == "error" else answer["payload"]

    async def _bearer(self, who: str) -> str:
        return f"Bearer {await self._token(who)}"

    async def _token(self, who: str) -> str:
        """Return a token of a person, or one with a role."""
        if who not in self._tokens:
            body = {"userId": "alice", "role": who} if who in _ROLES else {"userId": who}
            self._tokens[who] = (await self.app.http.post("/dev/sign-in", json=body)).json()["token"]
        return self._tokens[who]


def root_values(answer: Any) -> dict[str, Any]:
    """Return the data of an answer without errors."""
    assert "errors" not in answer, json.dumps(answer["errors"], ensure_ascii=False)
    data = answer["data"]
    assert isinstance(data, dict)
    return data

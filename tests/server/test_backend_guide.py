"""The examples of docs/backend.md run as they stand."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from tests.server.served_app import ServeApp
from tests.server.tokens import signed

GUIDE = Path(__file__).parents[2] / "docs" / "backend.md"


async def run(script: str, **environment: str) -> Any:
    """Return the JSON that a script prints."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-euc", script, stdout=asyncio.subprocess.PIPE, env=os.environ | environment
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(printed)


async def test_the_examples_send_as_a_user_and_announce(serve_app: ServeApp) -> None:
    setting_up, sending, announcing = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    token = signed(sub="backend", role="service", exp=time.time() + 60)
    async with serve_app() as app:
        await app.data("{ me { id } }", "bob")
        environment = {"CONFAB": f"http://127.0.0.1:{app.served.port}", "TOKEN": token}
        sent = (await run(setting_up + sending, **environment))["data"]["sendMessage"]["message"]
        assert (sent["seq"], sent["authorName"]) == (1, "alice")
        announced = (await run(setting_up + announcing, **environment))["data"]["sendMessage"]
        assert announced == {"message": {"seq": 2, "sender": {"id": "backend"}}}
        last = '{ conversation(id: "p_alice_bob") { lastMessage { contentType systemEvent { kind text } } } }'
        event = {"kind": "CUSTOM", "text": "The order was sent again."}
        shown = {"lastMessage": {"contentType": "SYSTEM", "systemEvent": event}}
        assert await app.data(last, "bob") == {"conversation": shown}

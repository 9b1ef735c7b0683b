"""The example of docs/features/webhooks.md sends a message as it stands."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path

from server.settings import Settings
from tests.server.served_app import serving_app
from tests.webhooks.incoming.test_served import create_hook

GUIDE = Path(__file__).parents[3] / "docs" / "features" / "webhooks.md"


async def test_the_example_is_accepted_once(settings: Settings) -> None:
    section = GUIDE.read_text(encoding="utf-8").partition("\n## Incoming webhooks\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    async with serving_app(settings) as app:
        hook = await create_hook(app)
        answers = []
        for _ in range(2):
            process = await asyncio.create_subprocess_exec(
                "bash", "-euc", example, stdout=asyncio.subprocess.PIPE, env=os.environ | {"WEBHOOK_URL": hook.url}
            )
            printed, _ = await process.communicate()
            assert process.returncode == 0
            answers.append(json.loads(printed))
    first, second = answers
    assert (first["seq"], first["replayed"]) == (1, False)
    assert second == first | {"replayed": True}

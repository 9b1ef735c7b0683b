"""The examples of a page, run in order on the data of the demo.

A value such as `"c_…"` in variables stands for the first id of this kind in the newest answer that has one, and `"…"`
for the newest cursor.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resolvers.users.callers import CallerRole
from server.auth.authenticator import issue_token
from server.settings import Settings, variable
from tests.protocol.serving import PATIENCE
from tests.server.served_app import App

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEXES = (DOCS / "concepts" / "README.md", DOCS / "guides" / "README.md")
"""Pages without examples."""
PAGES = (ROOT / "README.md", DOCS / "start.md", *sorted(DOCS.glob("concepts/*.md")), *sorted(DOCS.glob("guides/*.md")))

_BLOCK = re.compile(
    r'^```(?P<kind>\w*)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^```$'
    r'(?:\n\n```json title="Variables"\n(?P<variables>.*?)^```$)?',
    re.MULTILINE | re.DOTALL,
)
_STAND_INS = (
    'make() { command make -n "$@" >/dev/null; }; docker() { test "$1" = compose && test -e docker-compose.yml; }'
)
_DATABASES = ("mongo_url", "mongo_database", "redis_url", "redis_prefix")


@dataclass(frozen=True, slots=True)
class Example:
    """A block of code of a page."""

    kind: str
    title: str
    text: str
    variables: dict[str, Any]

    @property
    def caller(self) -> str:
        """Id of the user who runs it."""
        return self.title.removeprefix("As ").lower() or "alice"


def examples(page: Path) -> Iterator[Example]:
    """Yield the blocks of code of a page; variables belong to the block before them."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Example(found["kind"], found["title"] or "", found["text"], json.loads(found["variables"] or "{}"))


@dataclass
class Story:
    """Runs the examples of one page."""

    app: App
    settings: Settings
    answers: list[Any] = field(default_factory=list)

    async def run(self, example: Example) -> None:
        """Run an example, which must succeed, and keep its answer."""
        if example.kind == "graphql":
            self.answers.append(await self._execute(example))
        else:
            await self._run_in_shell(example.text)

    async def _execute(self, example: Example) -> Any:
        variables = {name: self._value(name, value) for name, value in example.variables.items()}
        authorization = {"Authorization": f"Bearer {self._token(example.caller)}"}
        if example.text.startswith("subscription"):
            socket = await self.app.socket()
            await socket.init(authorization)
            await socket.subscribe("1", example.text, variables=variables)
            async with asyncio.timeout(PATIENCE):
                while (frame := await socket.receive()).get("id") != "1":
                    pass
            answer = frame["payload"] if frame["type"] == "next" else {"errors": frame}
        else:
            body = {"query": example.text, "variables": variables}
            answer = (await self.app.http.post("/graphql", json=body, headers=authorization)).json()
        assert "errors" not in answer, (example.text, variables, answer)
        assert all(value is not None for value in answer["data"].values()), (example.text, variables, answer)
        return answer["data"]

    def _token(self, caller: str) -> str:
        is_backend = caller == "the backend"
        role = CallerRole.SERVICE if is_backend else CallerRole.USER
        return issue_token(self.settings, "backend" if is_backend else caller, role, None, 600.0)

    def _value(self, name: str, value: Any) -> Any:
        if value == "…":
            return self._newest(r'"cursor": "([^"]+)"', name)
        kind = re.fullmatch(r"(\w_)…", str(value))
        return self._newest(rf'"({kind[1]}[^"]+)"', name) if kind else value

    def _newest(self, pattern: str, name: str) -> str:
        texts = (json.dumps(answer) for answer in reversed(self.answers))
        found = next((match[1] for text in texts if (match := re.search(pattern, text))), None)
        assert found is not None, f"no answer has a value for {name}"
        return found

    async def _run_in_shell(self, script: str) -> None:
        """Run a script. Its `make` only checks that the target exists, and `docker` that there is a compose file."""
        origin = str(self.app.http.base_url).rstrip("/")
        script = script.replace("http://127.0.0.1:8000", origin)
        script = script.replace(".venv/bin/confab", f"{sys.executable} -m server.cli")
        databases = {variable(name): str(getattr(self.settings, name)) for name in _DATABASES}
        given = os.environ | databases
        if "$WEBHOOK_URL" in script:
            given["WEBHOOK_URL"] = self._newest(r'"url": "([^"]+)"', "WEBHOOK_URL")
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"set -euo pipefail\n{_STAND_INS}\n{script}"),
            cwd=ROOT,
            env=given,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed = (await process.communicate())[0].decode()
        assert process.returncode == 0, (script, printed)
        assert '"errors"' not in printed, (script, printed)

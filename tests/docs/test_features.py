"""Each operation of the pages about features and clients works on the data of the demo."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import graphql
import pytest

from server.cli.dev import development_settings
from server.settings import Settings
from tests.docs.stories import DOCS
from tests.playground.examples import Example
from tests.playground.runner import Playground, root_values, serving_demo

PAGES = (DOCS / "clients.md", *sorted(DOCS.glob("clients/*.md")), *sorted(DOCS.glob("features/*.md")))
VARIABLES: dict[str, dict[str, Any]] = {
    "Attachment": {"id": "{file}"},
    "AuditLog": {"workspaceId": "{workspace}"},
    "Ban": {"workspace": "{workspace}", "user": "{visitor}"},
    "Block": {"userId": "dave"},
    "Conversation": {"conversationId": "p_alice_bob"},
    "CreateWebhook": {"channelId": "{general}", "name": "Builds"},
    "Devices": {},
    "Export": {"id": "{exported}"},
    "ExportMyData": {},
    "JoinVoice": {"channelId": "{campfire}"},
    "Pin": {"messageId": "{bobsMessage}"},
    "Presences": {"userIds": ["bob", "carol"]},
    "Queue": {"workspaceId": "{workspace}", "after": None},
    "React": {"messageId": "{bobsMessage}", "emoji": "🎉"},
    "RegisterPush": {"id": "phone of {random}", "token": "token-of-APNs", "locale": "de"},
    "Reply": {"messageId": "{bobsMessage}", "content": "Here", "idempotencyKey": "{random}"},
    "Report": {"messageId": "{bobsMessage}"},
    "ReportActivity": {"active": True},
    "Resolve": {"id": "{openReport}"},
    "SetNotifications": {"input": {"level": "MENTIONS", "keywords": ["lake"]}},
    "SetStatus": {"until": "{inAnHour}", "text": "At the lake", "emoji": "🏕", "expiresAt": "{tomorrow}"},
    "TestPush": {"deviceId": "{phone}"},
    "Typing": {"conversationId": "p_alice_bob"},
    "Watch": {"channels": [{"id": "{lake}", "rev": None}]},
}
"""Variables by the name of the operation. What stands in braces is a value of the playground."""
HEADERS = {"Export": {"Authorization": "Bearer {serviceToken}", "Confab-Act-As": "{visitor}"}}
"""Headers of operations that Alice cannot execute."""


def operations() -> list[Example]:
    """Return all operations of the pages."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```graphql\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            for definition in graphql.parse(block).definitions:
                assert definition.loc is not None
                text = block[definition.loc.start : definition.loc.end]
                example = Example(page.stem, text, {})
                notes = {"Variables": VARIABLES[example.name], "Headers": HEADERS.get(example.name, {})}
                found.append(Example(page.stem, text, {name: json.dumps(given) for name, given in notes.items()}))
    return found


OPERATIONS = operations()


@pytest.fixture(scope="module")
async def playground(module_settings: Settings) -> AsyncIterator[Playground]:
    names = ("mongo_url", "redis_url", "mongo_database", "redis_prefix")
    settings = development_settings(**{name: getattr(module_settings, name) for name in names})
    async with serving_demo(settings) as served:
        yield served


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: f"{operation.area}-{operation.name}")
async def test_an_operation_of_a_page_works(playground: Playground, operation: Example) -> None:
    data = root_values(await playground.open_and_execute(operation))
    assert all(value is not None for value in data.values()), data


def test_every_operation_has_a_name_of_its_own() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert set(names) == set(VARIABLES)

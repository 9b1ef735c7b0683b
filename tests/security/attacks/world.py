"""State on the server that attacks need: people, groups, messages."""

from __future__ import annotations

import asyncio
from typing import Any

from pymongo import MongoClient

from bench.api_client import Asker
from bench.selections import CREATE_GROUP
from bench.session_data import Row, insert_owner, insert_people
from tests.processes import ServerProcess
from tests.security.attacks.bystander import FRIEND, USER

_SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"

MEMBERS = [f"member{number:04}" for number in range(400)]


SESSIONS = 500
"""Sessions that the attacker has from the beginning."""


def insert_users(mongo_url: str, database: str, attacker: str) -> None:
    """Insert all people, and the attacker's sessions, before the server is used."""
    with MongoClient[Row](mongo_url) as mongo:
        peers = insert_owner(mongo[database], attacker, SESSIONS).peers
        insert_people(mongo[database], [USER, FRIEND, attacker, *peers, *MEMBERS])


class World:
    """Creates state as the attacking user."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        self.user = user
        self._asker = Asker(server, user)

    async def ask(self, query: str, **variables: Any) -> Any:
        """Return the value of the operation's one field."""
        return await self._asker.ask(query, **variables)

    async def close(self) -> None:
        await self._asker.close()

    async def create_group(self, members: int) -> str:
        """Create a group with so many members besides the attacker, and return its id."""
        given = {"name": "Attacked", "memberIds": MEMBERS[:members]}
        return str((await self.ask(CREATE_GROUP, input=given))["id"])

    async def send_messages(self, inputs: list[Row]) -> list[str]:
        """Send messages at the same time, and return their ids."""
        sent = await asyncio.gather(*(self.ask(_SEND, input=each) for each in inputs))
        return [each["message"]["id"] for each in sent]

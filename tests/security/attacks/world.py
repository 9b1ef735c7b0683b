"""State on the server that attacks need: people, groups, messages."""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient

from bench.api_client import Asker
from bench.selections import CREATE_GROUP, SEND_MESSAGE
from bench.session_data import Row, insert_owner, insert_people
from tests.processes import ServerProcess
from tests.security.attacks.bystander import FRIEND, USER

MEMBERS = [f"member{number:04}" for number in range(1_200)]


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

    async def send(self, group: str, text: str = "hello") -> str:
        """Send a message to a group, and return its id."""
        return str((await self.ask(SEND_MESSAGE, id=group, text=text))["message"]["id"])

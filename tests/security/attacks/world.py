"""State on the server that attacks need: groups and messages."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tests.processes import token
from tests.security.attacks.http_client import HttpConnection, graphql_body

_CREATE_GROUP = "mutation ($input: CreateGroupInput!) { createGroup(input: $input) { id } }"
_SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"

MEMBERS = [f"member{number:04}" for number in range(1_000)]


class World:
    """Creates state as the attacking user."""

    def __init__(self, port: int, user: str, *, is_short: bool) -> None:
        self.is_short = is_short
        """True for the short form, which needs less state."""
        self._port = port
        self._token = token(user)

    async def ask(self, query: str, **variables: Any) -> Any:
        """Return the value of the operation's one field. Raises RuntimeError if it fails."""
        connection = HttpConnection(self._port, self._token)
        try:
            answer = orjson.loads((await connection.ask(graphql_body(query, variables))).body)
        finally:
            connection.close()
        if "errors" in answer:
            raise RuntimeError(f"{query}: {answer['errors']}")
        (value,) = answer["data"].values()
        return value

    async def create_group(self, members: int) -> str:
        """Create a group with so many members besides the attacker, and return its id."""
        created = await self.ask(_CREATE_GROUP, input={"name": "Attacked", "memberIds": MEMBERS[:members]})
        return str(created["id"])

    async def send_messages(self, inputs: list[dict[str, Any]]) -> list[str]:
        """Send messages at the same time, and return their ids."""
        sent = await asyncio.gather(*(self.ask(_SEND, input=each) for each in inputs))
        return [each["message"]["id"] for each in sent]

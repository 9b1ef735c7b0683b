"""A client of one user."""

from __future__ import annotations

from typing import Any

import orjson

from tests.processes import ServerProcess


class Asker:
    """Asks over one kept-alive connection."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        self.user = user
        self.received = 0
        """Bytes of all answers so far."""
        self._http = server.client(user, timeout=120)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, query: str, **variables: Any) -> Any:
        """The value of the query's one field."""
        body = orjson.dumps({"query": query, "variables": variables})
        content = (await self._http.post("/graphql", content=body)).content
        self.received += len(content)
        answer = orjson.loads(content)
        if "errors" in answer:
            raise RuntimeError(f"{query}: {answer['errors']}")
        (value,) = answer["data"].values()
        return value

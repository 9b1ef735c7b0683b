"""A client of one user."""

from __future__ import annotations

import ssl
from typing import Any

import httpx
import orjson

from tests.processes import ServerProcess, token

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Asker:
    """Asks over one kept-alive connection."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        self.user = user
        self.received = 0
        """Bytes of all answers so far."""
        self._http = httpx.AsyncClient(
            base_url=server.url,
            headers={"authorization": f"Bearer {token(user)}", "content-type": "application/json"},
            timeout=120,
            verify=_NO_TLS,
            trust_env=False,
        )

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

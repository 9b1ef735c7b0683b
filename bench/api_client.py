"""Clients of one user: over HTTP, or inside the process."""

from __future__ import annotations

import math
from typing import Any

import orjson

from resolvers.users.callers import Caller, CallerRole
from server.services import Services
from store.base.ids import UserId
from subscriptions.transport.engine import ConnectionContext, GraphQLEngine, GraphQLRequest
from tests.processes import ServerProcess


class Asker:
    """Sends operations over one kept-alive connection."""

    def __init__(self, server: ServerProcess, user: str) -> None:
        self.user = user
        self.received = 0
        """Bytes of all answers so far."""
        self._http = server.client(user, timeout=120)

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, query: str, **variables: Any) -> Any:
        """Return the value of the operation's one field."""
        body = orjson.dumps({"query": query, "variables": variables})
        content = (await self._http.post("/graphql", content=body)).content
        self.received += len(content)
        answer = orjson.loads(content)
        if "errors" in answer:
            raise RuntimeError(f"{query}: {answer['errors']}")
        (value,) = answer["data"].values()
        return value


class InsideAsker:
    """Executes operations on a server in this process."""

    def __init__(self, services: Services, user: str) -> None:
        self.user = user
        self.received = 0
        """Bytes of all answers so far."""
        self._services = services
        self._engine: GraphQLEngine = services.engine
        self._caller = Caller(UserId(user), CallerRole.USER, math.inf)

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def ask(self, query: str, **variables: Any) -> Any:
        """Return the value of the operation's one field."""
        request = GraphQLRequest(query, variables)
        await self._services.sign_in(self._caller)
        prepared = await self._engine.prepare(request, self._caller)
        answer = await self._engine.execute(prepared, request, ConnectionContext(self._caller, "bench"))
        content = orjson.dumps(answer)
        self.received += len(content)
        if "errors" in answer:
            raise RuntimeError(f"{query}: {answer['errors']}")
        (value,) = orjson.loads(content)["data"].values()
        return value

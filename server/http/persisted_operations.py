"""Registered operations: documents that requests name by an id, or that alone are served (ADR 29)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resolvers.base.errors import Forbidden, InvalidInput
from schema.execution.document_validation import validate_document
from schema.execution.query_limits import QueryLimits
from server.settings import Settings, SettingsError, variable
from subscriptions.transport.engine import (
    ConnectionContext,
    EventStream,
    GraphQLEngine,
    GraphQLRequest,
    Json,
    Prepared,
    RequestRefused,
    error,
)

NOT_FOUND = "PersistedQueryNotFound"
"""Clients that send hashes look for this very message: they send the text then."""

NOT_REGISTERED = "This operation is not one of those that are registered here, which alone are served."

_APOLLO = "apollo-persisted-query-manifest"
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})\Z")


@dataclass(frozen=True, slots=True)
class PersistedOperations:
    """What is registered: texts by id. `only`: nothing else is served."""

    texts: Mapping[str, str]
    only: bool


class PersistedOperationsEngine:
    """A GraphQLEngine around another, in front of which ids become the texts they stand for."""

    def __init__(self, engine: GraphQLEngine, registered: PersistedOperations) -> None:
        self._engine = engine
        self._texts = registered.texts
        self._served = frozenset(registered.texts.values()) if registered.only else None

    def prepare(self, request: GraphQLRequest) -> Prepared:
        """See GraphQLEngine. An id that stands for nothing: INVALID_INPUT; a text that is not served: FORBIDDEN."""
        if request.document_id is not None:
            text = self._texts.get(request.document_id)
            if text is None:
                raise RequestRefused([error(NOT_FOUND, InvalidInput.code)])
            request = GraphQLRequest(text, request.variables, request.operation_name)
        elif self._served is not None and request.query not in self._served:
            raise RequestRefused([error(NOT_REGISTERED, Forbidden.code)])
        return self._engine.prepare(request)

    async def execute(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """See GraphQLEngine."""
        return await self._engine.execute(prepared, request, context)

    async def subscribe(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> EventStream:
        """See GraphQLEngine."""
        return await self._engine.subscribe(prepared, request, context)


def load_persisted_operations(settings: Settings) -> PersistedOperations | None:
    """The operations of the file that the settings name; None where they name none.

    Raises SettingsError, a sentence for each document that could never be served, and for each id that is not what it looks like.
    """
    if settings.operations_file is None:
        return None
    texts = _read(settings.operations_file)
    limits = QueryLimits(max_depth=settings.max_query_depth, max_aliases=settings.max_query_aliases)
    problems = [reason for id, text in texts.items() for reason in _problems(id, text, limits)]
    if problems:
        raise SettingsError([f"{variable('operations_file')}: {reason}" for reason in problems])
    # The appendix of GraphQL over HTTP writes hashes with a prefix, clients of Apollo's without.
    hashes = {found[1]: text for id, text in texts.items() if (found := _SHA256.match(id))}
    prefixed = {f"sha256:{digest}": text for digest, text in hashes.items()}
    return PersistedOperations(texts | hashes | prefixed, settings.operations_only)


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except (OSError, ValueError, RecursionError) as failure:
        raise SettingsError([f"{variable('operations_file')} holds no JSON that can be read: {failure}."]) from failure
    try:
        if isinstance(found, dict) and found.get("format") == _APOLLO:
            if found.get("version") != 1:
                raise ValueError("this version of Apollo's manifest is not known here")
            found = _without_repeats([(operation["id"], operation["body"]) for operation in found["operations"]])
        if not isinstance(found, dict) or not all(isinstance(part, str) for pair in found.items() for part in pair):
            raise TypeError
        if not found:
            raise ValueError("it is empty")
    except (KeyError, TypeError) as failure:
        expected = "should hold an object of documents by their ids, or Apollo's manifest"
        raise SettingsError([f"{variable('operations_file')} {expected}."]) from failure
    except ValueError as failure:
        raise SettingsError([f"{variable('operations_file')} is of no use: {failure}."]) from failure
    return found


def _without_repeats(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    held: dict[Any, Any] = {}
    for name, value in pairs:
        if held.setdefault(name, value) != value:
            raise ValueError(f"{name} stands there twice, for different things")
    return held


def _problems(id: str, text: str, limits: QueryLimits) -> list[str]:
    if not id:
        return ["an id is empty."]
    problems = []
    digest = _SHA256.match(id)
    # A lone surrogate is legal in JSON, and no hash is that of a text with one.
    if digest and hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest() != digest[1]:
        problems.append(f"{id} looks like a SHA-256 hash, and is not that of its text.")
    return [*problems, *(f"{id}: {reason}" for reason in validate_document(text, limits))]

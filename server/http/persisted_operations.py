"""Persisted operations: documents that requests name by an id, or the only ones that are served (ADR 29)."""

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
    GraphQLEngine,
    GraphQLRequest,
    Json,
    LiveResponses,
    OperationHandle,
    RequestRefused,
    make_error,
)

NOT_FOUND = "PersistedQueryNotFound"
"""Clients that send hashes look for exactly this message, and then send the text."""

NOT_PERSISTED = "This server runs persisted operations only, and this operation is not one of them."

_APOLLO = "apollo-persisted-query-manifest"
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})\Z")


@dataclass(frozen=True, slots=True)
class PersistedOperations:
    """Documents by id. With `only`, no other operations are served."""

    texts: Mapping[str, str]
    only: bool


class PersistedOperationsEngine:
    """A GraphQLEngine in front of another one. Replaces ids of documents by their texts."""

    def __init__(self, engine: GraphQLEngine, operations: PersistedOperations) -> None:
        self._engine = engine
        self._texts = operations.texts
        self._allowed = frozenset(operations.texts.values()) if operations.only else None

    def check_caller(self, caller: object | None) -> None:
        """See GraphQLEngine."""
        self._engine.check_caller(caller)

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> OperationHandle:
        """See GraphQLEngine. Refuses unknown ids with INVALID_INPUT, and other documents with FORBIDDEN."""
        if request.document_id is not None:
            text = self._texts.get(request.document_id)
            if text is None:
                raise RequestRefused([make_error(NOT_FOUND, InvalidInput.code)])
            request = GraphQLRequest(text, request.variables, request.operation_name)
        elif self._allowed is not None and request.query not in self._allowed:
            raise RequestRefused([make_error(NOT_PERSISTED, Forbidden.code)])
        return await self._engine.prepare(request, caller)

    async def execute(self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """See GraphQLEngine."""
        return await self._engine.execute(prepared, request, context)

    async def subscribe(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> LiveResponses:
        """See GraphQLEngine."""
        return await self._engine.subscribe(prepared, request, context)


def load_persisted_operations(settings: Settings) -> PersistedOperations | None:
    """Return the operations of the file in the settings, or None without a file.

    Raises SettingsError with a sentence for each document that could never be served, and for each id that looks like a
    hash of its document but is not.
    """
    if settings.operations_file is None:
        return None
    texts = _read(settings.operations_file)
    limits = QueryLimits(max_depth=settings.max_query_depth, max_aliases=settings.max_query_aliases)
    problems = [reason for id, text in texts.items() for reason in _find_problems(id, text, limits)]
    if problems:
        raise SettingsError([f"{variable('operations_file')}: {reason}" for reason in problems])
    # The appendix of GraphQL over HTTP prefixes hashes. Apollo's clients do not.
    hashes = {found[1]: text for id, text in texts.items() if (found := _SHA256.match(id))}
    prefixed = {f"sha256:{digest}": text for digest, text in hashes.items()}
    return PersistedOperations(texts | hashes | prefixed, settings.operations_only)


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_refuse_duplicates)
    except (OSError, ValueError, RecursionError) as failure:
        raise SettingsError([f"{variable('operations_file')} is not valid JSON: {failure}."]) from failure
    try:
        if isinstance(found, dict) and found.get("format") == _APOLLO:
            if found.get("version") != 1:
                raise ValueError("this version of Apollo's manifest is not supported")
            found = _refuse_duplicates([(operation["id"], operation["body"]) for operation in found["operations"]])
        if not isinstance(found, dict) or not all(isinstance(part, str) for pair in found.items() for part in pair):
            raise TypeError
        if not found:
            raise ValueError("it is empty")
    except (KeyError, TypeError) as failure:
        expected = "should contain an object of documents by id, or Apollo's manifest"
        raise SettingsError([f"{variable('operations_file')} {expected}."]) from failure
    except ValueError as failure:
        raise SettingsError([f"{variable('operations_file')} cannot be used: {failure}."]) from failure
    return found


def _refuse_duplicates(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    for name, value in pairs:
        if merged.setdefault(name, value) != value:
            raise ValueError(f"{name} appears twice with different values")
    return merged


def _find_problems(id: str, text: str, limits: QueryLimits) -> list[str]:
    if not id:
        return ["an id is empty."]
    problems = []
    digest = _SHA256.match(id)
    # JSON may contain lone surrogates. They cannot be encoded, so no hash matches such a text.
    if digest and hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest() != digest[1]:
        problems.append(f"{id} looks like a SHA-256 hash, but is not the hash of its text.")
    return [*problems, *(f"{id}: {reason}" for reason in validate_document(text, limits))]

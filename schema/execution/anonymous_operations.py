"""Introspection for callers without a token. It is limited, and only standard queries are cached."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

import orjson
from graphql import get_introspection_query

from resolvers.base.errors import RateLimited
from schema.base.errors import refusal_for
from schema.compiler import PlanCache
from schema.execution.cpu_budgets import CpuBudget
from schema.execution.prepared_operations import PreparedOperation, StoredResult, prepare_operation
from schema.execution.query_limits import QueryLimits, tokens_of
from subscriptions.transport.engine import GraphQLRequest, Json

_MAX_CHARACTERS, _MAX_TOKENS, _MAX_FRAGMENTS = 6_000, 800, 10
"""Limits on documents. Standard introspection queries have up to 2,000 characters, 190 tokens and 3 fragments."""

_STANDARD_NAME = "IntrospectionQuery"


class AnonymousOperations:
    """Prepares and executes operations of callers without a token, within a budget that all of them share.

    The introspection queries of graphql-js, which GraphiQL, code generators and the clients use, are executed once per
    process, in a separate budget. Then they cost nothing, so a flood of other documents does not delay them.
    """

    def __init__(self, limits: QueryLimits, cpu_share: float) -> None:
        """Create the operations. `cpu_share` is the share of one core for all anonymous callers; 0: no limit."""
        self._limits = replace(
            limits,
            max_characters=min(limits.max_characters, _MAX_CHARACTERS),
            max_tokens=min(limits.max_tokens, _MAX_TOKENS),
            max_fragments=min(limits.max_fragments, _MAX_FRAGMENTS),
        )
        self._budget = CpuBudget(cpu_share)
        self._standard_budget = CpuBudget(cpu_share)
        self._standard: dict[str, PreparedOperation] = {}

    def prepare(self, request: GraphQLRequest) -> PreparedOperation:
        """Return the prepared operation of a request. Raises RequestRefused."""
        text = _standard_text(request)
        if text is None:
            return self._prepare(request, self._budget)
        prepared = self._standard.get(text)
        if prepared is None:
            prepared = replace(self._prepare(request, self._standard_budget), stored_result=StoredResult())
            self._standard[text] = prepared
        return prepared

    def _prepare(self, request: GraphQLRequest, budget: CpuBudget) -> PreparedOperation:
        try:
            budget.check()
        except RateLimited as limited:
            raise refusal_for(limited) from limited
        with budget.measure():
            return prepare_operation(request, self._limits, PlanCache(), introspection_only=True)

    async def execute(self, prepared: PreparedOperation, execution: Callable[[], Awaitable[Json]]) -> Json:
        """Execute a prepared operation, or return its stored result."""
        stored = prepared.stored_result
        if stored is None:
            return await self._budget.measure_steps(execution())
        if stored.content is None:
            response = await self._standard_budget.measure_steps(execution())
            if "errors" in response:
                return response
            stored.content = zlib.compress(orjson.dumps(response["data"]))
        return {"data": orjson.Fragment(zlib.decompress(stored.content))}


def _standard_text(request: GraphQLRequest) -> str | None:
    """Return the text of a standard introspection query without formatting; None for other documents."""
    if len(request.query) > _MAX_CHARACTERS or request.operation_name not in (None, _STANDARD_NAME):
        return None
    text = " ".join(tokens_of(request.query))
    return text if text in _standard_texts() else None


@functools.cache
def _standard_texts() -> frozenset[str]:
    """Return the introspection queries that graphql-js can make, in the versions since 15."""
    options = ("specified_by_url", "directive_is_repeatable", "schema_description", "input_value_deprecation")
    return frozenset(
        " ".join(
            tokens_of(
                get_introspection_query(
                    descriptions,
                    **dict(zip(options, chosen, strict=True)),
                    one_of=one_of,
                    type_depth=depth,
                )
            )
        )
        for descriptions, one_of, depth in itertools.product((True, False), (True, False), (7, 9))
        for chosen in itertools.product((True, False), repeat=len(options))
    )

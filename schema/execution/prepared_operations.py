"""Parses, validates and compiles documents, and caches the results for callers with a token."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    StringValueNode,
    VariableNode,
    execute_subscription_event,
    validate,
)
from graphql.execution import Executor
from graphql.validation.rules import overlapping_fields_can_be_merged

from resolvers.base.errors import RateLimited, Unauthenticated
from schema.base.context import Context
from schema.base.errors import refusal_for, refused
from schema.base.viewers import NEEDS_TOKEN
from schema.compiler import CompiledOperation, PlanCache, compile_operation
from schema.compiler.execution import YieldControl
from schema.execution.cpu_budgets import CpuBudget, PreparationThread, UserCpuBudgets
from schema.execution.document_cache import DocumentCache, RefusalCache
from schema.execution.query_cost import Cost, count_selections, size_variables
from schema.execution.query_limits import QueryLimits, fragments_of, parse_limited, tokens_of
from schema.execution.query_shape import check_shape
from schema.execution.selection_keys import SelectionKey, selection_key
from schema.execution.work import SELECTION_UNITS, EventExecution
from schema.root import SCHEMA
from store.base.ids import UserId
from subscriptions.transport.engine import GraphQLRequest, OperationKind, RequestRefused

# The budget of the rule that compares overlapping fields. The documents of our clients need 40 of it. 40 fragments in
# one selection set need 15,000. Without the budget, a hostile document could occupy the process for a second.
overlapping_fields_can_be_merged.MAX_COMPLEXITY_BUDGET = 20_000

_MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Estimated memory of all cached documents."""
_OPERATION_BYTES, _TOKEN_BYTES, _TEXT_COPIES = 12_000, 600, 4
"""Memory of a cached document, as measured: of a document without content, and of each token (a token of the parser, a
node, its location). Long literals are kept by the text, the token, the node and the plan (ADR 49)."""

_MAX_OWNED_FIELDS, _MAX_SHARED_FIELDS = 5_000, 15_000
"""Fields of the compiled plans of documents that one user has sent, and of those that several have."""


@dataclass(slots=True)
class StoredResult:
    """The result of an operation whose result never changes: compressed JSON, None before the first execution."""

    content: bytes | None = None


class IdArgument(NamedTuple):
    """An argument that is an id: the name of its variable, and the value without one, or if it is not given."""

    variable: str | None
    value: str | None


@dataclass(frozen=True, slots=True)
class PreparedOperation:
    """A parsed and validated document, and the operation to execute."""

    document: DocumentNode
    operation_name: str | None
    kind: OperationKind
    root: str
    is_introspection_only: bool
    """True if all root fields are __schema, __type or __typename."""
    uses_introspection: bool
    """True if a root field is __schema or __type."""
    selection: SelectionKey | None
    """The key of a subscription's selection."""
    compiled: CompiledOperation | None
    """None if graphql-core has to execute the operation."""
    size_variables: tuple[str, ...]
    """The variables on which the operation's cost depends."""
    analysis_units: int
    """Units of work that each analysis of the cost takes."""
    ids_with_rev: tuple[IdArgument, ...]
    """The ids of the objects of a query whose `rev` it asks for."""
    costs: dict[tuple[object, ...], Cost] = field(default_factory=dict)
    """Costs that were found to be within the limits, by the sizes of `size_variables`."""
    stored_result: StoredResult | None = None
    """Set for the standard introspection queries of anonymous callers."""

    def list_ids_with_rev(self, variables: Mapping[str, Any] | None) -> list[str]:
        """Return the ids of the objects of a query whose `rev` it asks for."""
        given = variables or {}
        found = [given.get(name, value) if name is not None else value for name, value in self.ids_with_rev]
        return [id for id in found if isinstance(id, str)]

    def event_execution(self, executor: Executor[Context], max_values: int) -> EventExecution:
        """Return the execution of a subscription's events, with the values of its variables."""
        if self.compiled is not None:
            return partial(self.compiled.start, executor.variable_values, max_values=max_values)

        def execute_with_graphql_core(event: object, context: Context, _yield_control: YieldControl) -> Any:
            event_executor = executor.build_per_event_executor(event)
            event_executor.context_value = context
            return execute_subscription_event(event_executor)

        return execute_with_graphql_core


class OperationCache:
    """Prepares operations of users, and caches them and their refusals."""

    def __init__(self, limits: QueryLimits, cpu_share: float = 0.0) -> None:
        """Create the cache. `cpu_share`: share of a core for documents of one user that are not cached; 0: no limit."""
        self._limits = limits
        self._budgets = UserCpuBudgets(cpu_share)
        self._thread = PreparationThread()
        self._owned_plans = PlanCache(_MAX_OWNED_FIELDS)
        self._shared_plans = PlanCache(_MAX_SHARED_FIELDS)
        self._documents: DocumentCache[PreparedOperation] = DocumentCache(
            _MAX_CACHED_BYTES, on_share=self._share_plans, on_evict=_separate_plans
        )
        self._refusals = RefusalCache()

    def find(self, request: GraphQLRequest, user: UserId | None) -> PreparedOperation | None:
        """Return the operation if it is cached."""
        return self._documents.get((request.query, request.operation_name), user)

    async def prepare(self, request: GraphQLRequest, user: UserId) -> PreparedOperation:
        """Return the prepared operation of a request. Raises RequestRefused.

        A document that is not cached is prepared in a thread.
        """
        prepared = self.find(request, user)
        if prepared is not None:
            return prepared
        key = RefusalCache.key_of(request) if len(request.query) <= self._limits.max_characters else None
        errors = self._refusals.get(key) if key is not None else None
        if errors is not None:
            raise RequestRefused(errors)
        budget = self._budgets.of(user)
        try:
            budget.check()
        except RateLimited as limited:
            raise refusal_for(limited) from limited
        try:
            new, size = await self._thread.run(partial(self._prepare, request, budget))
        except RequestRefused as refusal:
            if key is not None:
                self._refusals.add(key, refusal.errors)
            raise
        # Somebody else may have prepared the same document meanwhile.
        prepared = self.find(request, user)
        if prepared is None:
            prepared = new
            self._documents.add((request.query, request.operation_name), prepared, size, user)
        return prepared

    def _prepare(self, request: GraphQLRequest, budget: CpuBudget) -> tuple[PreparedOperation, int]:
        """Return the operation of a document, and its estimated bytes. Runs in the thread, so it changes no cache."""
        with budget.measure():
            return prepare_operation(request, self._limits, self._owned_plans), estimate_bytes(request.query)

    def _share_plans(self, prepared: PreparedOperation) -> None:
        if prepared.compiled is not None:
            prepared.compiled.use_plan_cache(self._shared_plans)


def _separate_plans(prepared: PreparedOperation) -> None:
    """Give an operation a separate plan cache, so that its plans are released with its document."""
    if prepared.compiled is not None:
        prepared.compiled.use_plan_cache(PlanCache())


def estimate_bytes(query: str) -> int:
    """Return an upper estimate of the memory that a prepared document takes."""
    return _OPERATION_BYTES + _TOKEN_BYTES * len(tokens_of(query)) + _TEXT_COPIES * sys.getsizeof(query)


def prepare_operation(
    request: GraphQLRequest, limits: QueryLimits, plan_cache: PlanCache, *, introspection_only: bool = False
) -> PreparedOperation:
    """Parse, validate and compile the operation of a request.

    Cheap checks come before validation: limits on the text and on the shape, and `introspection_only`, which refuses
    all other operations with UNAUTHENTICATED. Raises RequestRefused.
    """
    try:
        document = parse_limited(request.query, limits)
        check_shape(document, limits)
    except GraphQLError as error:
        raise refused([error]) from error
    if introspection_only:
        chosen = _select_operation(document, request.operation_name)
        if not _is_introspection({root.name.value for root in _root_fields(document, chosen)}):
            raise refusal_for(Unauthenticated(NEEDS_TOKEN))
    errors = validate(SCHEMA._schema, document, max_errors=5, hide_suggestions=True)
    if errors:
        raise refused(errors)
    operation = _select_operation(document, request.operation_name)
    kind: OperationKind = operation.operation.value
    root_fields = {root.name.value for root in _root_fields(document, operation)}
    return PreparedOperation(
        document=document,
        operation_name=request.operation_name,
        kind=kind,
        root=next(iter(root_fields)) if len(root_fields) == 1 else "several",
        is_introspection_only=_is_introspection(root_fields),
        uses_introspection=bool(root_fields & {"__schema", "__type"}),
        selection=selection_key(document, operation) if kind == "subscription" else None,
        compiled=compile_operation(
            SCHEMA, document, request.operation_name, hide_suggestions=True, plan_cache=plan_cache
        ),
        size_variables=size_variables(SCHEMA._schema, document),
        analysis_units=SELECTION_UNITS * count_selections(document),
        ids_with_rev=tuple(_ids_with_rev(document, operation)) if kind == "query" else (),
    )


def _is_introspection(root_fields: set[str]) -> bool:
    return all(name.startswith("__") for name in root_fields)


def _select_operation(document: DocumentNode, name: str | None) -> OperationDefinitionNode:
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    if name is not None:
        operations = [node for node in operations if node.name is not None and node.name.value == name]
        if not operations:
            raise refused([GraphQLError(f"Unknown operation named {name!r}.")])
    if len(operations) != 1:
        raise refused([GraphQLError("Must provide operation name if query contains multiple operations.")])
    return operations[0]


def _root_fields(document: DocumentNode, operation: OperationDefinitionNode) -> list[FieldNode]:
    """Return an operation's root fields, also those inside fragments."""
    return list(_fields_of(fragments_of(document), operation.selection_set, inside=False))


def _ids_with_rev(document: DocumentNode, operation: OperationDefinitionNode) -> Iterator[IdArgument]:
    """Yield the arguments `id` of root fields in whose selection there is a `rev`."""
    fragments = fragments_of(document)
    defaults = {each.variable.name.value: each.default_value for each in operation.variable_definitions or ()}
    for root in _root_fields(document, operation):
        values = [argument.value for argument in root.arguments or () if argument.name.value == "id"]
        if not values or root.selection_set is None:
            continue
        if all(each.name.value != "rev" for each in _fields_of(fragments, root.selection_set, inside=True)):
            continue
        variable = values[0].name.value if isinstance(values[0], VariableNode) else None
        value = values[0] if variable is None else defaults[variable]
        yield IdArgument(variable, value.value if isinstance(value, StringValueNode) else None)


def _fields_of(
    fragments: Mapping[str, FragmentDefinitionNode], selections: SelectionSetNode, *, inside: bool
) -> Iterator[FieldNode]:
    """Yield the fields of a selection set, also those inside fragments. inside: and those inside other fields."""
    spreads: set[str] = set()
    stack: list[SelectionSetNode] = [selections]
    while stack:
        for selection in stack.pop().selections:
            match selection:
                case FieldNode(selection_set=below):
                    yield selection
                    if inside and below is not None:
                        stack.append(below)
                case InlineFragmentNode(selection_set=selection_set):
                    stack.append(selection_set)
                case FragmentSpreadNode(name=name) if name.value not in spreads:
                    spreads.add(name.value)
                    # The document may not have been validated.
                    if name.value in fragments:
                        stack.append(fragments[name.value].selection_set)

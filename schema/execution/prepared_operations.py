"""Parses, validates and compiles documents, and caches the results."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    validate,
)
from graphql.validation.rules import overlapping_fields_can_be_merged

from resolvers.base.errors import InvalidInput
from schema.base.errors import refused
from schema.compiler import CompiledOperation, PlanCache, compile_operation
from schema.execution.query_cost import Cost, size_variables
from schema.execution.query_limits import QueryLimits, fragments_of, parse_limited
from schema.execution.query_shape import check_shape
from schema.execution.selection_keys import SelectionKey, selection_key
from schema.root import SCHEMA
from subscriptions.transport.engine import GraphQLRequest, OperationKind, RequestRefused, make_error

# The budget of the rule that compares overlapping fields. Documents within the limits need a fraction of it. Without
# it, a hostile document could occupy the process for a second.
overlapping_fields_can_be_merged.MAX_COMPLEXITY_BUDGET = 50_000

_MAX_CACHED_DOCUMENTS = 2_000
_MAX_DOCUMENT_CHARACTERS = 20_000
"""Longer documents are not cached."""
_MAX_CACHED_CHARACTERS = 4_000_000
"""Characters of all cached documents. A parsed document takes about a hundred times as many bytes."""

IDS_NOT_SUPPORTED = "PersistedQueryNotSupported"
"""The exact message at which clients that send hashes change to sending texts."""


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
    costs: dict[tuple[object, ...], Cost] = field(default_factory=dict)
    """Costs that were found to be within the limits, by the sizes of `size_variables`."""


class OperationCache:
    """Prepares operations, and caches the most recently used."""

    def __init__(self, limits: QueryLimits) -> None:
        self._limits = limits
        self._prepared: OrderedDict[tuple[str, str | None], PreparedOperation] = OrderedDict()
        self._characters = 0
        self._plan_cache = PlanCache()

    def prepare(self, request: GraphQLRequest) -> PreparedOperation:
        """Return the prepared operation of a request. Raises RequestRefused."""
        key = (request.query, request.operation_name)
        prepared = self._prepared.get(key)
        if prepared is not None:
            self._prepared.move_to_end(key)
            return prepared
        if request.document_id is not None:
            raise RequestRefused([make_error(IDS_NOT_SUPPORTED, InvalidInput.code)])
        prepared = self._prepare(request)
        if len(request.query) <= _MAX_DOCUMENT_CHARACTERS:
            self._prepared[key] = prepared
            self._characters += len(request.query)
            while len(self._prepared) > _MAX_CACHED_DOCUMENTS or self._characters > _MAX_CACHED_CHARACTERS:
                (oldest, _), _ = self._prepared.popitem(last=False)
                self._characters -= len(oldest)
        return prepared

    def _prepare(self, request: GraphQLRequest) -> PreparedOperation:
        document = self._parse(request.query)
        operation = _select_operation(document, request.operation_name)
        kind: OperationKind = operation.operation.value
        root_fields = _root_fields(document, operation)
        return PreparedOperation(
            document=document,
            operation_name=request.operation_name,
            kind=kind,
            root=next(iter(root_fields)) if len(root_fields) == 1 else "several",
            is_introspection_only=all(name.startswith("__") for name in root_fields),
            uses_introspection=bool(root_fields & {"__schema", "__type"}),
            selection=selection_key(document, operation) if kind == "subscription" else None,
            compiled=compile_operation(
                SCHEMA, document, request.operation_name, hide_suggestions=True, plan_cache=self._plan_cache
            ),
            size_variables=size_variables(SCHEMA._schema, document),
        )

    def _parse(self, query: str) -> DocumentNode:
        try:
            document = parse_limited(query, self._limits)
            check_shape(document, self._limits)
        except GraphQLError as error:
            raise refused([error]) from error
        errors = validate(SCHEMA._schema, document, max_errors=5, hide_suggestions=True)
        if errors:
            raise refused(errors)
        return document


def _select_operation(document: DocumentNode, name: str | None) -> OperationDefinitionNode:
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    if name is not None:
        operations = [node for node in operations if node.name is not None and node.name.value == name]
        if not operations:
            raise refused([GraphQLError(f"Unknown operation named {name!r}.")])
    if len(operations) != 1:
        raise refused([GraphQLError("Must provide operation name if query contains multiple operations.")])
    return operations[0]


def _root_fields(document: DocumentNode, operation: OperationDefinitionNode) -> set[str]:
    """Return the names of an operation's root fields, also those inside fragments."""
    fragments = fragments_of(document)
    names: set[str] = set()
    spreads: set[str] = set()
    stack: list[SelectionSetNode] = [operation.selection_set]
    while stack:
        for selection in stack.pop().selections:
            match selection:
                case FieldNode(name=name):
                    names.add(name.value)
                case InlineFragmentNode(selection_set=selection_set):
                    stack.append(selection_set)
                case FragmentSpreadNode(name=name) if name.value not in spreads:
                    spreads.add(name.value)
                    stack.append(fragments[name.value].selection_set)
    return names

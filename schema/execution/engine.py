"""The GraphQL engine: documents are parsed and validated once, operations run over graphql-core.

Nothing but introspection, where it is on, runs for nobody. Every failure leaves as `schema.errors` tells.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from graphql import (
    DocumentNode,
    ExecutionResult,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionSetNode,
    execute,
    validate,
)
from graphql.execution import Executor, create_source_event_stream, execute_subscription_event
from graphql.validation.rules import overlapping_fields_can_be_merged

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, InvalidInput, RateLimited, Unauthenticated
from resolvers.base.rate_limits import check_rate
from resolvers.users.callers import Caller
from schema.base.context import Context
from schema.base.errors import NO_REQUEST, ErrorCode, format_error
from schema.base.loaders import Loaders
from schema.base.viewers import NEEDS_TOKEN, Viewer
from schema.compiler import CompiledOperation, PlanCache, compile_operation
from schema.events import Source
from schema.execution.event_rendering import Responses, Selection
from schema.execution.query_cost import check_cost, page_variables
from schema.execution.query_limits import QueryLimits, check_shape, parse_limited
from schema.execution.selections import SelectionText, selection_text
from schema.root import CONVERSATION_TYPES, SCHEMA
from store.base.errors import StoreError
from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLRequest,
    Json,
    OperationKind,
    Prepared,
    RequestRefused,
    encode,
    error,
)

# What comparing overlapping fields may cost: documents within our limits need a fraction of it, and without a
# bound of this size a hostile one keeps the process busy for a second.
overlapping_fields_can_be_merged.MAX_COMPLEXITY_BUDGET = 50_000

_DOCUMENTS = 2_000
_LONGEST_CACHED = 20_000
_CHARACTERS_CACHED = 4_000_000
"""Of all documents. One takes a hundred times as many bytes when it is parsed."""

_SIZES = 64
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.25
INTROSPECTION_IS_OFF = "The schema can't be asked for here: introspection is off."
IDS_ARE_OFF = "PersistedQueryNotSupported"
"""Clients that send hashes look for this very message: they send texts from then on."""
_NOT_GIVEN = object()

EventExecution = Callable[[object, Context], Any]
"""Executes a subscription's selection on one event: an ExecutionResult, or an awaitable of one."""


@dataclass(frozen=True, slots=True)
class PreparedOperation:
    """A parsed and validated document, and which of its operations is meant."""

    document: DocumentNode
    operation_name: str | None
    kind: OperationKind
    root: str
    is_about_schema: bool
    """Nothing but __schema, __type and __typename is asked for."""
    asks_for_schema: bool
    selection: SelectionText | None
    """A subscription's."""
    compiled: CompiledOperation | None
    """None where graphql-core has to execute it."""
    pages: tuple[str, ...]
    """The variables that its cost depends on."""
    affordable: set[tuple[object, ...]] = field(default_factory=set)
    """Values of those that are known to be within the limits."""


class Engine:
    """Executes operations over one process's parts."""

    def __init__(self, app: Confab, *, introspection: bool, limits: QueryLimits | None = None) -> None:
        self._app = app
        self._limits = limits or QueryLimits()
        self._introspection = introspection
        self._schema = SCHEMA._schema
        self._prepared: OrderedDict[tuple[str, str | None], PreparedOperation] = OrderedDict()
        self._characters = 0
        self._kept = PlanCache()
        self._selections: WeakValueDictionary[tuple[str, str], Selection] = WeakValueDictionary()

    def prepare(self, request: GraphQLRequest) -> PreparedOperation:
        """Parses, validates, picks the operation. Raises RequestRefused."""
        key = (request.query, request.operation_name)
        prepared = self._prepared.get(key)
        if prepared is not None:
            self._prepared.move_to_end(key)
            return prepared
        if request.document_id is not None:
            raise RequestRefused([error(IDS_ARE_OFF, InvalidInput.code)])
        document = self._parse(request.query)
        operation = _pick(document, request.operation_name)
        kind: OperationKind = operation.operation.value
        roots = _root_fields(document, operation)
        prepared = PreparedOperation(
            document,
            request.operation_name,
            kind,
            next(iter(roots)) if len(roots) == 1 else "several",
            all(name.startswith("__") for name in roots),
            bool(roots & {"__schema", "__type"}),
            selection_text(document, operation) if kind == "subscription" else None,
            compile_operation(SCHEMA, document, request.operation_name, hide_suggestions=True, kept=self._kept),
            page_variables(document),
        )
        if len(request.query) <= _LONGEST_CACHED:
            self._prepared[key] = prepared
            self._characters += len(request.query)
            while len(self._prepared) > _DOCUMENTS or self._characters > _CHARACTERS_CACHED:
                (oldest, _), _ = self._prepared.popitem(last=False)
                self._characters -= len(oldest)
        return prepared

    def _parse(self, query: str) -> DocumentNode:
        try:
            document = parse_limited(query, self._limits)
            check_shape(document, self._limits)
        except GraphQLError as error:
            raise _refused([error]) from error
        errors = validate(self._schema, document, max_errors=5, hide_suggestions=True)
        if errors:
            raise _refused(errors)
        return document

    async def execute(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """Runs a query or mutation to its end."""
        assert isinstance(prepared, PreparedOperation)
        self._check(prepared, request, context)
        around = self._app.is_around
        response = await self._execute(prepared, request, context)
        if around or self._app.is_around:
            try:
                is_seen = await self._app.settle_around()
            except StoreError as error:
                raise _refused([GraphQLError(str(error), original_error=error)]) from error
            if not is_seen and prepared.kind == "query":
                response = await self._execute(prepared, request, context)
        return response

    async def _execute(self, prepared: PreparedOperation, request: GraphQLRequest, context: ConnectionContext) -> Json:
        with self._app.scope():
            if prepared.compiled is not None:
                outcome: Any = prepared.compiled.execute(request.variables, None, self._context(context))
            else:
                outcome = execute(
                    self._schema,
                    prepared.document,
                    context_value=self._context(context),
                    variable_values=request.variables,
                    operation_name=prepared.operation_name,
                    hide_suggestions=True,
                )
            return await _response(outcome, context.request_id)

    async def subscribe(self, prepared: Prepared, request: GraphQLRequest, context: ConnectionContext) -> Responses:
        """Starts a subscription: attached once this returns."""
        assert isinstance(prepared, PreparedOperation)
        self._check(prepared, request, context)
        caller = context.caller
        assert isinstance(caller, Caller)
        executor = Executor.build(
            self._schema,
            prepared.document,
            context_value=self._context(context),
            raw_variable_values=request.variables,
            operation_name=prepared.operation_name,
            hide_suggestions=True,
        )
        if isinstance(executor, list):
            raise _refused(executor)
        with self._app.scope():
            source: Any = create_source_event_stream(executor)
            if hasattr(source, "__await__"):
                source = await source
        if isinstance(source, ExecutionResult):
            raise RequestRefused([format_error(error, context.request_id) for error in source.errors or ()])
        assert isinstance(source, Source)
        # What the first subscriber read is nobody else's.
        executor.context_value = None
        return Responses(self._selection(prepared, executor), source, caller)

    def _selection(self, prepared: PreparedOperation, executor: Executor[Context]) -> Selection:
        """What all have in common who subscribe with the same selection and the same values of the variables in it."""
        assert prepared.selection is not None
        values = executor.variable_values.coerced
        used = [(name, values[name]) for name in prepared.selection.variables if name in values]
        key = (prepared.selection.text, repr(used))
        selection = self._selections.get(key)
        if selection is None:
            selection = self._selections[key] = Selection(partial(self.execute_event, _execution(prepared, executor)))
        return selection

    async def execute_event(self, execution: EventExecution, shown: object, viewer: Viewer) -> bytes:
        """One event of a subscription, for a viewer, encoded. Waits for a database that is away: an event told with an error in its
        place would be lost. Raises RequestRefused where it stays away."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        request_id = uuid.uuid4().hex
        while True:
            context = Context(self._app, viewer, request_id, Loaders(self._app, viewer), CONVERSATION_TYPES)
            with self._app.scope():
                response = await _response(execution(shown, context), request_id)
            if not _is_unavailable(response):
                return encode(response)
            if asyncio.get_running_loop().time() > deadline:
                raise RequestRefused(response["errors"])
            await asyncio.sleep(_PAUSE_SECONDS)

    def _context(self, context: ConnectionContext) -> Context:
        viewer = Viewer(context.caller if isinstance(context.caller, Caller) else None)
        loaders = Loaders(self._app, viewer)
        return Context(
            self._app, viewer, context.request_id, loaders, CONVERSATION_TYPES, context.connection, context.room
        )

    def _check(self, prepared: PreparedOperation, request: GraphQLRequest, context: ConnectionContext) -> None:
        """Raises RequestRefused: what is not to be told is asked, or nobody asks, or too often, or too much is asked for."""
        if prepared.asks_for_schema and not self._introspection:
            off = Forbidden(INTROSPECTION_IS_OFF)
            raise _refused([GraphQLError(off.message, original_error=off)])
        if context.caller is None and not prepared.is_about_schema:
            refusal = Unauthenticated(NEEDS_TOKEN)
            raise _refused([GraphQLError(refusal.message, original_error=refusal)])
        if isinstance(context.caller, Caller):
            try:
                check_rate(self._app.store.rate_limits.operations, context.caller.user_id)
            except RateLimited as often:
                raise _refused([GraphQLError(often.message, original_error=often)]) from often
        given = request.variables or {}
        # One that is null takes the default of the argument, one that is not there that of the variable.
        pages = tuple([given.get(name, _NOT_GIVEN) for name in prepared.pages])
        known = all(size is None or size is _NOT_GIVEN or type(size) is int for size in pages)
        if known and pages in prepared.affordable:
            return
        try:
            check_cost(self._schema, prepared.document, prepared.operation_name, request.variables, self._limits)
        except GraphQLError as error:
            raise _refused([error]) from error
        if known and len(prepared.affordable) < _SIZES:
            prepared.affordable.add(pages)


def _execution(prepared: PreparedOperation, executor: Executor[Context]) -> EventExecution:
    """How the events of a subscription with its variables are executed."""
    if prepared.compiled is not None:
        return partial(prepared.compiled.execute, executor.variable_values)

    def execute_one(shown: object, context: Context) -> Any:
        once = executor.build_per_event_executor(shown)
        once.context_value = context
        return execute_subscription_event(once)

    return execute_one


async def _response(outcome: Any, request_id: str) -> Json:
    """A result as the transports send it. Raises RequestRefused where nothing was executed."""
    result: ExecutionResult = await outcome if hasattr(outcome, "__await__") else outcome
    errors = result.errors or []
    if result.data is None and errors and all(error.path is None for error in errors):
        raise _refused(errors)
    response: Json = {"data": result.data}
    if errors:
        response["errors"] = [format_error(error, request_id) for error in errors]
    return response


def _is_unavailable(response: Json) -> bool:
    codes = [error["extensions"]["code"] for error in response.get("errors", ())]
    return ErrorCode.UNAVAILABLE.value in codes


def _refused(errors: list[GraphQLError]) -> RequestRefused:
    return RequestRefused([format_error(error, NO_REQUEST) for error in errors])


def _pick(document: DocumentNode, name: str | None) -> OperationDefinitionNode:
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    if name is not None:
        operations = [node for node in operations if node.name is not None and node.name.value == name]
        if not operations:
            raise _refused([GraphQLError(f"Unknown operation named {name!r}.")])
    if len(operations) != 1:
        raise _refused([GraphQLError("Must provide operation name if query contains multiple operations.")])
    return operations[0]


def _root_fields(document: DocumentNode, operation: OperationDefinitionNode) -> set[str]:
    """The names of an operation's root fields, through fragments too."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    names: set[str] = set()
    seen: set[str] = set()
    waiting: list[SelectionSetNode] = [operation.selection_set]
    while waiting:
        for selection in waiting.pop().selections:
            match selection:
                case FieldNode(name=name):
                    names.add(name.value)
                case InlineFragmentNode(selection_set=inner):
                    waiting.append(inner)
                case FragmentSpreadNode(name=name) if name.value not in seen:
                    seen.add(name.value)
                    waiting.append(fragments[name.value].selection_set)
    return names

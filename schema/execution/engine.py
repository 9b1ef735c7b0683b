"""The GraphQL engine: executes operations, and starts subscriptions.

Every operation needs a token, except introspection where it is enabled. `schema.base.errors` formats every failure.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from graphql import ExecutionResult, GraphQLError, execute
from graphql.execution import Executor, create_source_event_stream

from resolvers.base.app import Confab
from resolvers.base.errors import ConfabError, Forbidden, InvalidInput, RateLimited, Unauthenticated
from resolvers.base.pages import PageSizes
from resolvers.base.rate_limits import check_rate
from resolvers.live.thread_watches import watch_threads
from resolvers.users.callers import Caller
from schema.audit.acting_for import note_acting_for
from schema.base.context import Context
from schema.base.errors import format_error, refusal_for, refused
from schema.base.loaders import Loaders
from schema.base.results import await_response, format_result, is_unavailable
from schema.base.viewers import NEEDS_TOKEN, TrackedViewer
from schema.compiler import MeasuredResult, ResultTooLarge
from schema.events.source import Source
from schema.execution.anonymous_operations import AnonymousOperations
from schema.execution.cpu_budgets import DocumentTurns
from schema.execution.event_rendering import ResponseStream, SharedSelection
from schema.execution.event_slots import EventSlots
from schema.execution.prepared_operations import OperationCache, PreparedOperation
from schema.execution.query_cost import NOT_GIVEN, Cost, check_cost, count_items, make_size_key
from schema.execution.query_limits import QueryLimits, limit_error
from schema.execution.slices import Slices
from schema.execution.work import EventExecution, SelectionCost, SubscriptionCosts, measured, operation_units
from schema.presence.presence_types import PresenceType
from schema.root import CONVERSATION_TYPES, SCHEMA
from schema.threads.thread_types import ThreadType
from schema.workspaces.workspace_types import WorkspaceType
from store.base.errors import StoreError
from store.base.ids import UserId
from subscriptions.transport.engine import (
    ConnectionContext,
    GraphQLRequest,
    Json,
    OperationHandle,
    RequestRefused,
    encode,
    make_error,
)

_MAX_REMEMBERED_COSTS = 64
"""Remembered costs of each operation, by the sizes of its pages and lists."""
_EVENT_RETRY_SECONDS = 60.0
_EVENT_RETRY_PAUSE_SECONDS = 0.25
_PAGE_DIVISOR = 10
"""Divisor of page sizes each time a query is executed again because its pages had too many values."""
INTROSPECTION_IS_OFF = "Introspection is disabled on this server; use the published schema instead."
IDS_NOT_SUPPORTED = "PersistedQueryNotSupported"
"""The exact message at which clients that send hashes change to sending texts."""


class Engine:
    """Executes operations on the application of one process."""

    def __init__(
        self,
        app: Confab,
        *,
        introspection: bool,
        limits: QueryLimits | None = None,
        document_cpu_share: float = 0.0,
        anonymous_cpu_share: float = 0.0,
        max_waiting_events_per_user: int = 500,
    ) -> None:
        """Create the engine of one process.

        Args:
            app: The application.
            introspection: Whether anybody may query the schema, also without a token.
            limits: Limits on one operation.
            document_cpu_share: Share of a core for documents of one user that are not cached; 0: no limit.
            anonymous_cpu_share: Share of a core for all documents of callers without a token; 0: no limit.
            max_waiting_events_per_user: Events that may wait for their execution.
        """
        self._app = app
        self._limits = limits or QueryLimits()
        self._introspection = introspection
        self._schema = SCHEMA._schema
        self._operations = OperationCache(self._limits, document_cpu_share)
        self._document_turns = DocumentTurns(document_cpu_share)
        self._anonymous = AnonymousOperations(self._limits, anonymous_cpu_share)
        self._subscription_costs = SubscriptionCosts(app.work)
        self._slices = Slices()
        self._event_slots = EventSlots(self._slices, max_waiting_events_per_user)
        self._selections: WeakValueDictionary[tuple[str, str], SharedSelection] = WeakValueDictionary()

    @property
    def event_slots(self) -> EventSlots:
        """The executions of events."""
        return self._event_slots

    def check_caller(self, caller: object | None) -> None:
        """Refuse callers without a token, unless introspection is enabled. Raises RequestRefused."""
        if caller is None and not self._introspection:
            raise refusal_for(Unauthenticated(NEEDS_TOKEN))

    async def prepare(self, request: GraphQLRequest, caller: object | None) -> PreparedOperation:
        """Parse and validate a document, and select the operation. Raises RequestRefused.

        Documents that are not cached wait for their turn: one is prepared at a time, and users take turns.
        """
        self.check_caller(caller)
        if request.document_id is not None:
            raise RequestRefused([make_error(IDS_NOT_SUPPORTED, InvalidInput.code)])
        if isinstance(caller, Caller):
            prepared = self._operations.find(request, caller.user_id)
            if prepared is None:
                async with self._document_turns.turn(caller.user_id):
                    prepared = await self._operations.prepare(request, caller.user_id)
            return prepared
        return self._operations.find(request, None) or self._anonymous.prepare(request)

    async def execute(self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext) -> Json:
        """Execute a query or mutation to its end. Raises RequestRefused if it was not started."""
        assert isinstance(prepared, PreparedOperation)
        taken = self._check_request(prepared, request, context)
        if context.caller is None:
            return await self._anonymous.execute(prepared, lambda: self._execute(prepared, request, context, taken))
        used_fallback = self._app.uses_fallback
        response = await self._execute(prepared, request, context, taken)
        if used_fallback or self._app.uses_fallback:
            try:
                is_away = await self._app.settle_fallback()
            except StoreError as error:
                raise refused([GraphQLError(str(error), original_error=error)]) from error
            if not is_away and prepared.kind == "query":
                response = await self._execute(prepared, request, context, 0)
        return response

    async def _execute(
        self, prepared: PreparedOperation, request: GraphQLRequest, context: ConnectionContext, taken: int
    ) -> Json:
        """Execute an operation. `taken`: units of work that were taken for its values; the difference is charged."""
        sizes = PageSizes()
        while True:
            try:
                return await self._execute_pages(prepared, request, context, taken, sizes)
            except ResultTooLarge as too_large:
                self._charge(context, too_large.values - taken)
                if prepared.kind == "query" and sizes.can_shrink:
                    sizes, taken = PageSizes(sizes.divisor * _PAGE_DIVISOR), 0
                    continue
                error = limit_error("max_values", self._max_values(prepared), too_large.values, "values")
                if prepared.kind == "query":
                    raise refused([error]) from too_large
                # The mutation has made its change, so the operation is not refused.
                return {"data": None, "errors": [format_error(error, context.request_id)]}

    def _max_values(self, prepared: PreparedOperation) -> int:
        return self._limits.max_values if prepared.kind == "query" else self._limits.max_event_values

    async def _execute_pages(
        self,
        prepared: PreparedOperation,
        request: GraphQLRequest,
        context: ConnectionContext,
        taken: int,
        sizes: PageSizes,
    ) -> Json:
        """Execute an operation once, with these page sizes. Raises ResultTooLarge."""
        user = _user_of(context)
        ids = prepared.list_ids_with_rev(request.variables)
        with self._app.request_scope(user, _actor_of(context)), self._slices.operation(user):
            own = self._context(context, sizes)
            if ids and user is not None:
                # Before anything is read: a position may not be later than what is read.
                own.loaders.watched_since = await watch_threads(self._app, user, ids)
            if prepared.kind == "mutation":
                names = prepared.document, prepared.operation_name
                await note_acting_for(self._app, context.caller, self._schema, *names, request.variables)
            if prepared.compiled is not None:
                yield_control = partial(self._slices.next, user)
                result: Any = prepared.compiled.execute(
                    request.variables, None, own, yield_control, self._max_values(prepared)
                )
            else:
                result = execute(
                    self._schema,
                    prepared.document,
                    context_value=own,
                    variable_values=request.variables,
                    operation_name=prepared.operation_name,
                    hide_suggestions=True,
                )
            result = await result if hasattr(result, "__await__") else result
            if isinstance(result, MeasuredResult):
                self._charge(context, result.values - taken)
            elif result.data is None:
                # A variable does not fit its type: nothing was executed.
                self._charge(context, -taken)
            return format_result(result, context.request_id)

    async def subscribe(
        self, prepared: OperationHandle, request: GraphQLRequest, context: ConnectionContext
    ) -> ResponseStream:
        """Start a subscription. When this returns, no later event is missed. Raises RequestRefused."""
        assert isinstance(prepared, PreparedOperation)
        self._check_request(prepared, request, context)
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
            raise refused(executor)
        try:
            selection = self._shared_selection(prepared, executor, self._check_cost(prepared, request, context))
            self._subscription_costs.open(caller.user_id, selection.cost)
        except ConfabError as error:
            raise refusal_for(error) from error
        try:
            with self._app.request_scope(caller.user_id):
                source: Any = create_source_event_stream(executor)
                if hasattr(source, "__await__"):
                    source = await source
            if isinstance(source, ExecutionResult):
                raise RequestRefused([format_error(error, context.request_id) for error in source.errors or ()])
        except BaseException:
            self._subscription_costs.close(caller.user_id, selection.cost)
            raise
        assert isinstance(source, Source)
        # The executor may be shared with other subscribers, which must not see this subscriber's context.
        executor.context_value = None
        return ResponseStream(selection, source, caller, self._subscription_costs)

    def _shared_selection(
        self, prepared: PreparedOperation, executor: Executor[Context], cost: Cost
    ) -> SharedSelection:
        """Return the object that subscriptions with the same selection and the same values of its variables share."""
        assert prepared.selection is not None
        values = executor.variable_values.coerced
        used = [(name, values[name]) for name in prepared.selection.variables if name in values]
        key = (prepared.selection.text, repr(used))
        selection = self._selections.get(key)
        if selection is None:
            selection_cost = SelectionCost(self._app.work, cost.values)
            execution = prepared.event_execution(executor, self._limits.max_event_values)
            execute = partial(self.execute_event, measured(execution, self._limits.max_event_values))
            selection = self._selections[key] = SharedSelection(execute, selection_cost, self._event_slots)
        return selection

    def execute_event(
        self, execution: EventExecution, event: object, viewer: TrackedViewer, user: UserId
    ) -> bytes | Awaitable[bytes]:
        """Render one event of a subscription for a viewer. `user`: the viewer's id, without recording a dependency.

        Tries again while a database is unavailable, up to a minute, because an event sent as an error would be lost.

        Returns:
            The encoded response; an awaitable of it if the execution has to wait.

        Raises:
            RequestRefused: Nothing was executed. The awaitable also raises it if the database stayed unavailable.
        """
        request_id = uuid.uuid4().hex
        yield_control = partial(self._slices.next, user)

        def execute_once() -> Any:
            context = Context(
                self._app,
                viewer,
                request_id,
                Loaders(self._app, viewer),
                CONVERSATION_TYPES,
                WorkspaceType,
                ThreadType,
                PresenceType,
            )
            return execution(event, context, yield_control)

        with self._app.request_scope(user):
            outcome = execute_once()
            if isinstance(outcome, ExecutionResult):
                response = format_result(outcome, request_id)
                if not is_unavailable(response):
                    return encode(response)
            # The task stays in the request scope in which the execution began.
            return asyncio.create_task(self._finish_event(outcome, execute_once, request_id, user))

    async def _finish_event(
        self, outcome: Any, execute_once: Callable[[], Any], request_id: str, user: UserId
    ) -> bytes:
        """Await an execution. Execute again while a database is unavailable; between executions it holds no slot."""
        deadline = asyncio.get_running_loop().time() + _EVENT_RETRY_SECONDS
        while True:
            response = await await_response(outcome, request_id)
            if not is_unavailable(response):
                return encode(response)
            if asyncio.get_running_loop().time() > deadline:
                raise RequestRefused(response["errors"])
            self._event_slots.end(user)
            try:
                await asyncio.sleep(_EVENT_RETRY_PAUSE_SECONDS)
            finally:
                await self._event_slots.start(user)
            with self._app.request_scope(user):
                outcome = execute_once()
                if hasattr(outcome, "__await__"):
                    outcome = await outcome

    def _context(self, context: ConnectionContext, sizes: PageSizes | None = None) -> Context:
        viewer = TrackedViewer(context.caller if isinstance(context.caller, Caller) else None)
        loaders = Loaders(self._app, viewer)
        return Context(
            self._app,
            viewer,
            context.request_id,
            loaders,
            CONVERSATION_TYPES,
            WorkspaceType,
            ThreadType,
            PresenceType,
            context.connection,
            context.queue_budget,
            sizes or PageSizes(),
        )

    def _check_request(self, prepared: PreparedOperation, request: GraphQLRequest, context: ConnectionContext) -> int:
        """Check introspection, token, rate limit, cost and work budget, in this order. Raises RequestRefused.

        Returns:
            The units of work that were taken for the values of the response.
        """
        if prepared.uses_introspection and not self._introspection:
            raise refusal_for(Forbidden(INTROSPECTION_IS_OFF))
        if context.caller is None and not prepared.is_introspection_only:
            raise refusal_for(Unauthenticated(NEEDS_TOKEN))
        if not isinstance(context.caller, Caller):
            return self._check_cost(prepared, request, context).values
        user = context.caller.user_id
        try:
            check_rate(self._app.store.rate_limits.operations, user)
            # Events of a subscription are paid for when they are rendered.
            values = self._check_cost(prepared, request, context).values if prepared.kind != "subscription" else 0
            self._app.work.take(user, operation_units(prepared.kind) + count_items(request.variables) + values)
        except RateLimited as rate_limited:
            raise refusal_for(rate_limited) from rate_limited
        return values

    def _charge(self, context: ConnectionContext, units: int) -> None:
        if isinstance(context.caller, Caller):
            self._app.work.charge(context.caller.user_id, units)

    def _check_cost(self, prepared: PreparedOperation, request: GraphQLRequest, context: ConnectionContext) -> Cost:
        """Return the rows and values of the operation with full pages. Raises RequestRefused and RateLimited."""
        variables = request.variables or {}
        # A variable that is null takes the default of the argument; a missing one takes the default of the variable.
        sizes = tuple([make_size_key(variables.get(name, NOT_GIVEN)) for name in prepared.size_variables])
        cost = prepared.costs.get(sizes)
        if cost is None:
            if isinstance(context.caller, Caller):
                self._app.work.take(context.caller.user_id, prepared.analysis_units)
            try:
                cost = check_cost(self._schema, prepared.document, prepared.operation_name, variables, self._limits)
            except GraphQLError as error:
                raise refused([error]) from error
            if len(prepared.costs) < _MAX_REMEMBERED_COSTS:
                prepared.costs[sizes] = cost
                self._charge(context, -prepared.analysis_units)
        return cost


def _user_of(context: ConnectionContext) -> UserId | None:
    return context.caller.user_id if isinstance(context.caller, Caller) else None


def _actor_of(context: ConnectionContext) -> UserId | None:
    return context.caller.acted_by if isinstance(context.caller, Caller) else None

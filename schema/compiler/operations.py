"""Compiles operations and executes them."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import strawberry
from graphql import (
    DocumentNode,
    ExecutionResult,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLIncludeDirective,
    GraphQLObjectType,
    GraphQLSkipDirective,
    Node,
    OperationDefinitionNode,
    OperationType,
    VariableNode,
)
from graphql.execution import Executor
from graphql.execution.collect_fields import FragmentDetails
from graphql.execution.values import VariableValues, get_variable_values
from graphql.type.directives import GraphQLDisableErrorPropagationDirective
from strawberry.types import Info

from schema.compiler.arguments import ArgumentConverters
from schema.compiler.execution import UNLIMITED_VALUES, ExecutionState, TooManyValues, YieldControl
from schema.compiler.field_resolution import OperationSource
from schema.compiler.object_code import Step
from schema.compiler.plan_cache import CompiledPlan, PlanCache
from schema.compiler.plans import GENERATE_AFTER, Planner

_MAX_PLANS_PER_OPERATION = 16
"""Combinations of the variables of @skip and @include for which the plans of one operation are cached."""

_CONDITION_DIRECTIVES = (GraphQLSkipDirective.name, GraphQLIncludeDirective.name)


class ResultTooLarge(Exception):
    """Raised when an execution was stopped because its result has too many values. `values`: their number so far."""

    def __init__(self, values: int) -> None:
        super().__init__(values)
        self.values = values


class MeasuredResult(ExecutionResult):
    """The result of an execution, and the number of values in it."""

    __slots__ = ("values",)

    def __init__(self, data: dict[str, Any] | None, errors: list[GraphQLError] | None, values: int) -> None:
        super().__init__(data, errors)
        self.values = values


class CompiledOperation:
    """An operation that can be executed any number of times, also concurrently."""

    def __init__(
        self,
        operation: OperationSource,
        fragments: dict[str, FragmentDetails],
        root: GraphQLObjectType,
        condition_variables: tuple[str, ...],
        plan_cache: PlanCache,
        generate_after: int,
    ) -> None:
        self._operation = operation
        self._fragments = fragments
        self._root = root
        self._condition_variables = condition_variables
        self._plan_cache = plan_cache
        self._generate_after = generate_after
        self._plans: dict[tuple[object, ...], CompiledPlan] = {}

    def use_plan_cache(self, plan_cache: PlanCache) -> None:
        """Move the operation's plans to another cache."""
        for plan in self._plans.values():
            self._plan_cache.remove(plan)
        self._plan_cache = plan_cache
        for plan in list(self._plans.values()):
            plan_cache.add(plan)

    def coerce(self, variables: Mapping[str, Any] | None) -> VariableValues | list[GraphQLError]:
        """Return the values of the operation's variables, or the errors in them."""
        operation = self._operation
        definitions = operation.definition.variable_definitions or ()
        return get_variable_values(
            operation.schema,
            definitions,
            dict(variables or {}),
            max_errors=50,
            hide_suggestions=operation.hide_suggestions,
        )

    async def execute(
        self,
        variables: Mapping[str, Any] | VariableValues | None = None,
        root: Any = None,
        context: Any = None,
        yield_control: YieldControl | None = None,
        max_values: int = UNLIMITED_VALUES,
    ) -> ExecutionResult:
        """Execute the operation. The root fields of a mutation are executed one after the other.

        Args:
            variables: As the client sent them, or as `coerce` returned them.
            root: The source of the root fields. For a subscription: the event.
            context: The `context` of `info`.
            yield_control: Called when the execution has run for some milliseconds.
            max_values: Most values of the result; see ExecutionState.

        Returns:
            The result, with errors as graphql-core reports them. It is a MeasuredResult if anything was executed.

        Raises:
            ResultTooLarge: The result has more than `max_values`.
        """
        values = variables if isinstance(variables, VariableValues) else self.coerce(variables)
        if isinstance(values, list):
            return ExecutionResult(None, values)
        if self._operation.definition.operation is OperationType.MUTATION:
            return await self._execute_serially(ExecutionState(root, context, values, yield_control, max_values))
        result = self.start(values, root, context, yield_control, max_values)
        return result if isinstance(result, ExecutionResult) else await result

    def start(
        self,
        values: VariableValues,
        root: Any = None,
        context: Any = None,
        yield_control: YieldControl | None = None,
        max_values: int = UNLIMITED_VALUES,
    ) -> ExecutionResult | Awaitable[ExecutionResult]:
        """Execute a query, or the selection of a subscription on an event, with the values of its variables.

        Returns an awaitable only if a value has to be awaited, or if the execution has to yield. Both the
        call and the awaitable raise ResultTooLarge.
        """
        state = ExecutionState(root, context, values, yield_control, max_values)
        data: dict[str, Any] = {}
        try:
            steps = self._steps(values)
            state.values += len(steps)
            for step in steps:
                step(root, data, None, state)
        except GraphQLError as error:
            state.null_data(error)
            state.abandon_pending()
        except TooManyValues:
            state.discard_pending()
            raise ResultTooLarge(state.values) from None
        return _finish(state, data) if state.pending or state.unfinished else _result(state, data)

    async def _execute_serially(self, state: ExecutionState) -> ExecutionResult:
        """Execute the root fields of a mutation, one after the other."""
        data: dict[str, Any] = {}
        try:
            steps = self._steps(state.variables)
            state.values += len(steps)
            for step in steps:
                step(state.root, data, None, state)
                await state.await_pending()
                if state.is_data_null:
                    break
        except GraphQLError as error:
            state.null_data(error)
            state.abandon_pending()
        except TooManyValues:
            state.discard_pending()
            raise ResultTooLarge(state.values) from None
        return await _finish(state, data)

    def _steps(self, values: VariableValues) -> list[Step]:
        key = tuple(values.coerced.get(name) for name in self._condition_variables)
        cached = self._plans.get(key)
        if cached is not None:
            self._plan_cache.mark_used(cached)
            return cached.steps
        # The plan outlives this execution. It must not hold the values of variables that it does not depend on.
        conditions = {name: values.coerced[name] for name in self._condition_variables if name in values.coerced}
        values = VariableValues({name: values.sources[name] for name in conditions}, conditions)
        planner = Planner(self._operation, self._fragments, values, self._executor(values), self._generate_after)
        steps = planner.plan_root(self._root)
        if len(self._plans) < _MAX_PLANS_PER_OPERATION:
            plan = self._plans[key] = CompiledPlan(steps, planner, partial(self._plans.pop, key))
            self._plan_cache.add(plan)
        return steps

    def _executor(self, values: VariableValues) -> Executor[Any]:
        """Return the executor that reports errors in the type that a resolver returned."""
        operation = self._operation
        return Executor(
            operation.schema, operation.fragments, self._fragments, None, None, operation.definition, values,
            _unused, _unused, _unused,
        )  # fmt: skip


async def _finish(state: ExecutionState, data: dict[str, Any]) -> ExecutionResult:
    try:
        await state.await_pending()
    except TooManyValues:
        state.discard_pending()
        raise ResultTooLarge(state.values) from None
    return _result(state, data)


def _result(state: ExecutionState, data: dict[str, Any]) -> MeasuredResult:
    return MeasuredResult(None if state.is_data_null else data, state.errors or None, state.values)


def compile_operation(
    schema: strawberry.Schema,
    document: DocumentNode,
    operation_name: str | None = None,
    *,
    hide_suggestions: bool = False,
    plan_cache: PlanCache | None = None,
    generate_after: int = GENERATE_AFTER,
) -> CompiledOperation | None:
    """Compile an operation of a document that passed validation.

    Args:
        schema: The Strawberry schema against which the document was validated.
        document: The document.
        operation_name: May be None if the document has one operation.
        hide_suggestions: Leave out suggestions in the errors of variables.
        plan_cache: Bounds the memory of the plans of all operations that share it.
        generate_after: Objects of each selection that are completed before code is generated for it.

    Returns:
        None if the operation is missing or not supported. Not supported are @defer and @stream, fragments with
        variables, and disabled error propagation.
    """
    core = schema._schema
    operations: list[OperationDefinitionNode] = []
    definitions: dict[str, FragmentDefinitionNode] = {}
    for definition in document.definitions:
        if isinstance(definition, OperationDefinitionNode):
            if operation_name is None or (definition.name is not None and definition.name.value == operation_name):
                operations.append(definition)
        elif isinstance(definition, FragmentDefinitionNode):
            if definition.variable_definitions:
                return None
            definitions[definition.name.value] = definition
    if len(operations) != 1:
        return None
    root = core.get_root_type(operations[0].operation)
    if root is None or any(_is_unsupported(node) for node in operations[0].directives or ()):
        return None
    condition_variables: dict[str, None] = {}
    for definition in (operations[0], *definitions.values()):
        for directive in _directives_below(definition):
            if directive.name.value in ("defer", "stream"):
                return None
            if directive.name.value in _CONDITION_DIRECTIVES:
                condition_variables |= {
                    argument.value.name.value: None
                    for argument in directive.arguments or ()
                    if isinstance(argument.value, VariableNode)
                }
    operation = OperationSource(core, operations[0], definitions, hide_suggestions, _argument_converters_of(schema))
    details = {name: FragmentDetails(definition) for name, definition in definitions.items()}
    return CompiledOperation(
        operation, details, root, tuple(condition_variables), plan_cache or PlanCache(), generate_after
    )


_ARGUMENT_CONVERTERS: WeakKeyDictionary[strawberry.Schema, ArgumentConverters] = WeakKeyDictionary()


def _argument_converters_of(schema: strawberry.Schema) -> ArgumentConverters | None:
    """Return None if Strawberry does more for each resolver than to convert its arguments."""
    if schema.config.info_class is not Info or schema.schema_converter.exception_handlers:
        return None
    converters = _ARGUMENT_CONVERTERS.get(schema)
    if converters is None:
        converters = _ARGUMENT_CONVERTERS[schema] = ArgumentConverters(schema)
    return converters


def _is_unsupported(directive: Any) -> bool:
    return bool(directive.name.value == GraphQLDisableErrorPropagationDirective.name)


def _directives_below(node: Node) -> Iterator[Any]:
    """Yield the directives of all selections below a node."""
    stack: list[Any] = [node]
    while stack:
        current = stack.pop()
        if not isinstance(current, OperationDefinitionNode | FragmentDefinitionNode):
            yield from current.directives or ()
        selection_set = getattr(current, "selection_set", None)
        if selection_set is not None:
            stack.extend(selection_set.selections)


def _unused(*args: Any) -> Any:
    raise AssertionError("this executor only reports errors")

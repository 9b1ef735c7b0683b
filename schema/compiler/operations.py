"""Compiling an operation, and running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

from schema.compiler.arguments import Inputs
from schema.compiler.execution import Run
from schema.compiler.field_resolution import OperationSource
from schema.compiler.plan_cache import CompiledPlan, PlanCache
from schema.compiler.plans import Plans, Step

_MOST_PLANS = 16
"""For so many combinations of what @skip and @include are given is an operation compiled."""

_CONDITIONS = (GraphQLSkipDirective.name, GraphQLIncludeDirective.name)


class CompiledOperation:
    """An operation ready to run, any number of times and concurrently."""

    def __init__(
        self,
        operation: OperationSource,
        fragments: dict[str, FragmentDetails],
        root: GraphQLObjectType,
        conditions: tuple[str, ...],
        kept: PlanCache,
    ) -> None:
        self._operation = operation
        self._fragments = fragments
        self._root = root
        self._conditions = conditions
        self._kept = kept
        self._plans: dict[tuple[object, ...], CompiledPlan] = {}

    def coerce(self, variables: Mapping[str, Any] | None) -> VariableValues | list[GraphQLError]:
        """The values of the operation's variables, or what is wrong with them."""
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
        self, variables: Mapping[str, Any] | VariableValues | None = None, root: Any = None, context: Any = None
    ) -> ExecutionResult:
        """Runs it: a query, a mutation whose fields take turns, or what a subscription shows of one event, which is `root`.

        `variables`: as they came, or as `coerce` answered. Failures are in the result, as graphql-core tells them.
        """
        values = variables if isinstance(variables, VariableValues) else self.coerce(variables)
        if isinstance(values, list):
            return ExecutionResult(None, values)
        run = Run(root, context, values)
        data: dict[str, Any] = {}
        in_turn = self._operation.definition.operation is OperationType.MUTATION
        try:
            for step in self._steps(values):
                step(root, data, None, run)
                if in_turn:
                    await run.drain()
                    if run.is_void:
                        break
        except GraphQLError as error:
            run.void(error)
            run.abandon()
        await run.drain()
        return ExecutionResult(None if run.is_void else data, run.errors or None)

    def _steps(self, values: VariableValues) -> list[Step]:
        key = tuple(values.coerced.get(name) for name in self._conditions)
        known = self._plans.get(key)
        if known is not None:
            self._kept.use(known)
            return known.steps
        # A plan outlives the operation it is made for, and must not keep what was handed to that.
        decisive = {name: values.coerced[name] for name in self._conditions if name in values.coerced}
        values = VariableValues({name: values.sources[name] for name in decisive}, decisive)
        plans = Plans(self._operation, self._fragments, values, self._executor(values))
        steps = plans.of_root(self._root)
        if len(self._plans) < _MOST_PLANS:
            plan = self._plans[key] = CompiledPlan(steps, plans, partial(self._plans.pop, key))
            self._kept.keep(plan)
        return steps

    def _executor(self, values: VariableValues) -> Executor[Any]:
        """What is asked what is wrong with a type that a resolver named."""
        operation = self._operation
        return Executor(
            operation.schema, operation.fragments, self._fragments, None, None, operation.definition, values,
            _unused, _unused, _unused,
        )  # fmt: skip


def compile_operation(
    schema: strawberry.Schema,
    document: DocumentNode,
    operation_name: str | None = None,
    *,
    hide_suggestions: bool = False,
    kept: PlanCache | None = None,
) -> CompiledOperation | None:
    """An operation of a document that passed validation. None where it is not covered: @defer and @stream, fragments with
    variables, switched-off error propagation, an operation that isn't there.

    `kept` bounds what the plans take of all operations that are given it.
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
    if root is None or any(_is_uncovered(node) for node in operations[0].directives or ()):
        return None
    conditions: dict[str, None] = {}
    for part in (operations[0], *definitions.values()):
        for directive in _directives(part):
            if directive.name.value in ("defer", "stream"):
                return None
            if directive.name.value in _CONDITIONS:
                conditions |= {
                    argument.value.name.value: None
                    for argument in directive.arguments or ()
                    if isinstance(argument.value, VariableNode)
                }
    operation = OperationSource(core, operations[0], definitions, hide_suggestions, _inputs_of(schema))
    details = {name: FragmentDetails(definition) for name, definition in definitions.items()}
    return CompiledOperation(operation, details, root, tuple(conditions), kept or PlanCache())


_INPUTS: WeakKeyDictionary[strawberry.Schema, Inputs] = WeakKeyDictionary()


def _inputs_of(schema: strawberry.Schema) -> Inputs | None:
    """None where Strawberry does more around each resolver than to convert its arguments."""
    if schema.config.info_class is not Info or schema.schema_converter.exception_handlers:
        return None
    inputs = _INPUTS.get(schema)
    if inputs is None:
        inputs = _INPUTS[schema] = Inputs(schema)
    return inputs


def _is_uncovered(directive: Any) -> bool:
    return bool(directive.name.value == GraphQLDisableErrorPropagationDirective.name)


def _directives(node: Node) -> Iterator[Any]:
    """All directives on selections below a node."""
    waiting: list[Any] = [node]
    while waiting:
        found = waiting.pop()
        if not isinstance(found, OperationDefinitionNode | FragmentDefinitionNode):
            yield from found.directives or ()
        selection_set = getattr(found, "selection_set", None)
        if selection_set is not None:
            waiting.extend(selection_set.selections)


def _unused(*args: Any) -> Any:
    raise AssertionError("nothing is executed by it")

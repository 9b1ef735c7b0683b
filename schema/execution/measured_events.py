"""Executions of events that count their values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from graphql import ExecutionResult

from schema.base.context import Context
from schema.base.errors import refused
from schema.compiler import MeasuredResult, ResultTooLarge
from schema.compiler.execution import YieldControl
from schema.execution.query_limits import limit_error
from subscriptions.transport.engine import RequestRefused

EventExecution = Callable[[object, Context, YieldControl], Any]
"""Executes a subscription's selection on one event. Returns an ExecutionResult or an awaitable of one."""


def measured(execution: EventExecution, max_values: int) -> EventExecution:
    """Return an execution of events that reports the number of values to the viewer."""

    def execute_measured(event: object, context: Context, yield_control: YieldControl) -> Any:
        try:
            outcome = execution(event, context, yield_control)
        except ResultTooLarge as too_large:
            raise refuse(too_large, context) from None
        return report(outcome, context) if isinstance(outcome, ExecutionResult) else finish(outcome, context)

    async def finish(outcome: Awaitable[ExecutionResult], context: Context) -> ExecutionResult:
        try:
            return report(await outcome, context)
        except ResultTooLarge as too_large:
            raise refuse(too_large, context) from None

    def report(result: ExecutionResult, context: Context) -> ExecutionResult:
        if isinstance(result, MeasuredResult):
            context.tracked_viewer.values += result.values
        return result

    def refuse(too_large: ResultTooLarge, context: Context) -> RequestRefused:
        context.tracked_viewer.values += too_large.values
        return refused([limit_error("max_values", max_values, too_large.values, "values")])

    return execute_measured

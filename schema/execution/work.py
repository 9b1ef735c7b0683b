"""Costs of operations and events, which users pay from their work budgets (`resolvers.base.work_budgets`).

    a query or subscription    QUERY_UNITS     and one unit for each value of the response
    a mutation                 MUTATION_UNITS  and one unit for each value of the response
    an event                   EVENT_UNITS     and one unit for each value of the response
    a list in the arguments    one unit for each item
    an analysis of costs       SELECTION_UNITS for each selection of the document
    a search among people      `resolvers.users.people.SEARCH_UNITS` for each person that may match
    a search for messages      CONVERSATION_UNITS for each conversation, MESSAGE_UNITS for each message that is compared
                               (`resolvers.search`)

Before an operation begins, the units for full pages are taken. At its end the units for values that were not produced
are given back. So are those of an analysis whose result is remembered. Sizes of lists without `first` are declared at
their fields (`schema.base.list_sizes`). An event is rendered once for all subscribers with the same selection, so its
units are divided by the number of their users. A missed event is read for one subscriber, who pays for all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from graphql import ExecutionResult

from resolvers.base.errors import A_MOMENT_MS, QueryTooComplex, RateLimited
from resolvers.base.work_budgets import WorkBudgets
from schema.base.context import Context
from schema.base.errors import refused
from schema.compiler import MeasuredResult, ResultTooLarge
from schema.compiler.execution import YieldControl
from schema.execution.query_limits import limit_error
from store.base.ids import UserId
from subscriptions.transport.engine import OperationKind, RequestRefused

QUERY_UNITS = 100
MUTATION_UNITS = 500
EVENT_UNITS = 50
SELECTION_UNITS = 3

EventExecution = Callable[[object, Context, YieldControl], Any]
"""Executes a subscription's selection on one event. Returns an ExecutionResult or an awaitable of one."""


def operation_units(kind: OperationKind) -> int:
    """Return what an operation costs before its values are counted."""
    return MUTATION_UNITS if kind == "mutation" else QUERY_UNITS


class SelectionCost:
    """Cost of one selection of events, and the users who subscribe to it.

    `units`: an estimate for one event, with full pages.
    """

    __slots__ = ("_budgets", "_subscriptions", "units")

    def __init__(self, budgets: WorkBudgets, values: int) -> None:
        self.units = EVENT_UNITS + values
        self._budgets = budgets
        self._subscriptions: Counter[UserId] = Counter()

    def is_used_by(self, user: UserId) -> bool:
        """Return whether a user has a subscription with this selection."""
        return user in self._subscriptions

    def charge(self, user: UserId, values: int, *, is_own: bool) -> None:
        """Charge a user with an event that was rendered: the whole cost if it is their own, else their share of it."""
        payers = 1 if is_own else max(1, len(self._subscriptions))
        self._budgets.charge(user, -(-(EVENT_UNITS + values) // payers))

    def check(self, user: UserId) -> None:
        """Check that a user's budget allows another event to be rendered. Raises RateLimited."""
        self._budgets.check_events(user)

    def add(self, user: UserId) -> None:
        """Count a subscription."""
        self._subscriptions[user] += 1

    def remove(self, user: UserId) -> bool:
        """Count the end of a subscription. Return True if it was the user's last one."""
        self._subscriptions[user] -= 1
        if self._subscriptions[user] > 0:
            return False
        del self._subscriptions[user]
        return True


class SubscriptionCosts:
    """Cost per second of the open subscriptions of each user, if each gets one event per second.

    Subscriptions of a user with the same selection cost as much as one.
    """

    def __init__(self, budgets: WorkBudgets) -> None:
        self._budgets = budgets
        self._units: Counter[UserId] = Counter()

    def open(self, user: UserId, cost: SelectionCost) -> None:
        """Count a subscription.

        Raises:
            QueryTooComplex: The subscription alone costs too much.
            RateLimited: It costs too much together with the user's other subscriptions. It can begin when one of them
                has ended.
        """
        if not cost.is_used_by(user):
            used, allowed = self._units[user], self._budgets.per_second
            if self._budgets.has_limit and used + cost.units > allowed:
                self._budgets.refused += 1
                message = f"An event of this subscription costs {cost.units:,} units of work"
                if cost.units > allowed:
                    raise QueryTooComplex(f"{message}, where {allowed:,} are allowed. Select less.")
                raise RateLimited(
                    f"{message}, those of your other subscriptions {used:,}, where {allowed:,} are allowed together. "
                    "Select less, select the same in all subscriptions, or end some of them.",
                    retry_after_ms=A_MOMENT_MS,
                )
            self._units[user] = used + cost.units
        cost.add(user)

    def close(self, user: UserId, cost: SelectionCost) -> None:
        """Count the end of a subscription."""
        if cost.remove(user):
            self._units[user] -= cost.units
            if not self._units[user]:
                del self._units[user]


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

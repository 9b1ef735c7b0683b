"""Bounds the memory of compiled plans: a short document may need a large plan."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from schema.compiler.object_code import Step
from schema.compiler.plans import Planner

_PLAN_OVERHEAD = 20
"""Memory of a plan without fields, measured in fields."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPlan:
    """The steps for certain values of the variables in an operation's directives.

    `on_evict` makes the operation compile the plan again when it is needed again.
    """

    steps: list[Step]
    planner: Planner
    on_evict: Callable[[], object]


class PlanCache:
    """The compiled plans of many operations, up to a total number of fields. Evicts the least recently used."""

    def __init__(self, max_fields: int = 20_000) -> None:
        """A field takes about 2.5 KB, and as much again if code was generated for it."""
        self._max_fields = max_fields
        self._plans: OrderedDict[CompiledPlan, None] = OrderedDict()

    def mark_used(self, plan: CompiledPlan) -> None:
        """Make a cached plan the most recently used."""
        self._plans.move_to_end(plan)

    def remove(self, plan: CompiledPlan) -> None:
        """Forget a plan, which remains usable."""
        self._plans.pop(plan, None)

    def add(self, plan: CompiledPlan) -> None:
        """Cache a plan, and evict others if there are too many fields."""
        self._plans[plan] = None
        # Counted each time: a plan grows when it meets a type for the first time.
        size = sum(_PLAN_OVERHEAD + cached.planner.field_count for cached in self._plans)
        while size > self._max_fields and len(self._plans) > 1:
            oldest, _ = self._plans.popitem(last=False)
            oldest.on_evict()
            size -= _PLAN_OVERHEAD + oldest.planner.field_count

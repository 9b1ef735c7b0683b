"""How many plans are kept: a small document may stand for much."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from schema.compiler.plans import Plans, Step

_A_PLAN = 20
"""What a plan takes that has no fields, in fields."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPlan:
    """What is done for certain values of the variables that an operation's directives use. `forget` has that operation make it
    anew when it is asked for again."""

    steps: list[Step]
    plans: Plans
    forget: Callable[[], object]


class PlanCache:
    """The plans of any number of operations, up to so many fields in all. Those that were not used for longest are let go."""

    def __init__(self, most_fields: int = 40_000) -> None:
        """A field takes about 2.5 KB."""
        self._most = most_fields
        self._all: OrderedDict[CompiledPlan, None] = OrderedDict()

    def use(self, plan: CompiledPlan) -> None:
        """One of those that are kept is used."""
        self._all.move_to_end(plan)

    def keep(self, plan: CompiledPlan) -> None:
        """From now on."""
        self._all[plan] = None
        # Added up each time: plans grow with the types that are met.
        size = sum(_A_PLAN + kept.plans.fields for kept in self._all)
        while size > self._most and len(self._all) > 1:
            oldest, _ = self._all.popitem(last=False)
            oldest.forget()
            size -= _A_PLAN + oldest.plans.fields

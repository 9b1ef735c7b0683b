"""Runs a state machine: the same few examples each time, or random ones by a setting."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.invariants.machine.deployment import ClockedDeployment

LONG = int(os.environ.get("CONFAB_TEST_MACHINE_EXAMPLES", "0"))
"""The number of random examples. 0: a few examples that are always the same."""


def run_machine(
    machine: type[RuleBasedStateMachine],
    processes: ClockedDeployment,
    capsys: pytest.CaptureFixture[str],
    *,
    examples: int,
    steps: int = 50,
) -> None:
    """Run a state machine, and print its steps if it is the long form. examples, steps: of the short form."""
    chosen: dict[str, Any] = {"max_examples": LONG or examples, "stateful_step_count": 50 if LONG else steps}
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                **chosen,
                # Without LONG each run walks the same way, so that a failure is caused by a change of the code.
                derandomize=not LONG,
                database=None,
                phases=(Phase.generate,),
                suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
            ),
        )
    finally:
        if LONG:
            with capsys.disabled():
                print(f"\n{processes.steps.total()} steps: {dict(processes.steps.most_common())}")

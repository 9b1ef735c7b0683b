"""The demo and the sample for React in a browser: `web/tests/demo-*.mjs` and `react-chat.mjs`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import OutcomesOf
from tests.browser.programs import PROGRAMS, checks_of, report_outcome, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")

LONG = {"demo-details", "demo-reach", "demo-trouble"}
"""Programs about rarer things, which take most of the time."""

CHECKS = [
    pytest.param(path.stem, sentence, marks=pytest.mark.long if path.stem in LONG else ())
    for path in (*sorted(PROGRAMS.glob("demo-*.mjs")), PROGRAMS / "react-chat.mjs")
    for sentence in checks_of(path.stem)
]


@pytest.mark.parametrize(("program", "sentence"), CHECKS)
async def test_in_a_browser(
    program: str, sentence: str, outcomes: OutcomesOf, record_property: Callable[[str, object], None]
) -> None:
    outcome = (await outcomes(program))[sentence]
    report_outcome(outcome, record_property)

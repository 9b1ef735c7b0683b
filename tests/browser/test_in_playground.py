"""The playground in a browser: `web/tests/playground.mjs`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.conftest import OutcomesOf
from tests.browser.programs import checks_of, report_outcome, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.mark.parametrize("sentence", checks_of("playground"))
async def test_in_a_browser(
    sentence: str, outcomes: OutcomesOf, record_property: Callable[[str, object], None]
) -> None:
    outcome = (await outcomes("playground"))[sentence]
    report_outcome(outcome, record_property)

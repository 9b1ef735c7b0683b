"""Whatever is sent, nothing is INTERNAL: the fuzzer's short form. The long one: python -m tests.security.fuzzing."""

from __future__ import annotations

import random
from collections.abc import Callable

from server.settings import Settings
from tests.security.fuzzing import fuzzer
from tests.server.tokens import SECRET

OPERATIONS = 100


async def test_whatever_is_sent_the_answer_is_one_that_the_contract_knows(
    settings_with: Callable[..., Settings],
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    async with fuzzer(settings_with(jwt_secret=SECRET, introspection=True), seed) as made:
        await made.run(operations=OPERATIONS)
    print(f"seed {seed}: {made.report()}")
    assert not made.findings.problems, f"seed {seed}:\n" + "\n".join(made.findings.problems)
    # It has to get somewhere, or it proves nothing.
    assert made.findings.codes["none"] > OPERATIONS / 10
    assert len(made.findings.codes) > 3

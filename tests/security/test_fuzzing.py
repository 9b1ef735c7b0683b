"""A short run of the fuzzer: no answer is INTERNAL. For a long run: python -m tests.security.fuzzing."""

from __future__ import annotations

import random
from collections.abc import Callable

from server.settings import Settings
from tests.security.fuzzing import fuzzer
from tests.server.tokens import SECRET

OPERATIONS = 100


async def test_random_requests_get_only_answers_of_the_contract(
    settings_with: Callable[..., Settings],
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    async with fuzzer(settings_with(jwt_secret=SECRET, introspection=True), seed) as fuzzer_:
        await fuzzer_.run(operations=OPERATIONS)
    print(f"seed {seed}: {fuzzer_.report()}")
    assert not fuzzer_.findings.problems, f"seed {seed}:\n" + "\n".join(fuzzer_.findings.problems)
    # Some operations must succeed, or the run proves nothing.
    assert fuzzer_.findings.codes["none"] > OPERATIONS / 10
    assert len(fuzzer_.findings.codes) > 3

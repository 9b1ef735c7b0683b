"""Blocks between users whose ids look like something else."""

from __future__ import annotations

import secrets

import pytest

from tests.api.blocks.calls import block, expect_blocked, unblock
from tests.api.client import Api
from tests.user_ids import UNUSUAL_USER_IDS

# Helpers of the tests take ids with these prefixes for conversations.
PREFIXES = [user for user in UNUSUAL_USER_IDS if len(user) < 100 and not user.startswith(("g_", "p_"))]


@pytest.mark.parametrize("prefix", [*PREFIXES, "$b.u", "$$ROOT", "$"])
async def test_users_with_unusual_ids_block_and_are_blocked(api: Api, other_api: Api, prefix: str) -> None:
    (alice,) = await api.create_users("alice")
    unusual = prefix + secrets.token_hex(4)
    await api.send(unusual, alice)
    await api.send(unusual, alice, subBiz="shop")
    for blocker, blocked in ((alice, unusual), (unusual, alice)):
        await block(api, blocker, blocked)
        for process in (api, other_api):
            await expect_blocked(process, blocked, blocker)
            await expect_blocked(process, blocked, blocker, subBiz="shop")
        await other_api.send(blocker, blocked)
        await unblock(api, blocker, blocked)
        await other_api.send(blocked, blocker)

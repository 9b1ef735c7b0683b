"""Every operation answers a blocked user as if the blockers had left, but for BLOCKED on writing privately (ADR 95)."""

from __future__ import annotations

from store.presence.presence_record import DeviceType
from tests.api.blocks.calls import block
from tests.api.conftest import OpenApi, deployments, open_api
from tests.api.devices.calls import Line
from tests.clock import ManualClock
from tests.invariants.invisible.pairs import TwoServers
from tests.invariants.test_invisible_content import answers
from tests.security.sample import create_sample

__all__ = ["deployments", "open_api"]

BLOCKED = "this user has blocked you"


async def test_all_operations_answer_as_if_the_blockers_had_left(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("blocked content", clock) as there, open_api("blocked content", clock) as here:
        servers = TwoServers(there, here, clock)
        samples = [await create_sample(here) for _ in range(2)]
        others = [[user for user in sample.users if user != sample.owner] for sample in samples]
        lines = [[Line(there, user, "phone", DeviceType.MOBILE) for user in users] for users in others]
        await servers.settle()
        for line in lines[0]:
            line.device.end()
        for user in others[1]:
            await block(there, user, samples[1].owner)
        await servers.settle()
        await servers.settle(16)
        departed, hidden = [await answers(here, sample) for sample in samples]
        pairs = zip(departed, hidden, strict=True)
        different = [(one, other) for one, other in pairs if one != other and BLOCKED not in other[1]]
        assert not different, "\n".join(f"{one}\n{other}" for one, other in different)
        refused = [operation for operation, answer in hidden if BLOCKED in answer]
        assert refused and all("sendMessage(input: {toUserId" in operation for operation in refused)

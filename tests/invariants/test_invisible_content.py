"""Every operation answers alike about users who departed and users who became INVISIBLE (ADR 81).

The operations are those of the table of permissions, which has all root fields of the schema: an operation that is new
fails a test there until it is in the table, and is then asked here too.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from store.presence.presence_record import DeviceType
from tests.api.client import Api
from tests.api.conftest import OpenApi, deployments, open_api
from tests.api.devices.calls import Line
from tests.api.presence.calls import PRESENCE, PRESENCES, SET_PRESENCE
from tests.clock import ManualClock
from tests.invariants.invisible.pairs import TwoServers
from tests.security.authorisation import ROOT_FIELDS
from tests.security.rules import OK
from tests.security.sample import AuthorisationSample, create_sample
from tests.security.test_authorisation import variables_for

__all__ = ["deployments", "open_api"]

USER = f"""query ($id: ID!, $group: ID!, $workspace: ID!) {{
    user(id: $id) {{ id displayName avatarUrl isBot metadata presence {{ {PRESENCE} }} }}
    group(id: $group) {{ memberCount members {{ edges {{ node {{ role user {{ id presence {{ status }} }} }} }} }} }}
    workspace(id: $workspace) {{ onlineCount memberCount members(online: true) {{ edges {{ node {{ user {{
        id presence {{ status isMobile lastActiveAt }} }} }} }} }} }} }}"""
ID = re.compile(r"\b(?:[amgwctrdsiknfhx]|b|cr|cat)_[\w.~-]+|\b\d{13,}\b|\b[0-9a-f]{8}\b")
CURSOR = re.compile(r'(?<=ursor":")[^"]+|(?<="code":")[^"]+')
TIME = re.compile(r"(?<=:\d\d)\.\d{3}Z")


@pytest.mark.parametrize("seconds", [0, 5, 16])
async def test_all_operations_answer_alike(open_api: OpenApi, seconds: int) -> None:
    clock, name = ManualClock(), f"content {seconds}"
    async with open_api(name, clock) as there, open_api(name, clock) as here:
        servers = TwoServers(there, here, clock)
        samples = [await create_sample(here) for _ in range(2)]
        others = [[user for user in sample.users if user != sample.owner] for sample in samples]
        lines = [[Line(there, user, "phone", DeviceType.MOBILE) for user in users] for users in others]
        await servers.settle()
        for line in lines[0]:
            line.device.end()
        for user in others[1]:
            await there.data(user, SET_PRESENCE, status="INVISIBLE")
        await servers.settle()
        await servers.settle(seconds)
        departed, invisible = [await answers(here, sample) for sample in samples]
        different = [pair for pair in zip(departed, invisible, strict=True) if pair[0] != pair[1]]
        assert not different, "\n".join(f"departed: {one[:2]}\nINVISIBLE: {other[1:]}" for one, other in different[:6])


async def answers(api: Api, sample: AuthorisationSample) -> list[tuple[str, str]]:
    """Return what the owner is answered to every operation that leaves the group as it is, without ids."""
    owner, found = sample.owner, []
    users = [user for user in sample.users if user != owner]
    calls: list[tuple[str, Any]] = [(PRESENCES, {"users": users})]
    calls += [(USER, {"id": user, "group": sample.group, "workspace": sample.workspace}) for user in users]
    calls += [
        (rule.operation, variables_for(sample, rule))
        for rule in ROOT_FIELDS
        if rule.outcomes["owner"] == OK and not rule.changes_group and not rule.field.startswith("Subscription.")
    ]
    for query, variables in calls:
        response = await api.run(owner, query, **variables)
        found.append((query, without_ids(orjson.dumps(response, option=orjson.OPT_SORT_KEYS).decode())))
        await api.wait_until_idle()
    return found


def without_ids(text: str) -> str:
    """Return a response without ids, cursors, and milliseconds, which are made from ids."""
    for pattern in (CURSOR, TIME, ID):
        text = pattern.sub("*", text)
    return text

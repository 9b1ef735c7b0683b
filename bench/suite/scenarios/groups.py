"""One message to a group, by its size and by whether its members are connected."""

from __future__ import annotations

from bench.suite.figures import Figures, Topic
from bench.suite.queries import CREATE_GROUP, MESSAGE_EVENTS, SEND
from bench.suite.request_rates import STAMP_PLACE
from bench.suite.stage import BASELINE, CONFAB, FLOOR, Contestant, Stage
from bench.suite.turns import Plan, Turns, body

_GROWS_WITH = "members"

TOPICS = (
    Topic("group-online", "One message to a group, all online", _GROWS_WITH, "CPU per delivery; one message at a time"),
    Topic(
        "group-offline",
        "The same, no member active lately",
        _GROWS_WITH,
        "CPU per member; no member's state is in Redis; until all background work is done",
    ),
    Topic(
        "group-left",
        "The same, no member connected",
        _GROWS_WITH,
        "CPU per member; all were active within the day, so Redis has their states",
    ),
)

_SETTLE_SECONDS = 3.0
_OWNER = "everybodysowner"
_TEXT = f"A message for all members, a line of about the usual size, {STAMP_PLACE}"


def _members(size: int) -> list[str]:
    """Return all members but the owner. Groups share no members, so that one measurement does not affect the next."""
    return [f"g{size}x{number:05}" for number in range(size - 1)]


def _owner(size: int) -> str:
    return f"{_OWNER}{size}"


def people(stage: Stage) -> list[str]:
    return [user for size in stage.profile.groups for user in (_owner(size), *_members(size))]


async def run(stage: Stage) -> list[Figures]:
    found: list[Figures] = []
    for size in stage.profile.groups:
        part = [one for one in stage if one.name != BASELINE or size <= stage.profile.baseline_group]
        found += await _run_one(stage, size, part)
    return found


async def _run_one(stage: Stage, size: int, contestants: list[Contestant]) -> list[Figures]:
    turns = Turns(stage)
    plans = [await _plan(stage, contestant, size) for contestant in contestants]
    # The floor stores no states, so it makes no difference which members are connected.
    found = await turns.measure("group-offline", plans, size=size, half=False)
    for plan in plans:
        await _listen(stage, plan, size)
    await stage.learn_idle()
    found += await turns.measure("group-online", plans, size=size)
    for plan in plans:
        await stage.load.ask("close", name=plan.listeners)
        plan.listeners = ""
        await stage.wait_until_idle(plan.contestant, most=_SETTLE_SECONDS)
    await stage.learn_idle()
    lately = [plan for plan in plans if plan.contestant.name == CONFAB]
    return found + await turns.measure("group-left", lately, size=size, half=False)


async def _plan(stage: Stage, contestant: Contestant, size: int) -> Plan:
    made = {"name": "Everybody", "memberIds": _members(size)}
    group = await stage.ask(contestant, _owner(size), CREATE_GROUP, input=made)
    assert group["memberCount"] == size
    name = f"{contestant.name} {_owner(size)}"
    tokens = [contestant.token(_owner(size))]
    await stage.load.ask("connect", name=name, port=contestant.server.port, transport="http", tokens=tokens)
    await stage.wait_until_idle(contestant)
    given = {"conversationId": group["id"], "content": _TEXT}
    later = contestant.name != FLOOR
    return Plan(contestant, name, [[body(SEND, input=given)]], 1, per=size, until_calm=later)


async def _listen(stage: Stage, plan: Plan, size: int) -> None:
    """Connect everybody, the owner too: as many deliveries as members."""
    contestant = plan.contestant
    plan.listeners, plan.deliveries = f"{contestant.name} members of {size}", size
    tokens = [contestant.token(user) for user in (_owner(size), *_members(size))]
    port = contestant.server.port
    await stage.load.ask("listen", name=plan.listeners, port=port, tokens=tokens, subscriptions=[MESSAGE_EVENTS])
    await stage.wait_until_idle(contestant, most=_SETTLE_SECONDS)

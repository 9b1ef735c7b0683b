"""One message to a group, by its size and by whether its members are connected."""

from __future__ import annotations

import asyncio

from bench.peers import ejabberd
from bench.suite.figures import Figures, Topic
from bench.suite.queries import CREATE_GROUP, MESSAGE_EVENTS, SEND
from bench.suite.request_rates import STAMP_PLACE
from bench.suite.stage import CONFAB, FLOOR, Contestant, Stage
from bench.suite.turns import Plan, Turns, body

_GROWS_WITH = "members"
BURST = 20

TOPICS = (
    Topic(
        "group-rest",
        "Delivery in a group, all online, at rest",
        _GROWS_WITH,
        "CPU per delivery; one message at a time, the next one when all members have it",
    ),
    Topic(
        "group-burst",
        "Delivery in a group, all online, in a burst",
        _GROWS_WITH,
        f"{BURST} messages of one sender, each as soon as the last one is answered",
    ),
    Topic(
        "group-offline",
        "Message to a group, no member active lately",
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
_TEXT = f"A message for all members, a line of about the usual size, {STAMP_PLACE}"


def members(size: int) -> list[str]:
    """Return all members, the owner first. Groups share no members: one measurement does not affect the next."""
    return [f"g{size}x{number:05}" for number in range(size)]


def _room(size: int) -> str:
    return f"all{size}"


def people(stage: Stage) -> list[str]:
    return [user for size in stage.profile.groups for user in members(size)]


async def run(stage: Stage) -> list[Figures]:
    found: list[Figures] = []
    for size in stage.profile.groups:
        found += await _run_one(stage, size)
    return found


async def _run_one(stage: Stage, size: int) -> list[Figures]:
    turns = Turns(stage)
    plans = [await plan_group(stage, contestant, size) for contestant in stage]
    # The floor stores no states, so it makes no difference which members are connected. A room has only those who are.
    stored = [plan for plan in plans if plan.contestant.ejabberd is None]
    found = await turns.measure("group-offline", stored, size=size, half=False)
    for plan in plans:
        await listen(stage, plan, size)
    await stage.learn_idle()
    found += await turns.at_rest("group-rest", plans, size=size)
    found += await turns.bursts("group-burst", plans, BURST, size=size)
    for plan in plans:
        await stage.load.ask("close", name=plan.listeners)
        plan.listeners = ""
        await stage.wait_until_idle(plan.contestant, most=_SETTLE_SECONDS)
    await stage.learn_idle()
    lately = [plan for plan in plans if plan.contestant.name == CONFAB]
    return found + await turns.measure("group-left", lately, size=size, half=False)


async def plan_group(stage: Stage, contestant: Contestant, size: int) -> Plan:
    """Create a group, and connect its owner, who sends to it."""
    everybody = members(size)
    name = f"{contestant.name} sender to {size}"
    tokens = [contestant.token(everybody[0])]
    if contestant.ejabberd is not None:
        await stage.connect(contestant, name, tokens, room=_room(size))
        return Plan(contestant, name, [[ejabberd.group_message(_room(size), _TEXT)]], 1, per=size)
    made = {"name": "Everybody", "memberIds": everybody[1:]}
    group = await stage.ask(contestant, everybody[0], CREATE_GROUP, input=made)
    assert group["memberCount"] == size
    await stage.connect(contestant, name, tokens)
    await asyncio.sleep(_SETTLE_SECONDS)
    await stage.wait_until_idle(contestant)
    asked = [body(SEND, input={"conversationId": group["id"], "content": _TEXT})]
    later = contestant.name != FLOOR
    return Plan(contestant, name, [asked], 1, per=size, until_calm=later, rows=1)


async def listen(stage: Stage, plan: Plan, size: int) -> None:
    """Connect everybody, the sender too: as many deliveries as members. In XMPP the sender's connection gets one."""
    contestant = plan.contestant
    listening = members(size) if contestant.ejabberd is None else members(size)[1:]
    plan.listeners, plan.deliveries = f"{contestant.name} members of {size}", len(listening)
    tokens = [contestant.token(user) for user in listening]
    await stage.listen(contestant, plan.listeners, tokens, [MESSAGE_EVENTS], room=_room(size))
    await stage.wait_until_idle(contestant, most=_SETTLE_SECONDS)

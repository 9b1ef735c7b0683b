"""A small demo in an empty database, so that the first query of a newcomer shows something."""

from __future__ import annotations

import math

from resolvers.app import Confab
from resolvers.callers import Caller, CallerRole
from resolvers.groups import NewGroup, create_group
from resolvers.messages import NewMessage, send_message
from resolvers.users import upsert_users
from server.services import open_services
from server.settings import Settings
from store.ids import UserId
from store.imports import ImportStore
from store.records import User

ALICE, BOB, CAROL = UserId("alice"), UserId("bob"), UserId("carol")

DEMO_PEOPLE = (
    User(ALICE, "Alice Archer", None, False),
    User(BOB, "Bob Baker", None, False),
    User(CAROL, "Carol Cook", None, False),
)
_GROUP_NAME = "Weekend hike"
_IN_GROUP = (
    (ALICE, "Morning, you two! Saturday looks dry. The ridge or the lake?", ()),
    (CAROL, "The lake, please. My knees still remember the ridge.", ()),
    (BOB, "Lake it is. I bring the stove and the coffee.", ()),
    (ALICE, "Bob, you are my favourite person.", (BOB,)),
    (CAROL, "Train at 8:12 from platform 3, then an hour on foot. Who has the map?", ()),
    (BOB, "Me. And dry socks for whoever falls in this time.", ()),
)
_IN_PRIVATE = (
    (BOB, ALICE, "Psst: it is Carol's birthday on Saturday."),
    (ALICE, BOB, "I know! I am baking tonight. Can you carry candles without breaking them?"),
    (BOB, ALICE, "I can try. 🎂"),
)


async def seed_demo(settings: Settings) -> bool:
    """Makes alice, bob and carol, a group of theirs and a private conversation, if there are no users at all.

    Answers whether it did. Once the demo is complete it is never made again; where it was stopped half way, the next call
    within a day completes it. Raises StoreError.
    """
    async with open_services(settings) as services:
        imports = ImportStore(services.app.store.mongo)
        wanted = await imports.begin_demo()
        if wanted:
            await _fill(services.app)
            await imports.end_demo()
        return wanted


async def _fill(app: Confab) -> None:
    await upsert_users(app, Caller(ALICE, CallerRole.SERVICE, math.inf), DEMO_PEOPLE)
    new = NewGroup(_GROUP_NAME, None, (BOB, CAROL), full_history=False, key="demo")
    group = (await create_group(app, ALICE, new)).head.conversation
    for number, (sender, text, mentions) in enumerate(_IN_GROUP):
        await send_message(app, sender, NewMessage(None, group, text, mentions=mentions, key=f"demo group {number}"))
    for number, (sender, peer, text) in enumerate(_IN_PRIVATE):
        await send_message(app, sender, NewMessage(peer, None, text, key=f"demo private {number}"))

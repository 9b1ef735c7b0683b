"""Content of the demo's workspace: members, roles, channels, and what is written in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from server.demo.world import ALICE, BOB, BOT, CAROL, DEMO_PEOPLE, Dialogue
from store.base.ids import UserId
from store.workspaces.permissions import Permission
from store.workspaces.policy import ChannelKind

WORKSPACE, DOMAIN, OWNER = "Lakeside Hikers", "lakeside", ALICE
MEMBERS = (*(user.id for user in DEMO_PEOPLE if user.id != OWNER), BOT)
TRIPS = "Trips"
"""The category of channels."""

GENERAL, LAKE, PLANNING, OLD_ROUTES = "#general", "#lake", "#planning", "#old-routes"
CAMPFIRE, SUMMIT = "#Campfire", "#Summit"
"""Voice channels."""


@dataclass(frozen=True, slots=True)
class DemoRole:
    """A role and its members."""

    name: str
    color: str
    permissions: Permission
    members: tuple[UserId, ...]


ROLES = (
    DemoRole("Guide", "#2e7d32", Permission.MANAGE_MESSAGES | Permission.MENTION_EVERYONE, (BOB, CAROL)),
    DemoRole("Organiser", "#1565c0", Permission.ADMINISTRATOR, (CAROL,)),
)
"""Lowest first."""


@dataclass(frozen=True, slots=True)
class DemoChannel:
    """A channel. Its name has no `#`. An archived one is archived after all messages were sent."""

    where: str
    topic: str
    kind: ChannelKind = ChannelKind.PUBLIC
    category: str | None = None
    members: tuple[UserId, ...] = ()
    is_default: bool = False
    is_archived: bool = False

    @property
    def name(self) -> str:
        """The name."""
        return self.where.removeprefix("#")


CHANNELS = (
    DemoChannel(GENERAL, "Everything about hiking. Be kind, and bring snacks.", is_default=True),
    DemoChannel(LAKE, "The way round the lake, all fourteen kilometres of it", category=TRIPS),
    DemoChannel(PLANNING, "For guides", ChannelKind.PRIVATE, TRIPS, members=(BOB, CAROL)),
    DemoChannel(OLD_ROUTES, "Routes that are closed", is_archived=True),
    DemoChannel(CAMPFIRE, "Sit down and talk", ChannelKind.VOICE),
    DemoChannel(SUMMIT, "For the last metres", ChannelKind.VOICE),
)

STATION, STATION_REPORT = "Lake Station", "Conditions at the lake"
"""An incoming webhook, and what it reports."""

STATION_VALUES = (
    ("Water", "17 °C", True),
    ("Wind", "2 from the west", True),
    ("Path", "open all the way round", False),
)

TRAIN = "The 8:12 from platform 3, on Saturday."
BOOTS = "Whose red boots are these, in front of the station?"
"""Messages with threads."""

BOAT_SPAM = "Motor boats at half price! Every lake needs one. Call before Sunday."
BAN_REASON = "Advertising, after a warning"
LOTTERY_SPAM = "Congratulations! You have won a mountain. Send your bank details to collect it today."
SPAM_NOTE = "I got the same message privately."
OUTDATED_NOTE = "This train has been cancelled. Please pin the new time."

CHANNEL_STEPS: Mapping[int, tuple[Dialogue, ...]] = {
    0: (
        Dialogue(
            OLD_ROUTES,
            """
dave: The ridge is closed: the bridge is gone.
carol: Then we need another way. I archive this channel when we have one.
""",
        ),
    ),
    1: (
        Dialogue(
            GENERAL,
            """
alice: Welcome, hikers! The lake has a channel, photos go here. =p
dave: I took the train to the wrong lake once. It was lovely.
erin: >Which one?
dave: I still do not know.
""",
        ),
        Dialogue(
            PLANNING,
            """
carol: Only guides see this channel. Who takes the front?
bob: Me. I have the map.
carol: Then I take the back, and the plasters.
""",
        ),
    ),
    3: (
        Dialogue(
            LAKE,
            """
bob: @all The 8:12 from platform 3, on Saturday. =p
dave: I'll be on platform 2, out of habit.
alice: /forecast saturday lake
trailbot: >Saturday at the lake: dry until four, 19 degrees, light wind from the west.
erin: @alice Are you bringing the sandwiches?
""",
        ),
        Dialogue(
            LAKE,
            """
dave: Platform 3. I am writing it on my hand.
alice: >Which hand? You lost a glove last time.
dave: The left one. It is still here.
""",
            under=TRAIN,
        ),
    ),
    4: (
        Dialogue(
            LAKE,
            """
bob: The railway says it leaves at 8:20 now.
carol: Then I sleep until 8:05.
""",
            under=TRAIN,
        ),
    ),
    5: (
        Dialogue(
            GENERAL,
            """
erin: Whose red boots are these, in front of the station?
carol: Mine. They have character.
""",
        ),
        Dialogue(
            GENERAL,
            """
alice: I saw them walk past the bakery on Thursday.
carol: They go where they want.
erin: @alice Did they buy anything?
""",
            under=BOOTS,
        ),
    ),
}
"""Steps by the number of the moment in `MOMENTS`."""

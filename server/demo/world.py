"""Content of the demo: people, groups, and their conversations over three days."""

from __future__ import annotations

from dataclasses import dataclass

from store.base.ids import UserId
from store.users.user import User

ALICE, BOB, CAROL, DAVE, ERIN = (UserId(name) for name in ("alice", "bob", "carol", "dave", "erin"))
BOT, BAKERY, CYCLES = UserId("trailbot"), UserId("bakery"), UserId("cycles")
BOATS, LOTTERY = UserId("boats"), UserId("lottery")
"""Strangers who advertise in the workspace."""

DEMO_PEOPLE = (
    User(ALICE, "Alice Archer", None, False),
    User(BOB, "Bob Baker", None, False),
    User(CAROL, "Carol Cook", None, False),
    User(DAVE, "Dave Dyer", None, False),
    User(ERIN, "Erin Archer", None, False),
)
"""Users that people can sign in as."""

OTHERS = (
    User(BOT, "Trail Bot", None, True),
    User(BAKERY, "Corner Bakery", None, False),
    User(CYCLES, "Cycle Repair", None, False),
    User(BOATS, "Boat Bargains", None, False),
    User(LOTTERY, "Lucky Lottery", None, False),
)

BOOKS, HIKE, OFFICE = "Book club", "Weekend hike", "Office"
SHOP = "shop"


@dataclass(frozen=True, slots=True)
class DemoGroup:
    """A group. `later` joins after the first day, and sees the earlier messages only with `full_history`."""

    name: str
    owner: UserId
    members: tuple[UserId, ...]
    full_history: bool = False
    admin: UserId | None = None
    later: UserId | None = None


GROUPS = (
    DemoGroup(HIKE, ALICE, (BOB, CAROL)),
    DemoGroup(BOOKS, CAROL, (ALICE, DAVE), full_history=True, admin=ALICE, later=ERIN),
    DemoGroup(OFFICE, DAVE, (ALICE, BOB, ERIN)),
)


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Lines of one conversation in order, each `<user>: <text>`.

    `where` is a group, a channel with `#`, or the two users of a private conversation.

    Before the text, `@<user> ` mentions a user, `@all ` everybody, `>` replies to the previous line, and `/` marks a
    bot command. After the text, ` => <text>` edits the message, ` =x` recalls it as the group's owner, and ` =p` pins
    it as Alice.
    """

    where: str
    lines: str
    sub_biz: str | None = None
    under: str | None = None
    """The lines are replies in the thread of the message with this text."""


@dataclass(frozen=True, slots=True)
class ReadUpTo:
    """A user has read, or with `received` only received, all but the last `short_of` messages."""

    user: UserId
    where: str
    short_of: int = 0
    received: bool = False
    sub_biz: str | None = None


WITH_BOB, WITH_CAROL, WITH_DAVE, WITH_ERIN = "alice bob", "alice carol", "alice dave", "alice erin"
WITH_BOT, WITH_BAKERY, WITH_CYCLES = "alice trailbot", "alice bakery", "alice cycles"

MOMENTS: tuple[tuple[int, tuple[Dialogue | ReadUpTo, ...]], ...] = (
    (
        3 * 24 * 60,
        (
            Dialogue(
                WITH_BOB,
                """
bob: Are you awake?
alice: It is ten in the morning, Bob.
bob: That is not an answer.
alice: Yes. Coffee number two.
bob: Good. I have found a map.
alice: What kind of map?
bob: Paper. From the shelf in the hall, behind the skis.
alice: Does it show our lake?
bob: It shows a lake. Ours has moved, or the map is upside down.
alice: Turn it round.
bob: Now it is ours.
alice: You are the navigator then.
bob: I accept. What does a navigator bring?
alice: The map. And modesty.
bob: I have a map.
alice: How long is the way round?
bob: Eleven kilometres, says the map. It was printed in 1974.
alice: Lakes do not grow.
bob: This one might. They built a dam in 1981.
alice: Then we need a newer map.
bob: I'll ask at the library.
""",
            ),
            Dialogue(
                BOOKS,
                """
carol: Welcome to the book club! One book a month, cake at every meeting. =p
dave: What is the first book?
carol: Something short. We start with novellas and see who stays.
alice: I stay for the cake.
dave: I am here for the cake too, but I can read.
""",
            ),
            Dialogue(
                WITH_DAVE,
                """
dave: The offer for the new client goes out on Monday.
alice: I have the numbers. Do you want them today?
dave: Tomorrow is early enough.
""",
            ),
            Dialogue(WITH_BAKERY, "alice: Hello! Can I order a cake for Saturday?", SHOP),
        ),
    ),
    (
        2 * 24 * 60 + 190,
        (
            Dialogue(
                WITH_BOB,
                """
bob: The library has a map of 2019.
alice: And?
bob: Fourteen kilometres. The lake has grown.
alice: Fourteen is fine if we start early.
bob: How early is early?
alice: The 8:12.
bob: In the morning?
alice: Bob.
bob: I am only asking for the minutes.
alice: Platform 3. =p
bob: I'll set three alarms.
alice: Set four.
bob: What do we eat?
alice: I make sandwiches. Cheese, or cheese and pickle?
bob: Pickle and cheese.
alice: That is the same.
bob: Not in that order.
alice: Noted, pickle first.
bob: I bring the stove and the coffee.
alice: And a lighter.
bob: And a lighter.
alice: You forgot it last time.
bob: Last time I was not the navigator.
alice: What about rain?
bob: The app says dry, the knee of my neighbour says rain.
alice: Whom do you believe?
bob: The knee. It has been right since 1998.
alice: Then rain jackets.
""",
            ),
            Dialogue(
                BOOKS,
                """
erin: Hello, may I come in? Alice said that there is cake.
carol: There is. What was said before you joined is above: this group shows its whole history.
""",
            ),
            Dialogue(
                WITH_DAVE,
                """
alice: Here are the numbers: **24 seats**, **3 years**, _5 % off_.
dave: 5 % is generous.
alice: They asked for 10.
dave: Then it is perfect.
""",
            ),
            Dialogue(
                WITH_BAKERY,
                "bakery: With pleasure. Chocolate, lemon or carrot?\nalice: Lemon, for twelve people.",
                SHOP,
            ),
            Dialogue(WITH_CYCLES, "alice: My rear brake squeaks. Do you have time this week?", SHOP),
        ),
    ),
    (
        26 * 60,
        (
            Dialogue(
                WITH_BOB,
                """
bob: I bought a compass.
alice: We have phones.
bob: Phones have batteries.
alice: So has your head torch.
bob: That is why I also bought batteries.
alice: How heavy is your backpack by now?
bob: I have not dared to weigh it.
alice: Leave the cast iron pan at home.
bob: Who told you about the pan?
alice: You did, just now.
bob: Well played.
alice: Is your sister coming along?
bob: She has a wedding. Not her own.
alice: A pity. More pickle for us.
bob: Carol asked whether her boots will do.
alice: The red ones?
bob: The red ones.
alice: They are older than the map.
bob: Which one?
alice: Both.
bob: I'll tell her that they have character.
alice: Bring tape.
bob: Tape is on the list. The list is on the fridge.
alice: Send me a photo of the list.
bob: It says: map, compass, stove, coffee, lighter (!), tape, socks, socks, socks. =p
alice: You are ready.
""",
            ),
            Dialogue(
                HIKE,
                """
alice: Morning, you two! Saturday looks dry. The ridge or the lake?
carol: The lake, please. My knees still remember the ridge.
bob: Lake it is. I bring the stove and the coffee.
alice: @bob Bob, you are my favourite person.
carol: Train at 8:12 from platform 2, then an hour on foot. \
=> Train at 8:12 from platform 3, then an hour on foot. Who has the map? =p
bob: >Me. And dry socks for whoever falls in this time.
""",
            ),
            Dialogue(
                OFFICE,
                """
dave: @all The kitchen is closed tomorrow: they bring the new coffee machine.
erin: Finally.
bob: I have a stove, if anybody is desperate.
alice: He means it.
""",
            ),
            Dialogue(
                WITH_ERIN,
                """
erin: Mum asks whether you come on Sunday.
alice: Yes! What shall I bring?
erin: Yourself. And the photo album, if you find it.
""",
            ),
            Dialogue(
                WITH_BOT,
                "alice: /forecast saturday lake\n"
                "trailbot: >Saturday at the lake: dry until four, 19 degrees, light wind from the west.",
            ),
            Dialogue(
                WITH_CYCLES,
                "cycles: Bring it on Thursday before noon.\n"
                "alice: Thursday it is.\n"
                "cycles: It is done: new pads, 18.50.",
                SHOP,
            ),
        ),
    ),
    (
        95,
        (
            Dialogue(
                WITH_CAROL,
                """
carol: Do you think that my boots will do?
alice: They have character.
carol: That is what Bob said.
alice: Then it is true.
""",
            ),
            ReadUpTo(CAROL, WITH_CAROL),
            Dialogue(WITH_CAROL, "alice: We bring tape, in case the character comes off."),
            ReadUpTo(CAROL, WITH_CAROL, received=True),
            Dialogue(WITH_CAROL, "alice: And a spare pair of socks."),
            Dialogue(
                BOOKS,
                """
carol: The book of the month is out: 112 pages about a lighthouse.
dave: Is there cake in it?
erin: On page 40. I looked.
dave: Forget what I said about page 39 =x
""",
            ),
            Dialogue(WITH_DAVE, "dave: The client has signed. Thank you for the numbers!"),
            ReadUpTo(ALICE, WITH_DAVE),
            ReadUpTo(ALICE, WITH_BOT),
            ReadUpTo(ALICE, WITH_ERIN),
            Dialogue(WITH_BAKERY, "bakery: Your lemon cake is ready on Saturday from 7:30.", SHOP),
        ),
    ),
    (
        40,
        (
            Dialogue(
                WITH_BOB,
                """
bob: Psst: it is Carol's birthday on Saturday.
alice: I know! The bakery makes a lemon cake. Can you carry candles without breaking them?
bob: >I can try. 🎂
alice: Wrap them into the socks.
bob: Genius.
""",
            ),
            Dialogue(
                HIKE,
                """
alice: I have the sandwiches. Pickle first, as ordered.
bob: Four alarms are set.
carol: What are you two up to? You are so quiet.
""",
            ),
            Dialogue(
                HIKE,
                """
bob: How many sandwiches?
alice: Eleven.
carol: For three people. I like you.
alice: One is for the ducks.
""",
                under="I have the sandwiches. Pickle first, as ordered.",
            ),
            Dialogue(OFFICE, "dave: The new coffee machine speaks Italian only.\nerin: So does my heart."),
        ),
    ),
    (
        6,
        (
            Dialogue(
                WITH_BOB,
                """
bob: I have weighed the backpack.
bob: We do not talk about it.
""",
            ),
            Dialogue(
                HIKE,
                """
carol: @alice Alice, do you have room for my camera?
bob: Mine is full. Very full.
""",
            ),
            Dialogue(OFFICE, "bob: @alice Could you have a look at the Italian manual?"),
            Dialogue(
                "bob carol",
                "carol: What is Alice hiding?\n"
                "bob: Me? Nothing. Alice? Nothing.\n"
                "carol: You are both terrible at this.",
            ),
            Dialogue("bob dave", "dave: Are you in the office tomorrow?"),
            Dialogue("carol erin", "erin: Which page are you on?\ncarol: 41. I went straight past the cake."),
        ),
    ),
)
"""Pairs of minutes before the present, and the steps at that time.

Steps run in order within a conversation, and concurrently in different conversations.
"""

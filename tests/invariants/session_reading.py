"""What a person can read of a conversation, by every way there is, held against the model: I6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.invariants.room_model import Json, Room
from tests.invariants.session_model import SessionModel
from tests.invariants.session_world import GROUP, World

MESSAGE = """id seq conversationId contentType content state mentionsAll sender { id } mentions { id }
    replyTo { seq content contentType }"""
LOOK = f"""query ($id: ID!, $one: ID!, $other: ID!) {{
    conversation(id: $id) {{ id lastMessage {{ seq }} session {{ id status }} ... on Group {{ {GROUP} }} }}
    node(id: $id) {{ id ... on Group {{ {GROUP} }} }}
    group(id: $id) {{ id {GROUP} }}
    session(conversationId: $id) {{ conversation {{ id ... on Group {{ {GROUP} }} }} }}
    messages(conversationId: $id, last: 100) {{ edges {{ node {{ {MESSAGE} }} }} }}
    one: message(id: $one) {{ {MESSAGE} }}
    other: message(id: $other) {{ {MESSAGE} }}
    same: node(id: $other) {{ ... on Message {{ {MESSAGE} }} }} }}"""
PAGE = f"""query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {{
    messages(conversationId: $id, first: $first, after: $after, last: $last, before: $before) {{
        pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} edges {{ node {{ {MESSAGE} }} }} }} }}"""
MINE = "query { myGroups(first: 100) { edges { node { id } } } }"


class Reading:
    """What is read through the processes of a world, which learns the messages' ids on the way."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def look(self, model: SessionModel, user: str, name: str, process: int, which: int = 0) -> None:
        """At everything that one query can tell. which: picks two messages to ask for by their ids."""
        room = model.rooms[name]
        known = [seq for where, seq in self._world.ids if where == name]
        pair = [known[(which * step) % len(known)] if known else 0 for step in (1, 7)]
        one, other = (self._world.ids.get((name, seq), "m_1") for seq in pair)
        seen = await self._world.apis[process].data(user, LOOK, id=name, one=one, other=other)
        where = f"{user} in {name}"
        if room.knows(user):
            assert seen["conversation"]["session"]["status"] == model.session(user, name)["status"], where
            last = {"seq": room.newest(user)} if room.newest(user) else None
            assert seen["conversation"]["lastMessage"] == last, f"{where} {seen['conversation']}"
            self._check_messages(room, user, name, _nodes(seen["messages"]))
        else:
            assert (seen["conversation"], seen["node"], seen["messages"]) == (None, None, None), where
        for field, seq in (("one", pair[0]), ("other", pair[1]), ("same", pair[1])):
            expected = room.shown(user, room.said[seq - 1]) if room.may_read(user, seq) else None
            got = plain(seen[field]) if seen[field] else None
            assert got == expected, f"{where} {field} {seq}: expected {expected}, got {got}"
        if name.startswith("g_"):
            told = room.told(user) if room.knows(user) else None
            for field in ("conversation", "node", "group"):
                got = told_of(seen[field]) if seen[field] else None
                assert got == told, f"{where} {field}: expected {told}, got {got}"
        if (user, name) not in model.kept:
            assert seen["session"] is None, where
        elif name.startswith("g_"):
            got = told_of(seen["session"]["conversation"])
            assert got == room.told(user), f"{where} session.conversation: expected {room.told(user)}, got {got}"

    async def those_that_fit(
        self, models: Sequence[SessionModel], places: Iterable[tuple[str, str]], process: int
    ) -> list[SessionModel]:
        """The models that say of places, users and conversations, what those users read there."""
        fitting = list(models)
        for user, name in places:
            listed = (await self._world.apis[process].data(user, PAGE, id=name, last=100))["messages"]
            got = [plain(node) for node in _nodes(listed)] if listed else None
            left = [model for model in fitting if _readable(model, user, name) == got]
            assert left, f"{user} in {name}: {got} is none of {[_readable(model, user, name) for model in fitting]}"
            fitting = left
        return fitting

    async def page(self, model: SessionModel, user: str, name: str, process: int, size: int) -> None:
        """Through the whole history in pages, both ways."""
        room = model.rooms[name]
        for way in ("first", "last"):
            found: list[Json] = []
            cursor, more = None, True
            while more:
                asked = {way: size, ("after" if way == "first" else "before"): cursor}
                listed = (await self._world.apis[process].data(user, PAGE, id=name, **asked))["messages"]
                if listed is None:
                    assert not room.knows(user), f"{user} can't read {name}"
                    break
                nodes, about = _nodes(listed), listed["pageInfo"]
                more = about["hasNextPage" if way == "first" else "hasPreviousPage"]
                assert len(nodes) == size or not more, f"{user} in {name}: {len(nodes)} in a page of {size}"
                found = found + nodes if way == "first" else nodes + found
                cursor = about["endCursor" if way == "first" else "startCursor"]
            if room.knows(user):
                self._check_messages(room, user, name, found)

    async def check_groups(self, model: SessionModel, user: str, process: int) -> None:
        """myGroups are those that somebody is in."""
        edges = (await self._world.apis[process].data(user, MINE))["myGroups"]["edges"]
        mine = sorted(name for name, room in model.rooms.items() if name[:2] == "g_" and user in room.members)
        assert sorted(edge["node"]["id"] for edge in edges) == mine

    def _check_messages(self, room: Room, user: str, name: str, nodes: list[Json]) -> None:
        expected = [room.shown(user, said) for said in room.readable(user)]
        got = [plain(node) for node in nodes]
        assert got == expected, f"{user} in {name}: expected {expected}, got {got}"
        for node in nodes:
            assert node["conversationId"] == name
            assert self._world.ids.setdefault((name, node["seq"]), node["id"]) == node["id"], (
                f"{name} {node['seq']}: another id"
            )


def _readable(model: SessionModel, user: str, name: str) -> list[Json] | None:
    room = model.rooms.get(name)
    return [room.shown(user, said) for said in room.readable(user)] if room and room.knows(user) else None


def _nodes(connection: Json) -> list[Json]:
    return [edge["node"] for edge in connection["edges"]]


def plain(message: Json) -> Json:
    """A message as the model has it."""
    plain = {name: value for name, value in message.items() if name not in ("id", "conversationId")}
    if plain["contentType"] == "SYSTEM":
        # Its words are for people to read.
        assert plain["content"], message
        plain["content"] = None
    if plain["replyTo"]:
        kind = plain["replyTo"]["contentType"]
        plain["replyTo"] = {
            "seq": plain["replyTo"]["seq"],
            "content": None if kind == "SYSTEM" else plain["replyTo"]["content"],
        }
    return plain | {
        "sender": message["sender"]["id"],
        "mentions": sorted(user["id"] for user in message["mentions"]),
    }


def told_of(group: Json) -> Json:
    """A group as the model has it."""
    members, last = group["members"], group["lastMessage"]
    return {name: value for name, value in group.items() if name not in ("id", "session")} | {
        "owner": group["owner"]["id"],
        "lastMessage": last["seq"] if last else None,
        "members": {node["user"]["id"]: node["role"] for node in _nodes(members)} if members else None,
    }

"""What a person can read of a conversation, by every way there is, held against the model: I6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.invariants import message_model
from tests.invariants.room_model import Json
from tests.invariants.session_model import SessionModel
from tests.invariants.session_world import GROUP, World

MESSAGE = """id seq conversationId contentType content state mentionsAll sender { id } mentions { id } editCount editedAt recalledAt
    delivery { status recipientCount deliveredCount readCount }
    replyTo { seq content contentType }"""
RECEIPTS = "receipts(first: 100) { edges { node { user { id } status deliveredAt readAt } } }"
LOOK = f"""query ($id: ID!, $one: ID!, $other: ID!) {{
    conversation(id: $id) {{ id lastMessage {{ seq }} session {{ id status }} ... on Group {{ {GROUP} }} }}
    node(id: $id) {{ id ... on Group {{ {GROUP} }} }}
    group(id: $id) {{ id {GROUP} }}
    session(conversationId: $id) {{ conversation {{ id ... on Group {{ {GROUP} }} }} }}
    messages(conversationId: $id, last: 100) {{ edges {{ node {{ {MESSAGE} }} }} }}
    one: message(id: $one) {{ {MESSAGE} {RECEIPTS} }}
    other: message(id: $other) {{ {MESSAGE} read: receipts(first: 1, status: READ) {{ edges {{ node {{ status }} }} }} }}
    same: node(id: $other) {{ ... on Message {{ {MESSAGE} }} }} }}"""
PAGE = f"""query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {{
    messages(conversationId: $id, first: $first, after: $after, last: $last, before: $before) {{
        pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} edges {{ node {{ {MESSAGE} }} }} }} }}"""
OFFLINE = f"""query ($first: Int, $after: String) {{ offlineMessages(first: $first, after: $after) {{
    pageInfo {{ hasNextPage endCursor }} edges {{ node {{ {MESSAGE} }} }} }} }}"""
MINE = "query { myGroups(first: 100) { edges { node { id } } } }"


class Reading:
    """What is read through the processes of a world, which learns the messages' ids on the way."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._times: dict[tuple[str, int, str, str], str] = {}

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
            self._check_messages(model, user, name, _nodes(seen["messages"]))
        else:
            assert (seen["conversation"], seen["node"], seen["messages"]) == (None, None, None), where
        for field, seq in (("one", pair[0]), ("other", pair[1]), ("same", pair[1])):
            expected = model.shown(user, name, room.said[seq - 1]) if room.may_read(user, seq) else None
            got = plain(seen[field]) if seen[field] else None
            if got and field != "same":
                self._check_receipts(model, user, name, seq, got.pop("receipts", None), got.pop("read", None))
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
            left = [model for model in fitting if model.readable(user, name) == got]
            assert left, f"{user} in {name}: {got} is none of {[model.readable(user, name) for model in fitting]}"
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
                self._check_messages(model, user, name, found)

    async def check_groups(self, model: SessionModel, user: str, process: int) -> None:
        """myGroups are those that somebody is in."""
        edges = (await self._world.apis[process].data(user, MINE))["myGroups"]["edges"]
        mine = sorted(name for name, room in model.rooms.items() if name[:2] == "g_" and user in room.members)
        assert sorted(edge["node"]["id"] for edge in edges) == mine

    async def check_offline(self, model: SessionModel, user: str, process: int, size: int = 100) -> None:
        """The offline queue, in pages."""
        expected = message_model.offline(model, user)
        found: list[Json] = []
        after, more = None, True
        while more:
            listed = (await self._world.apis[process].data(user, OFFLINE, first=size, after=after))["offlineMessages"]
            found += _nodes(listed)
            after, more = listed["pageInfo"]["endCursor"], listed["pageInfo"]["hasNextPage"]
        got = [(node["conversationId"], node["seq"]) for node in found]
        assert len(got) == len(expected) and set(got) == expected, f"{user} offline: expected {expected}, got {got}"
        ids = [int(node["id"][2:]) for node in found]
        assert ids == sorted(ids, reverse=True), f"{user} offline: {got} is not newest first"
        for node in found:
            name, said = node["conversationId"], model.rooms[node["conversationId"]].said[node["seq"] - 1]
            assert plain(node) == model.shown(user, name, said), f"{user} offline: {node}"

    def _check_receipts(
        self, model: SessionModel, user: str, name: str, seq: int, listed: Json | None, read: Json | None
    ) -> None:
        """Every recipient's receipt, to the sender alone; what was acknowledged once stays so, at its time."""
        said = model.rooms[name].said[seq - 1]
        expected = message_model.receipts(model, name, said)
        if said.system or said.sender != user:
            assert listed is None and read is None, f"{user} sees receipts of {name} {seq}"
            return
        if read is not None:
            assert bool(_nodes(read)) == ("READ" in expected.values()), f"{user} {name} {seq}: {read}, not {expected}"
        if listed is None:
            return
        got = {node["user"]["id"]: node for node in _nodes(listed)}
        assert list(got) == list(expected), f"{user} {name} {seq}: receipts of {list(got)}, not {list(expected)}"
        for whom, receipt in got.items():
            status, times = expected[whom], (receipt["deliveredAt"], receipt["readAt"])
            assert receipt["status"] == status, f"{user} {name} {seq}: {whom} {status}, got {receipt}"
            assert [time is not None for time in times] == [status != "SENT", status == "READ"], receipt
            for field, time in zip(("deliveredAt", "readAt"), times, strict=True):
                before = self._times.setdefault((name, seq, whom, field), time) if time else None
                assert before == time, f"{name} {seq} {whom} {field}: {before} became {time}"

    def _check_messages(self, model: SessionModel, user: str, name: str, nodes: list[Json]) -> None:
        expected = model.readable(user, name)
        got = [plain(node) for node in nodes]
        assert got == expected, f"{user} in {name}: expected {expected}, got {got}"
        for node in nodes:
            assert node["conversationId"] == name
            assert self._world.ids.setdefault((name, node["seq"]), node["id"]) == node["id"], (
                f"{name} {node['seq']}: another id"
            )


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
        "editedAt": message["editedAt"] is not None,
        "recalledAt": message["recalledAt"] is not None,
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

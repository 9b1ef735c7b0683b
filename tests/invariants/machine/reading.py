"""Compares everything that a user can read of a conversation, in every way, with the model: I6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.invariants.machine.deployment import GROUP, ClockedDeployment
from tests.invariants.model import messages
from tests.invariants.model.conversation import Json
from tests.invariants.model.sessions import SessionModel

MESSAGE = """id seq conversationId contentType content state mentionsAll sender { id } mentions { id } editCount
    editedAt recalledAt recalledBy { id } systemEvent { kind actor { id } targets { id } text }
    delivery { status recipientCount deliveredCount readCount }
    replyTo { seq content contentType }
    reactions { emoji count viewerReacted users { id } } isPinned"""
RECEIPTS = "receipts(first: 100) { edges { node { user { id } status deliveredAt readAt } } }"
LOOK = f"""query ($id: ID!, $one: ID!, $other: ID!) {{
    conversation(id: $id) {{ id lastMessage {{ seq }} session {{ id status }} ... on Group {{ {GROUP} }} }}
    node(id: $id) {{ id ... on Group {{ {GROUP} }} }}
    group(id: $id) {{ id {GROUP} }}
    session(conversationId: $id) {{ conversation {{ id ... on Group {{ {GROUP} }} }} }}
    messages(conversationId: $id, last: 100) {{ edges {{ node {{ {MESSAGE} }} }} }}
    one: message(id: $one) {{ {MESSAGE} {RECEIPTS} }}
    other: message(id: $other) {{ {MESSAGE}
        read: receipts(first: 1, status: READ) {{ edges {{ node {{ status }} }} }} }}
    same: node(id: $other) {{ ... on Message {{ {MESSAGE} }} }} }}"""
PAGE = f"""query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {{
    messages(conversationId: $id, first: $first, after: $after, last: $last, before: $before) {{
        pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }} edges {{ node {{ {MESSAGE} }} }} }} }}"""
OFFLINE = f"""query ($first: Int, $after: String) {{ offlineMessages(first: $first, after: $after) {{
    pageInfo {{ hasNextPage endCursor }} edges {{ node {{ {MESSAGE} }} }} }} }}"""
PINNED = """query ($id: ID!) {
    pinnedMessages(conversationId: $id, first: 100) { edges { node { seq isPinned } } } }"""
MINE = "query { myGroups(first: 100) { edges { node { id } } } }"


class Reading:
    """Reads through the processes of a deployment, and notes the ids of the messages."""

    def __init__(self, processes: ClockedDeployment) -> None:
        self._processes = processes
        self._times: dict[tuple[str, int, str, str], str] = {}

    async def check_query(self, model: SessionModel, user: str, name: str, process: int, which: int = 0) -> None:
        """Check the answer of one large query. which: selects two messages to ask for by id."""
        conversation = model.conversations[name]
        known = [seq for where, seq in self._processes.ids if where == name]
        pair = [known[(which * step) % len(known)] if known else 0 for step in (1, 7)]
        one, other = (self._processes.ids.get((name, seq), "m_1") for seq in pair)
        seen = await self._processes.apis[process].data(user, LOOK, id=name, one=one, other=other)
        where = f"{user} in {name}"
        if conversation.has_had(user):
            assert seen["conversation"]["session"]["status"] == model.session_for(user, name)["status"], where
            last = {"seq": conversation.newest(user)} if conversation.newest(user) else None
            assert seen["conversation"]["lastMessage"] == last, f"{where} {seen['conversation']}"
            self._check_messages(model, user, name, _nodes(seen["messages"]))
            listed = (await self._processes.apis[process].data(user, PINNED, id=name))["pinnedMessages"]
            pinned = [seq for seq in reversed(conversation.pins) if conversation.may_read(user, seq)]
            assert _nodes(listed) == [{"seq": seq, "isPinned": True} for seq in pinned], where
        else:
            assert (seen["conversation"], seen["node"], seen["messages"]) == (None, None, None), where
        for field, seq in (("one", pair[0]), ("other", pair[1]), ("same", pair[1])):
            expected = (
                model.message_for(user, name, conversation.messages[seq - 1])
                if conversation.may_read(user, seq)
                else None
            )
            got = plain(seen[field]) if seen[field] else None
            if got and field != "same":
                self._check_receipts(model, user, name, seq, got.pop("receipts", None), got.pop("read", None))
            assert got == expected, f"{where} {field} {seq}: expected {expected}, got {got}"
        if name.startswith("g_"):
            told = conversation.group_for(user) if conversation.has_had(user) else None
            for field in ("conversation", "node", "group"):
                got = plain_group(seen[field]) if seen[field] else None
                assert got == told, f"{where} {field}: expected {told}, got {got}"
        if (user, name) not in model.sessions:
            assert seen["session"] is None, where
        elif name.startswith("g_"):
            got = plain_group(seen["session"]["conversation"])
            assert got == conversation.group_for(user), (
                f"{where} session.conversation: expected {conversation.group_for(user)}, got {got}"
            )

    async def models_that_agree(
        self, models: Sequence[SessionModel], places: Iterable[tuple[str, str]], process: int
    ) -> list[SessionModel]:
        """Return the models that agree with what users read in conversations."""
        fitting = list(models)
        for user, name in places:
            listed = (await self._processes.apis[process].data(user, PAGE, id=name, last=100))["messages"]
            got = [plain(node) for node in _nodes(listed)] if listed else None
            left = [model for model in fitting if model.readable_messages(user, name) == got]
            assert left, (
                f"{user} in {name}: {got} is none of {[model.readable_messages(user, name) for model in fitting]}"
            )
            fitting = left
        return fitting

    async def page(self, model: SessionModel, user: str, name: str, process: int, size: int) -> None:
        """Read the whole history in pages, in both directions."""
        conversation = model.conversations[name]
        for way in ("first", "last"):
            found: list[Json] = []
            cursor, more = None, True
            while more:
                asked = {way: size, ("after" if way == "first" else "before"): cursor}
                listed = (await self._processes.apis[process].data(user, PAGE, id=name, **asked))["messages"]
                if listed is None:
                    assert not conversation.has_had(user), f"{user} can't read {name}"
                    break
                nodes, about = _nodes(listed), listed["pageInfo"]
                more = about["hasNextPage" if way == "first" else "hasPreviousPage"]
                assert len(nodes) == size or not more, f"{user} in {name}: {len(nodes)} in a page of {size}"
                found = found + nodes if way == "first" else nodes + found
                cursor = about["endCursor" if way == "first" else "startCursor"]
            if conversation.has_had(user):
                self._check_messages(model, user, name, found)

    async def check_groups(self, model: SessionModel, user: str, process: int) -> None:
        """Check that myGroups are the groups that the user is a member of."""
        edges = (await self._processes.apis[process].data(user, MINE))["myGroups"]["edges"]
        mine = sorted(
            name
            for name, conversation in model.conversations.items()
            if name[:2] == "g_" and user in conversation.members
        )
        assert sorted(edge["node"]["id"] for edge in edges) == mine

    async def check_offline(self, model: SessionModel, user: str, process: int, size: int = 100) -> None:
        """Check the offline queue, in pages."""
        expected = messages.offline(model, user)
        found: list[Json] = []
        after, more = None, True
        while more:
            listed = (await self._processes.apis[process].data(user, OFFLINE, first=size, after=after))[
                "offlineMessages"
            ]
            found += _nodes(listed)
            after, more = listed["pageInfo"]["endCursor"], listed["pageInfo"]["hasNextPage"]
        got = [(node["conversationId"], node["seq"]) for node in found]
        assert len(got) == len(expected) and set(got) == expected, f"{user} offline: expected {expected}, got {got}"
        ids = [int(node["id"][2:]) for node in found]
        assert ids == sorted(ids, reverse=True), f"{user} offline: {got} is not newest first"
        for node in found:
            name, sent = node["conversationId"], model.conversations[node["conversationId"]].messages[node["seq"] - 1]
            assert plain(node) == model.message_for(user, name, sent), f"{user} offline: {node}"

    def _check_receipts(
        self, model: SessionModel, user: str, name: str, seq: int, listed: Json | None, read: Json | None
    ) -> None:
        """Check that the sender alone is shown every recipient's receipt, and that receipts keep their times."""
        sent = model.conversations[name].messages[seq - 1]
        expected = messages.receipts(model, name, sent)
        if sent.system or sent.sender != user:
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
        expected = model.readable_messages(user, name)
        got = [plain(node) for node in nodes]
        assert got == expected, f"{user} in {name}: expected {expected}, got {got}"
        for node in nodes:
            assert node["conversationId"] == name
            assert self._processes.ids.setdefault((name, node["seq"]), node["id"]) == node["id"], (
                f"{name} {node['seq']}: another id"
            )


def _nodes(connection: Json) -> list[Json]:
    return [edge["node"] for edge in connection["edges"]]


def plain(message: Json) -> Json:
    """Return a message in the form of the model."""
    plain = {name: value for name, value in message.items() if name not in ("id", "conversationId")}
    if plain["contentType"] == "SYSTEM":
        # The text of a SYSTEM message is not part of the contract.
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
        "recalledBy": message["recalledBy"] and message["recalledBy"]["id"],
        "systemEvent": _plain_event(message["systemEvent"]),
        "mentions": sorted(user["id"] for user in message["mentions"]),
        "reactions": plain_reactions(message["reactions"]),
    }


def plain_reactions(shown: list[Json]) -> list[Json]:
    """Return reactions in the form of the model."""
    return [reaction | {"users": [user["id"] for user in reaction["users"]]} for reaction in shown]


def _plain_event(event: Json | None) -> Json | None:
    if event is None:
        return None
    return event | {"actor": event["actor"]["id"], "targets": sorted(user["id"] for user in event["targets"])}


def plain_group(group: Json) -> Json:
    """Return a group in the form of the model."""
    members, last = group["members"], group["lastMessage"]
    return {name: value for name, value in group.items() if name not in ("id", "session")} | {
        "owner": group["owner"]["id"],
        "lastMessage": last["seq"] if last else None,
        "members": {node["user"]["id"]: node["role"] for node in _nodes(members)} if members else None,
    }

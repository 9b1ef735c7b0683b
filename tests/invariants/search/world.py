"""A random world of conversations, whose rights and texts change all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.api.attaching.files import add_file
from tests.api.client import Api, Json, message_input, parse_refusal
from tests.api.workspaces.calls import create_workspace
from tests.invariants.search.vocabulary import message_text

_EXPECTED = {
    "FORBIDDEN",
    "NOT_FOUND",
    "INVALID_INPUT",
    "NOT_A_MEMBER",
    "ARCHIVED",
    "OWNER_CANNOT_LEAVE",
    "RECALL_TIMEOUT",
    "GROUP_TOO_SMALL",
}
"""Errors of operations that the user may not do at that moment."""

_CALLS = {
    "edit": "($id: ID!, $v: String!) { editMessage(messageId: $id, content: $v) { id } }",
    "recall": "($id: ID!) { recallMessage(messageId: $id) { id } }",
    "pin": "($id: ID!) { pinMessage(messageId: $id) { id } }",
    "unpin": "($id: ID!) { unpinMessage(messageId: $id) { id } }",
    "delete": "($id: ID!, $v: Boolean!) { deleteSession(conversationId: $id, hard: $v) { id } }",
    "group": "($v: CreateGroupInput!) { createGroup(input: $v) { id } }",
    "invite": "($id: ID!, $v: [ID!]!) { inviteMembers(groupId: $id, userIds: $v) { id } }",
    "remove": "($id: ID!, $v: ID!) { removeMember(groupId: $id, userId: $v) { id } }",
    "leave": "($id: ID!) { leaveGroup(groupId: $id) }",
    "dismiss": "($id: ID!) { dismissGroup(groupId: $id) }",
    "dissolve": "($id: ID!) { deleteConversation(conversationId: $id) }",
    "history": "($id: ID!, $v: UpdateGroupInput!) { updateGroup(groupId: $id, input: $v) { id } }",
    "follow thread": "($id: ID!, $v: Boolean!) { followThread(threadId: $id, follow: $v) { id } }",
    "join": "($id: ID!) { joinWorkspace(workspaceId: $id) { id } }",
    "depart": "($id: ID!) { leaveWorkspace(workspaceId: $id) }",
    "channel": "($v: CreateChannelInput!) { createChannel(input: $v) { id } }",
    "delete channel": "($id: ID!) { deleteChannel(channelId: $id) }",
    "archive": "($id: ID!, $v: Boolean!) { archiveChannel(channelId: $id, archived: $v) { id } }",
    "update channel": "($id: ID!, $v: UpdateChannelInput!) { updateChannel(channelId: $id, input: $v) { id } }",
    "follow": "($id: ID!, $v: Boolean!) { followChannel(channelId: $id, follow: $v) { id } }",
    "add": "($id: ID!, $v: [ID!]!) { addToChannel(channelId: $id, userIds: $v) { id } }",
    "expel": "($id: ID!, $v: ID!) { removeFromChannel(channelId: $id, userId: $v) { id } }",
    "role": "($id: ID!, $v: RoleInput!) { createRole(workspaceId: $id, input: $v) { id } }",
    "permit": "($id: ID!, $v: RoleInput!) { updateRole(roleId: $id, input: $v) { id } }",
    "roles": """($id: ID!, $user: ID!, $v: [ID!]!) {
        setMemberRoles(workspaceId: $id, userId: $user, roleIds: $v) { user { id } } }""",
    "overwrite": """($id: ID!, $role: ID, $user: ID, $allow: [Permission!]!, $deny: [Permission!]!) {
        setPermissionOverwrite(channelId: $id, roleId: $role, userId: $user, allow: $allow, deny: $deny) {
            roleId } }""",
    "send": """($v: SendMessageInput!) { sendMessage(input: $v) {
        message { id conversationId seq content sender { id } } } }""",
}
_READING = ("VIEW_CHANNEL", "READ_HISTORY")


@dataclass(frozen=True)
class Sent:
    """A message that was sent."""

    id: str
    conversation: str
    seq: int
    sender: str


class World:
    """Users, the conversations that have existed, and operations on them. `done`, `refused`: operations by kind."""

    def __init__(self, random: Random, users: list[str], workspace: str, role: str) -> None:
        self._random = random
        self.users = users
        self.owner, *self._others = users
        self.workspace = workspace
        self._roles = [role, f"r_{workspace[2:]}"]
        self.places: list[str] = []
        self.threads: list[str] = []
        self.messages: list[Sent] = []
        self.texts: list[str] = []
        self._owners: dict[str, str] = {}
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    @classmethod
    async def create(cls, api: Api, random: Random) -> World:
        """Create users, a workspace with three channels, and three groups."""
        users = await api.create_users(*"abcdefg")
        owner, *others = users
        workspace = await create_workspace(api, owner, isOpen=True)
        world = cls(random, users, workspace, "")
        fields = {"name": "readers", "permissions": list(_READING)}
        world._roles[0] = (await world._must(api, owner, "role", id=workspace, v=fields))["id"]
        for user in others[:-1]:
            await world._must(api, user, "join", id=workspace)
        for kind, visibility in (("PUBLIC", "FULL"), ("PRIVATE", "FULL"), ("PRIVATE", "SINCE_JOIN")):
            await world._create_channel(api, kind, visibility, random.sample(others[:-1], 3))
        for _ in range(3):
            await world._create_group(api)
        return world

    @property
    def conversations(self) -> list[str]:
        """All conversations that have existed, threads included."""
        return [*self.places, *self.threads]

    async def step(self, api: Api) -> None:
        """Carry out a random operation. It may be refused."""
        names = list(_OPERATIONS)
        name = self._random.choices(names, [_OPERATIONS[each][0] for each in names])[0]
        await _OPERATIONS[name][1](self, api)

    async def _must(self, api: Api, user: str, kind: str, /, **variables: Any) -> Any:
        answer = await self._try(api, user, kind, **variables)
        assert answer is not None, kind
        return answer

    async def _try(self, api: Api, user: str, kind: str, /, **variables: Any) -> Any:
        response = await api.run(user, f"mutation {_CALLS[kind]}", **variables)
        if "errors" in response:
            code = parse_refusal(response["errors"][0]).code
            assert code in _EXPECTED, response
            self.refused[kind] += 1
            return None
        self.done[kind] += 1
        (value,) = response["data"].values()
        return value

    def _user(self) -> str:
        return self._random.choice(self.users)

    def _someone(self, place: str, share: float = 0.6) -> str:
        """Return the owner of a place with some probability, else any user."""
        return self._owners.get(place, self.owner) if self._random.random() < share else self._user()

    def _place(self, *kinds: str) -> str | None:
        """Return a conversation of some kinds. The newest ones are chosen more often."""
        places = [place for place in self.conversations if place.startswith(kinds)]
        if not places:
            return None
        return self._random.choice(places[-12:] if self._random.random() < 0.7 else places)

    def _message(self) -> Sent | None:
        if not self.messages:
            return None
        return self._random.choice(self.messages[-40:] if self._random.random() < 0.8 else self.messages)

    # --- messages

    async def _send(self, api: Api) -> None:
        user, place = self._user(), self._place("g_", "c_", "t_", "p_")
        if place is None or self._random.random() < 0.2:
            (other,) = self._random.sample([each for each in self.users if each != user], 1)
            fields = {"subBiz": "shop"} if self._random.random() < 0.2 else {}
            await self._send_to(api, user, other, **fields)
            return
        more: Json = {}
        if self._random.random() < 0.15:
            more["mentions"] = [self._user()]
        if self._random.random() < 0.1:
            more["attachmentIds"] = [await add_file(api, user, place)]
        await self._send_to(api, user, place, **more)

    async def _reply(self, api: Api) -> None:
        parent = self._message()
        if parent is not None:
            await self._send_to(api, self._user(), parent.id, broadcast=self._random.random() < 0.3)

    async def _send_to(self, api: Api, user: str, to: str, **more: Any) -> None:
        text = message_text(self._random)
        sent = await self._try(api, user, "send", v=message_input(to, text, **more))
        if sent is not None:
            message = sent["message"]
            place = message["conversationId"]
            known = self.threads if place.startswith("t_") else self.places
            if place not in known:
                known.append(place)
            self.messages.append(Sent(message["id"], place, message["seq"], user))
            self.texts.append(text)

    async def _revise(self, api: Api, kind: str) -> None:
        message = self._message()
        if message is not None:
            user = message.sender if self._random.random() < 0.9 else self._user()
            if kind == "edit":
                text = message_text(self._random)
                self.texts.append(text)
                await self._try(api, user, kind, id=message.id, v=text)
            else:
                await self._try(api, user, kind, id=message.id)

    # --- groups

    async def _create_group(self, api: Api) -> None:
        owner, *members = self._random.sample(self.users, self._random.randint(3, 5))
        visibility = self._random.choice(("FULL", "SINCE_JOIN"))
        fields = {"name": "Group", "memberIds": members, "historyVisibility": visibility}
        group = (await self._must(api, owner, "group", v=fields))["id"]
        self.places.append(group)
        self._owners[group] = owner

    async def _change_group(self, api: Api) -> None:
        group = self._place("g_")
        assert group is not None
        match self._random.choice(("invite", "invite", "remove", "remove", "leave", "leave", "history")):
            case "invite":
                await self._try(api, self._someone(group), "invite", id=group, v=[self._user()])
            case "remove":
                await self._try(api, self._someone(group), "remove", id=group, v=self._user())
            case "leave":
                await self._try(api, self._user(), "leave", id=group)
            case _:
                visibility = {"historyVisibility": self._random.choice(("FULL", "SINCE_JOIN"))}
                await self._try(api, self._someone(group, 0.9), "history", id=group, v=visibility)

    async def _end_group(self, api: Api) -> None:
        group = self._place("g_")
        assert group is not None
        await self._try(api, self._someone(group, 0.9), self._random.choice(("dismiss", "dissolve")), id=group)

    # --- channels

    async def _create_channel(self, api: Api, kind: str, visibility: str, members: list[str]) -> None:
        private = {"memberIds": [self.owner, *members]} if kind == "PRIVATE" else {}
        fields = {"workspaceId": self.workspace, "name": "channel", "kind": kind, "historyVisibility": visibility}
        created = await self._try(api, self.owner, "channel", v=fields | private)
        if created is not None:
            self.places.append(created["id"])
            self._owners[created["id"]] = self.owner

    async def _open_channel(self, api: Api) -> None:
        kind, visibility = self._random.choice(("PUBLIC", "PRIVATE")), self._random.choice(("FULL", "SINCE_JOIN"))
        await self._create_channel(api, kind, visibility, self._random.sample(self._others[:-1], 2))

    async def _change_channel(self, api: Api) -> None:
        channel = self._place("c_")
        assert channel is not None
        kind = self._random.choice(("archive", "archive", "update channel", "follow", "follow", "add", "add", "expel"))
        match kind:
            case "archive":
                await self._try(api, self.owner, kind, id=channel, v=self._random.random() < 0.4)
            case "update channel":
                change = self._random.choice(
                    ({"kind": "PUBLIC"}, {"kind": "PRIVATE"}, {"historyVisibility": "FULL"},
                     {"historyVisibility": "SINCE_JOIN"})
                )  # fmt: skip
                await self._try(api, self.owner, kind, id=channel, v=change)
            case "follow":
                await self._try(api, self._user(), kind, id=channel, v=self._random.random() < 0.7)
            case "add":
                await self._try(api, self.owner, kind, id=channel, v=[self._user()])
            case _:
                await self._try(api, self.owner, kind, id=channel, v=self._user())

    async def _overwrite(self, api: Api) -> None:
        channel = self._place("c_")
        assert channel is not None
        permission = [self._random.choice(_READING)]
        target = self._random.choice(
            ({"role": self._roles[0]}, {"role": self._roles[1]}, {"user": self._random.choice(self._others)})
        )
        effect = self._random.choice(({"allow": permission, "deny": []}, {"allow": [], "deny": permission},
                                      {"allow": [], "deny": []}, {"allow": [], "deny": []}))  # fmt: skip
        await self._try(api, self.owner, "overwrite", id=channel, **target, **effect)

    async def _change_roles(self, api: Api) -> None:
        if self._random.random() < 0.5:
            roles = self._roles[:1] if self._random.random() < 0.5 else []
            user = self._random.choice(self._others)
            await self._try(api, self.owner, "roles", id=self.workspace, user=user, v=roles)
            return
        role = self._random.choice(self._roles)
        permissions = [each for each in _READING if self._random.random() < 0.8]
        more = ["SEND_MESSAGES", "SEND_THREADS", "CREATE_THREADS"] if permissions else []
        await self._try(api, self.owner, "permit", id=role, v={"permissions": permissions + more})

    async def _delete_channel(self, api: Api) -> None:
        channel = self._place("c_")
        if channel is not None and len([each for each in self.places if each.startswith("c_")]) > 3:
            await self._try(api, self.owner, "delete channel", id=channel)

    async def _come_and_go(self, api: Api) -> None:
        kind = self._random.choice(("join", "join", "depart"))
        await self._try(api, self._random.choice(self._others), kind, id=self.workspace)

    # --- what a user sees of their own

    async def _follow_thread(self, api: Api) -> None:
        if self.threads:
            thread = self._random.choice(self.threads)
            await self._try(api, self._user(), "follow thread", id=thread, v=self._random.random() < 0.6)

    async def _delete_session(self, api: Api) -> None:
        place = self._place("g_", "p_")
        if place is not None:
            await self._try(api, self._user(), "delete", id=place, v=self._random.random() < 0.5)


_OPERATIONS: dict[str, tuple[int, Callable[[World, Api], Awaitable[None]]]] = {
    "send": (60, World._send),
    "reply": (22, World._reply),
    "edit": (8, lambda world, api: world._revise(api, "edit")),
    "recall": (5, lambda world, api: world._revise(api, "recall")),
    "pin": (2, lambda world, api: world._revise(api, "pin")),
    "unpin": (1, lambda world, api: world._revise(api, "unpin")),
    "create group": (2, World._create_group),
    "change group": (18, World._change_group),
    "end group": (2, World._end_group),
    "create channel": (2, World._open_channel),
    "change channel": (14, World._change_channel),
    "overwrite": (10, World._overwrite),
    "roles": (5, World._change_roles),
    "delete channel": (2, World._delete_channel),
    "come and go": (4, World._come_and_go),
    "follow thread": (5, World._follow_thread),
    "delete session": (2, World._delete_session),
}
"""Operations by name, with their weights."""

"""Every operation on workspaces, their channels and roles, for tests that run each operation once."""

from __future__ import annotations

from dataclasses import dataclass

from store.base.workspace_ids import WorkspaceId
from tests.api.channels import calls as channels
from tests.api.channels import session_calls as sessions
from tests.api.channels.session_calls import ADD, READ_ALL, REMOVE
from tests.api.client import HISTORY, Api, Subscriber
from tests.api.moderation import calls as moderation
from tests.api.pins import calls as pins
from tests.api.workspaces import calls as workspaces
from tests.api.workspaces import role_calls as roles

WORKSPACE_EVENTS = "subscription ($id: ID!) { workspaceEvents(workspaces: [{id: $id}]) { __typename } }"
CHANNEL_EVENTS = "subscription ($id: ID!) { channelEvents(channels: [{id: $id}]) { __typename } }"

READY = """{ ready { me { id } sessions { edges { node { id } } } workspaces { id name }
    attention { unread mentions } cursor } }"""
MEMBERS = """query ($id: ID!, $query: String) { channel(id: $id) {
    members(first: 2, query: $query) { edges { node { user { id } } } } } }"""
LEVEL = "mutation ($id: ID!, $level: NotificationLevel) { setNotificationLevel(id: $id, level: $level) }"


@dataclass
class WorkspaceOperations:
    """A workspace with channels and a role. The owner is Alice, Bob and Carol are members, Dave is not."""

    api: Api
    alice: str
    bob: str
    carol: str
    dave: str
    id: str = ""
    general: str = ""
    staff: str = ""
    category: str = ""
    role: str = ""

    async def create(self) -> Subscriber:
        """Create everything, and return a device that looks at the workspace."""
        api, alice = self.api, self.alice
        fields = {"isOpen": True, "domain": "shards", "idempotencyKey": "w"}
        self.id = await workspaces.create_workspace(api, alice, **fields)
        assert await workspaces.create_workspace(api, alice, idempotencyKey="w") == self.id
        input_ = {"workspaceId": self.id, "name": "general", "isDefault": True, "idempotencyKey": "c"}
        for _ in range(2):
            self.general = (await api.data(alice, channels.CREATE, input=input_))["createChannel"]["id"]
        codes = [await workspaces.create_invite(api, alice, self.id, maxUses=1) for _ in range(2)]
        await api.data(self.bob, workspaces.JOIN, code=codes[0])
        await api.data(alice, workspaces.REVOKE_INVITE, code=codes[1])
        await workspaces.add_members(api, self.id, self.carol)
        private = {"workspaceId": self.id, "name": "staff", "kind": "PRIVATE", "memberIds": [self.bob]}
        self.staff = (await api.data(alice, channels.CREATE, input=private))["createChannel"]["id"]
        category = await api.data(alice, channels.CREATE_CATEGORY, id=self.id, name="Trips")
        self.category = category["createCategory"]["id"]
        self.role = await roles.create_role(api, alice, self.id, "Guide", "MANAGE_MESSAGES", isMentionable=True)
        await roles.set_roles(api, alice, self.id, self.bob, self.role)
        return await api.subscribe(self.bob, WORKSPACE_EVENTS, id=self.id)

    async def read(self) -> None:
        """Read everything. The operations may be repeated."""
        api, id_ = self.api, self.id
        await workspaces.own_workspace(api, self.carol, id_)
        assert await workspaces.my_workspaces(api, self.bob) == [id_]
        for arguments in ({}, {"query": "al"}, {"query": "a-long-one"}, {"role": f"r_{id_[2:]}"}, {"role": self.role}):
            await workspaces.list_members(api, self.bob, id_, **arguments)
        for query in (None, "sp", "another"):
            await api.data(self.dave, workspaces.OPEN, query=query)
        await api.data(self.dave, workspaces.PREVIEW, code="1-aaaaaaaaaaaaaaaa")
        search = 'query ($id: ID) { searchUsers(query: "b", workspaceId: $id) { edges { node { id } } } }'
        await api.data(self.alice, search, id=id_)
        await api.data(self.bob, channels.LIST, id=id_)
        for channel in (self.general, self.staff):
            await api.data(self.bob, channels.FIND, id=channel)
            sent = await api.send(self.bob, channel, "hello", mentions=[self.alice], idempotencyKey=None)
            await api.edit(self.bob, sent["message"]["id"], "hello you")
            await api.data(self.alice, HISTORY, id=channel, last=10)
            await pins.pin(api, self.alice, sent["message"]["id"])
            assert await pins.pinned(api, self.bob, channel)
            await api.own_session(self.bob, channel)
            await api.data(self.bob, sessions.MUTE, id=channel, muted=True)
            await api.data(self.alice, sessions.READ, id=channel, seq=1)
            for query in (None, "bo"):
                await api.data(self.bob, MEMBERS, id=channel, query=query)
            await api.data(self.bob, LEVEL, id=channel, level="MENTIONS")
        await api.data(self.bob, LEVEL, id=id_, level="NONE")
        await api.data(self.bob, READY)
        for follow in (False, True):
            await api.data(self.bob, sessions.FOLLOW, id=self.general, follow=follow)
        await sessions.followed_by(api, self.bob, id_)
        await sessions.ChannelClient(api, self.bob).sync()
        await api.data(self.bob, READ_ALL, id=id_)
        await api.data(self.alice, ADD, id=self.staff, users=[self.carol])
        await api.data(self.alice, REMOVE, id=self.staff, user=self.carol)
        await api.data(self.alice, ADD, id=self.general, users=[self.carol])
        await api.data(self.bob, roles.EXPLAIN, channel=self.general)
        await api.data(self.bob, roles.ROLES, id=id_)
        device = await api.subscribe(self.bob, CHANNEL_EVENTS, id=self.general)
        await device.next()
        await device.stop()

    async def _moderate(self) -> None:
        """Recall, time out, kick and ban, in the workspace and in the deployment."""
        api, alice, id_ = self.api, self.alice, self.id
        channel = (await api.data(alice, channels.CREATE, input={"workspaceId": id_, "name": "last"}))["createChannel"]
        await workspaces.add_members(api, id_, self.carol, self.dave)
        spam = [(await api.send(self.carol, channel["id"], "spam"))["message"]["id"] for _ in range(2)]
        await api.send(self.dave, spam[0], "reply")
        await api.data(alice, moderation.RECALL_MANY, id=channel["id"], messages=spam)
        await moderation.time_out(api, alice, id_, self.carol, moderation.later(days=1))
        await api.data(alice, moderation.KICK, id=id_, user=self.carol)
        for caller, place in ((alice, id_), (moderation.ADMIN, None)):
            await moderation.ban(api, caller, place, self.dave, delete=60)
            assert await moderation.banned_users(api, caller, place) == [self.dave]
            await moderation.unban(api, caller, place, self.dave)
        await api.services.job_worker.run_due()

    async def change(self) -> None:
        """Change everything once, and delete the workspace at the end."""
        api, alice, id_ = self.api, self.alice, self.id
        await workspaces.nickname(api, self.bob, id_, "Bobby")
        await api.data(self.bob, 'mutation { updateMe(displayName: "Robert") { id } }')
        overwrite = {"channel": self.general, "role": self.role, "deny": ["ADD_REACTIONS"]}
        await api.data(alice, roles.SET_OVERWRITE, **overwrite)
        await api.data(alice, roles.UPDATE_ROLE, id=self.role, input={"name": "Guides"})
        changed = {"name": "all", "topic": "Everything", "categoryId": self.category, "position": 1}
        await api.data(alice, channels.UPDATE, id=self.general, input=changed)
        await api.data(alice, channels.UPDATE_CATEGORY, id=self.category, name="Journeys", position=0)
        await api.data(alice, channels.ARCHIVE, id=self.general)
        await api.data(alice, channels.DELETE_CATEGORY, id=self.category)
        await api.data(alice, roles.DELETE_ROLE, id=self.role)
        await api.data(alice, channels.DELETE, id=self.staff)
        await api.data(alice, workspaces.UPDATE, id=id_, input={"name": "Renamed", "isOpen": False})
        await api.data(self.carol, workspaces.LEAVE, id=id_)
        await self._moderate()
        await api.data(alice, workspaces.TRANSFER, id=id_, user=self.bob)
        await api.data(self.bob, workspaces.DELETE, id=id_)
        removal = api.services.app.store.workspace_removal
        assert await removal.run() == 0
        while await removal.step(WorkspaceId(id_)):
            pass

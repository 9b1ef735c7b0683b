"""GraphQL documents about voice, and devices that are in voice channels."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import orjson

from resolvers.users.callers import CallerRole
from store.base.ids import UserId
from store.presence.presence_record import DeviceType
from subscriptions.presence.connected_devices import DeviceConnection, GivenDevice
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, RequestRefused
from tests.api.channels.calls import ADD, CREATE, Made, make_workspace
from tests.api.client import Api, Refusal, Subscriber, make_caller, parse_refusal, wait_until
from tests.api.session_calls import Json
from tests.waiting import TIMEOUT_SECONDS

STATE = "user { id } channelId selfMute selfDeaf mute deaf video screen joinedAt"
JOIN = f"""mutation ($id: ID!, $mute: Boolean, $deaf: Boolean) {{
    joinVoice(channelId: $id, selfMute: $mute, selfDeaf: $deaf) {{ state {{ {STATE} }} url token expiresAt }} }}"""
UPDATE = f"""mutation ($mute: Boolean, $deaf: Boolean, $video: Boolean, $screen: Boolean) {{
    updateVoice(selfMute: $mute, selfDeaf: $deaf, video: $video, screen: $screen) {{ {STATE} }} }}"""
LEAVE = "mutation { leaveVoice }"
MODERATE = f"""mutation (
    $id: ID!, $user: ID!, $mute: Boolean, $deaf: Boolean, $disconnect: Boolean, $to: ID
) {{ moderateVoice(
    channelId: $id, userId: $user, mute: $mute, deaf: $deaf, disconnect: $disconnect, moveToChannelId: $to
) {{ {STATE} }} }}"""
STATES = f"query ($id: ID!) {{ channel(id: $id) {{ voiceStates {{ {STATE} }} }} }}"
CREATE_ROLE = "mutation ($id: ID!, $input: RoleInput!) { createRole(workspaceId: $id, input: $input) { id } }"
SET_ROLES = """mutation ($id: ID!, $user: ID!, $roles: [ID!]!) {
    setMemberRoles(workspaceId: $id, userId: $user, roleIds: $roles) { roles { id } } }"""
OVERWRITE = """mutation ($id: ID!, $role: ID, $user: ID, $allow: [Permission!]!, $deny: [Permission!]!) {
    setPermissionOverwrite(channelId: $id, roleId: $role, userId: $user, allow: $allow, deny: $deny) { userId } }"""
LIVE = f"""subscription ($workspaces: [Position!]!) {{ workspaceEvents(workspaces: $workspaces) {{
    __typename
    ... on VoiceStateChanged {{ workspaceId left rev state {{ {STATE} }} }}
    ... on WorkspaceCaughtUp {{ workspaceId rev reset }} }} }}"""


@dataclass(eq=False)
class Device:
    """A device with a connection to a process. The connection of a WebSocket, as operations see it."""

    api: Api
    user: str
    id: str | None = field(default_factory=lambda: secrets.token_hex(4))
    device: DeviceConnection = field(init=False)
    is_closed: bool = False

    def __post_init__(self) -> None:
        self.connect(self.api)

    def connect(self, api: Api) -> None:
        """Connect, also to another process."""
        self.api = api
        given = GivenDevice(self.id, DeviceType.DESKTOP)
        self.device = api.services.app.devices.connect(UserId(self.user), given, self._close)

    def disconnect(self) -> None:
        """End the connection."""
        self.device.end()

    def _close(self) -> None:
        self.is_closed = True
        self.disconnect()

    # The methods of LiveConnection.

    @property
    def caller(self) -> object | None:
        return make_caller(self.user)

    async def authenticate_token(self, token: str) -> object:
        raise AssertionError("no token is renewed")

    def next_renewal_number(self) -> int:
        raise AssertionError("no token is renewed")

    def renew(self, expires_at: float | None, caller: object | None, number: int | None = None) -> bool:
        raise AssertionError("no token is renewed")

    # Operations.

    async def run(self, query: str, /, **variables: Any) -> Json:
        """Return the response to an operation over the connection."""
        caller, engine = make_caller(self.user), self.api.services.engine
        await self.api.services.sign_in(caller)
        request = GraphQLRequest(query, variables or None)
        try:
            prepared = await engine.prepare(request, caller)
            response = await engine.execute(prepared, request, ConnectionContext(caller, "test", connection=self))
        except RequestRefused as refused:
            response = {"errors": refused.errors}
        decoded: Json = orjson.loads(orjson.dumps(response))
        return decoded

    async def data(self, query: str, /, **variables: Any) -> Any:
        """Return the value of the operation's field."""
        response = await self.run(query, **variables)
        assert "errors" not in response, response["errors"]
        (value,) = response["data"].values()
        return value

    async def refused(self, query: str, /, **variables: Any) -> Refusal:
        response = await self.run(query, **variables)
        assert len(response.get("errors", ())) == 1, response
        return parse_refusal(response["errors"][0])

    async def join(self, channel: str, **flags: bool) -> Json:
        """Join a voice channel and return the state."""
        joined = await self.data(JOIN, id=channel, **flags)
        state: Json = joined["state"]
        return state

    async def update(self, **flags: bool) -> Json:
        state: Json = await self.data(UPDATE, **flags)
        return state

    async def leave(self) -> None:
        assert await self.data(LEAVE) is True


class VoiceWorkspace(Made):
    """A workspace with two voice channels."""

    lounge: str
    stage: str

    async def states(self, channel: str, user: str | None = None, api: Api | None = None) -> list[Json]:
        """Return the states in a channel as a user sees them; as the owner if none is given."""
        found = (await (api or self.api).data(user or self.owner, STATES, id=channel))["channel"]
        states: list[Json] = found["voiceStates"]
        return states

    async def users(self, channel: str, api: Api | None = None) -> list[str]:
        """Return the users in a channel."""
        return [state["user"]["id"] for state in await self.states(channel, api=api)]

    async def everything(self) -> list[list[Json]]:
        return [await self.states(self.lounge), await self.states(self.stage)]

    async def wait_for(self, channel: str, *users: str, api: Api | None = None) -> None:
        """Wait until these users are in a channel."""

        async def is_so() -> bool:
            return sorted(await self.users(channel, api)) == sorted(users)

        await wait_until(is_so)

    async def add(self, *users: str) -> None:
        await self.api.data(make_caller("service", CallerRole.SERVICE), ADD, id=self.id, users=list(users))

    async def give(self, user: str, *permissions: str) -> str:
        """Give a user a role with permissions, and return it."""
        fields = {"name": "of voice", "permissions": list(permissions)}
        role: str = (await self.api.data(self.owner, CREATE_ROLE, id=self.id, input=fields))["createRole"]["id"]
        await self.api.data(self.owner, SET_ROLES, id=self.id, user=user, roles=[role])
        return role

    async def take_roles(self, user: str) -> None:
        await self.api.data(self.owner, SET_ROLES, id=self.id, user=user, roles=[])

    async def overwrite(self, channel: str, user: str, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> None:
        """Set what a user may do in a channel."""
        await self.api.data(self.owner, OVERWRITE, id=channel, user=user, allow=list(allow), deny=list(deny))

    async def listen(self, user: str, api: Api | None = None, rev: int | None = None) -> tuple[Subscriber, list[Json]]:
        """Return a subscription, and its events up to WorkspaceCaughtUp, that included."""
        subscriber = await (api or self.api).subscribe(user, LIVE, workspaces=[{"id": self.id, "rev": rev}])
        events = [await subscriber.next()]
        while events[-1]["__typename"] != "WorkspaceCaughtUp":
            events.append(await subscriber.next())
        return subscriber, events


async def make_voice_workspace(api: Api) -> VoiceWorkspace:
    """Create a workspace with two voice channels."""
    made = await make_workspace(api)
    workspace = VoiceWorkspace(made.api, made.id, made.owner, made.member, made.outsider)
    names = ("lounge", "stage")
    for name in names:
        fields = {"workspaceId": made.id, "name": name, "kind": "VOICE"}
        created = (await api.data(made.owner, CREATE, input=fields))["createChannel"]
        object.__setattr__(workspace, name, created["id"])
    return workspace


async def next_voice(subscriber: Subscriber) -> Json:
    """Return the next VoiceStateChanged; other events are skipped."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        event = await subscriber.next(deadline - time.monotonic())
        if event["__typename"] == "VoiceStateChanged":
            return event

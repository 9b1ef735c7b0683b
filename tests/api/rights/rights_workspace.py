"""One workspace with a caller for each permission, and a channel or category for each place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from pymongo import InsertOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import CategoryId, RoleId, WorkspaceId, category_id, channel_id, everyone_id, role_id
from store.conversations.conversation import Member
from store.mongo.collections import CONVERSATIONS, MEMBERS, member_row_id
from store.reports.report import Report, ReportReason
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.permissions import NOTHING, OF_EVERYONE, Permission
from store.workspaces.policy import Channel, ChannelCategory, ChannelKind, Overwrite, Overwrites, Policy, Role
from subscriptions.transport.engine import RequestRefused
from tests.api.attaching.files import add_file
from tests.api.client import Api, Json, gather_all
from tests.api.rights.expectations import BASE, EMPTY, NULL, OK, Caller, Kind, Operation, Place, permissions_of
from tests.api.rights.operations import OPERATIONS
from tests.api.workspaces.calls import LEAVE, add_members, create_invite, create_workspace

FAR_FUTURE_MS = 4_000_000_000_000
_SHARED = (Caller.PLAIN, Caller.TIMED_OUT, Caller.ADMINISTRATOR)
"""Members who are the same for all operations."""


class Case(NamedTuple):
    """An operation, tried by a caller in a place."""

    name: str
    caller: Caller
    place: Place

    @property
    def operation(self) -> Operation:
        return OPERATIONS[self.name]

    @property
    def text(self) -> str:
        """Return what is tried, for messages of failures."""
        place = self.place
        about = f" ({place.permission.name})" if place.permission != NOTHING else ""
        return f"{self.name} | {self.caller} | {place.kind}{about}"


class RightsWorkspace:
    """Tries operations in a workspace.

    The role of everyone has no permissions, so each member has just those of their own role. @target sees all channels,
    and has written one message in each. What an operation removes exists once for each case that may do it, and so does
    each file that is sent.
    """

    def __init__(self, api: Api, cases: list[Case], allowed: list[Case]) -> None:
        self._api = api
        self._with_files = [case for case in cases if "@file" in str(case.operation.variables)]
        self._allowed = [case for case in allowed if case.operation.fresh]
        self._ids: dict[object, str] = {}
        self._users: dict[object, str] = {}
        self._messages: dict[str, str] = {}
        self.watched: list[str] = []
        """The channels of all cases that the owner sees."""

    async def create(self) -> RightsWorkspace:
        api, store = self._api, self._api.services.app.store
        pairs = {(op.needs, op.also) for op in OPERATIONS.values() if op.needs != NOTHING}
        keys: list[object] = [Caller.OWNER, Caller.OUTSIDER, Caller.FORMER, "@target", *_SHARED]
        keys += [(caller, *pair) for pair in sorted(pairs) for caller in (Caller.EXACT, Caller.ALL_BUT)]
        users = await api.create_users(
            "owner", "outsider", "former", "target", *(f"u{n}" for n in range(len(keys) - 4))
        )
        self._users = dict(zip(keys, users, strict=True))
        fresh_members = list(self._fresh("member"))
        victims = await api.create_users(*(f"v{n}" for n in range(len(fresh_members))))
        self.owner, self.target = self._users[Caller.OWNER], self._users["@target"]
        self.workspace = WorkspaceId(await create_workspace(api, self.owner))
        outside = (self.owner, self._users[Caller.OUTSIDER])
        await add_members(api, self.workspace, *(user for user in (*users, *victims) if user not in outside))
        await api.data(self._users[Caller.FORMER], LEAVE, id=self.workspace)
        places = set(chain.from_iterable(op.places() for op in OPERATIONS.values() if op.in_channel))
        for key in [*sorted(places, key=repr), *(case for case in self._allowed if case.operation.fresh == "channel")]:
            self._ids["channel", key] = channel_id(self.workspace, store.ids.next())
        in_categories = set(chain.from_iterable(op.places() for op in OPERATIONS.values() if op.where == "category"))
        for key in [*sorted(in_categories, key=repr), *self._fresh("category")]:
            self._ids["category", key] = category_id(self.workspace, store.ids.next())
        for key in [None, *self._fresh("role")]:
            self._ids["role", key] = role_id(self.workspace, store.ids.next())
        for case, member in zip(fresh_members, victims, strict=True):
            self._ids["member", case] = member
        self._ids["member", None] = self.target
        for key in [None, *self._fresh("code")]:
            self._ids["code", key] = await create_invite(api, self.owner, self.workspace)
        assert await store.policy_changes.change(self.workspace, self._with_channels) is not None
        shared = [(key, id) for (what, key), id in self._keyed() if what == "channel" and isinstance(key, Place)]
        self.watched = [id for place, id in shared if place.kind is not Kind.HIDDEN]
        sent = await gather_all(*(api.send(self.target, id) for _, id in shared))
        self._messages = {s["message"]["conversationId"]: s["message"]["id"] for s in sent}
        await self._add_files()
        await self._add_reports()
        assert await store.policy_changes.change(self.workspace, self._with_rights) is not None
        await api.wait_until_idle()
        return self

    async def _add_reports(self) -> None:
        """Make a report by @target for each case that resolves one."""
        store, reports = self._api.services.app.store, self._api.services.app.reports
        for number, key in enumerate([None, *self._fresh("report")]):
            id = store.reports.id_of(UserId(self.target), f"thing {number}")
            report = Report(
                id, store.ids.next(), UserId(self.target), UserId(self.owner), ReportReason.OTHER, self.workspace
            )
            self._ids["report", key] = (await reports.open(report)).id

    async def _add_files(self) -> None:
        """Give each caller a file of their own for each case that names one."""
        with_users = [(case, user) for case in self._with_files if (user := self._user_of(case)) is not None]
        files = await gather_all(*(add_file(self._api, user, self._id(case, "@channel")) for case, user in with_users))
        self._ids |= {("file", case): file for (case, _), file in zip(with_users, files, strict=True)}
        self._ids["file", None] = "f_1"

    def _fresh(self, what: str) -> Iterator[Case]:
        return (case for case in self._allowed if case.operation.fresh == what)

    def _keyed(self) -> list[tuple[tuple[str, Any], str]]:
        return list(self._ids.items())  # type: ignore[arg-type]

    async def _with_channels(self, policy: Policy) -> ProposedPolicyChange:
        """Add all channels, without overwrites."""
        everyone = replace(policy.everyone, permissions=OF_EVERYONE)
        channels, heads, rows = dict[ConversationId, Channel](), [], []
        outside = (self._users[Caller.OUTSIDER], self._users[Caller.FORMER])
        for (what, key), id in self._keyed():
            if what != "channel":
                continue
            place = key.place if isinstance(key, Case) else key
            kind = ChannelKind.PRIVATE if place.is_private else ChannelKind.PUBLIC
            channel = ConversationId(id)
            channels[channel] = Channel(channel, "room", kind, len(channels), 1)
            heads.append(InsertOne({"_id": id, "k": "C", "s": 0, "n": 0, "at": 0, "w": 0}))
            members = [self.target] if place.kind is Kind.HIDDEN else set(self._users.values()) - {*outside}
            if place.is_private:
                rows += [_membership(channel, UserId(user)) for user in members]
        after = replace(policy, roles={everyone.id: everyone}, channels={**policy.channels, **channels})
        return ProposedPolicyChange(after, writes=[(CONVERSATIONS, heads), (MEMBERS, rows)])

    async def _with_rights(self, policy: Policy) -> ProposedPolicyChange:
        """Give all members their roles, and all places their overwrites, in one change."""
        everyone = replace(policy.everyone, permissions=NOTHING)
        roles = {everyone.id: everyone}
        for (what, _), id in self._keyed():
            if what == "role":
                roles[RoleId(id)] = Role(RoleId(id), "spare", len(roles), NOTHING)
        given: dict[UserId, RoleId] = {}
        for key, user in self._users.items():
            caller, about, also = key if isinstance(key, tuple) else (key, NOTHING, NOTHING)
            if caller in (Caller.OWNER, Caller.OUTSIDER, Caller.FORMER):
                continue
            caller = caller if isinstance(caller, Caller) else Caller.PLAIN
            role = Role(
                role_id(self.workspace, self._api.services.app.store.ids.next()),
                "role",
                len(roles),
                permissions_of(caller, about, also),
            )
            roles[role.id] = role
            given[UserId(user)] = role.id
        found = await self._api.services.app.store.policies.find_members(self.workspace, [*given], policy.version)
        timed_out = self._users[Caller.TIMED_OUT]
        members = [
            MemberChange(
                facts,
                replace(
                    facts,
                    roles=frozenset({given[user]}),
                    timed_out_until_ms=FAR_FUTURE_MS if user == timed_out else 0,
                ),
            )
            for user, facts in found.items()
        ]
        channels, categories = dict(policy.channels), dict(policy.categories)
        for (what, key), id in self._keyed():
            place = key.place if isinstance(key, Case) else key
            if what == "channel":
                overwrites = self._overwrites(place, given)
                channels[ConversationId(id)] = replace(
                    channels[ConversationId(id)],
                    is_archived=place.kind is Kind.ARCHIVED,
                    overwrites=overwrites,
                    inherits_permissions=not len(overwrites),
                )
            elif what == "category":
                category = CategoryId(id)
                categories[category] = ChannelCategory(
                    category, "trails", len(categories), self._overwrites(place, given)
                )
        return ProposedPolicyChange(
            replace(policy, roles=roles, channels=channels, categories=categories), members=members
        )

    def _overwrites(self, place: Place, given: dict[UserId, RoleId]) -> Overwrites:
        deny, allow = Overwrite(deny=place.permission), Overwrite(allow=place.permission)
        everyone, by_role = everyone_id(self.workspace), dict.fromkeys(given.values(), deny)
        users = [*given, UserId(self.owner)]
        sees = {UserId(self.target): Overwrite(allow=BASE)}
        match place.kind:
            case Kind.DENIED_EVERYONE:
                return Overwrites({everyone: deny}, sees)
            case Kind.DENIED_ROLE:
                return Overwrites(by_role, sees)
            case Kind.DENIED_USER:
                return Overwrites({}, dict.fromkeys(users, deny) | sees)
            case Kind.ALLOWED_USER:
                return Overwrites(by_role, dict.fromkeys(users, allow) | sees)
            case Kind.ALLOWED_ROLE:
                return Overwrites({everyone: deny} | dict.fromkeys(given.values(), allow), sees)
            case Kind.ALLOWED_EVERYONE:
                return Overwrites({everyone: allow}, sees)
        return Overwrites()

    async def run(self, case: Case) -> str:
        """Try an operation, and return its outcome: ok, null, empty, or the code of the error."""
        operation, user = case.operation, self._user_of(case)
        variables = self._filled(case, operation.variables)
        if operation.document.startswith("subscription"):
            return await self._watch(user, operation.document, variables)
        answer = await self._api.run(user, operation.document, **variables)
        if "errors" in answer:
            (error,) = answer["errors"]
            return str(error["extensions"]["code"])
        if operation.undo:
            await self._api.data(self.target, operation.undo, id=self.workspace, user=user)
        (value,) = answer["data"].values()
        if value is None:
            return NULL
        return EMPTY if isinstance(value, dict) and value.get("edges") == [] else OK

    async def _watch(self, user: str | None, document: str, variables: Json) -> str:
        try:
            subscriber = await self._api.subscribe(user, document, **variables)
        except RequestRefused as refused:
            return str(refused.errors[0]["extensions"]["code"])
        await subscriber.next()
        await subscriber.stop()
        return OK

    def _user_of(self, case: Case) -> str | None:
        if case.caller is Caller.ANONYMOUS:
            return None
        operation = case.operation
        if case.caller in (Caller.EXACT, Caller.ALL_BUT):
            needs = operation.needs if operation.needs != NOTHING else Permission.MANAGE_ROLES
            also = operation.also if operation.needs != NOTHING else NOTHING
            return self._users[case.caller, needs, also]
        return self._users[case.caller]

    def _filled(self, case: Case, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(case, item) for key, item in value.items() if item is not None}
        if isinstance(value, list):
            return [self._filled(case, item) for item in value]
        if not isinstance(value, str) or not value.startswith("@"):
            return value
        return self._id(case, value)

    def _id(self, case: Case, name: str) -> str:
        channel = self._ids.get(("channel", case)) or self._ids.get(("channel", case.place))
        match name:
            case "@workspace":
                return self.workspace
            case "@target":
                return self.target
            case "@outsider":
                return self._users[Caller.OUTSIDER]
            case "@room":
                return self._ids["channel", Place()]
            case "@category":
                return self._ids.get(("category", case)) or self._ids["category", case.place]
            case "@channel":
                assert channel is not None
                return channel
            case "@message":
                assert channel is not None
                return self._messages[channel]
        what = name[1:]
        return self._ids.get((what, case)) or self._ids[what, None]


def _membership(channel: ConversationId, user: UserId) -> InsertOne[Json]:
    """Return the write of a member of a PRIVATE channel."""
    return InsertOne({"_id": member_row_id(channel, user)} | Member(user, "MEMBER", ((1, None),), 1).to_fields())

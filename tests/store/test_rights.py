"""Rights: cases, the examples that Discord documents, and a naive model of the contract's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from store.base.ids import UserId
from store.base.workspace_ids import RoleId, role_id
from store.workspaces import rights as rights_module
from store.workspaces.permissions import EVERYTHING, NOTHING, OF_EVERYONE, Permission
from store.workspaces.policy import ChannelKind, MemberFacts, Overwrite, Overwrites, Policy, Role
from store.workspaces.rights import (
    OWNER_POSITION,
    PermissionReason,
    PermissionRule,
    explain,
    highest_position,
    rights_in_channel,
    rights_in_workspace,
)
from tests.store.workspaces import (
    ADMIN,
    ALICE,
    BOB,
    CAROL,
    DAVE,
    EVERYONE,
    GENERAL,
    GUIDE,
    STAFF,
    TRAILS,
    W,
    sample_policy,
)

P = Permission
NOW = 1_795_000_000_000
LATER = NOW + 1
OTHER = role_id(W, 9)


@dataclass
class Case:
    """A member, by default Carol, in #general. `roles`: permissions of their roles, lowest first."""

    expected: Permission
    everyone: Permission = P.VIEW_CHANNEL | P.READ_HISTORY | P.SEND_MESSAGES
    roles: tuple[Permission, ...] = ()
    on_everyone: Overwrite | None = None
    on_roles: Mapping[int, Overwrite] = field(default_factory=dict)
    on_member: Overwrite | None = None
    kind: ChannelKind = ChannelKind.PUBLIC
    is_channel_member: bool = False
    user: UserId = CAROL
    timed_out_until_ms: int = 0
    is_archived: bool = False
    in_category: bool = False

    def make(self) -> tuple[Policy, MemberFacts]:
        ids = [role_id(W, 10 + number) for number in range(len(self.roles))]
        roles = [Role(EVERYONE, "everyone", 0, self.everyone)]
        given = enumerate(zip(ids, self.roles, strict=False))
        roles += [Role(id, "role", 1 + at, permissions) for at, (id, permissions) in given]
        on_roles = {ids[at]: overwrite for at, overwrite in self.on_roles.items()}
        if self.on_everyone:
            on_roles[EVERYONE] = self.on_everyone
        overwrites = Overwrites(on_roles, {self.user: self.on_member} if self.on_member else {})
        policy = sample_policy()
        channel = replace(policy.channels[GENERAL], kind=self.kind, is_archived=self.is_archived)
        category = policy.categories[TRAILS]
        if self.in_category:
            category, channel = replace(category, overwrites=overwrites), replace(channel, category=TRAILS)
        else:
            # The category's overwrites do not count: it denies everything.
            category = replace(category, overwrites=Overwrites({EVERYONE: Overwrite(deny=EVERYTHING)}))
            channel = replace(channel, category=TRAILS, overwrites=overwrites, inherits_permissions=False)
        policy = replace(
            policy,
            roles={role.id: role for role in roles},
            categories={TRAILS: category},
            channels=dict(policy.channels) | {GENERAL: channel},
        )
        return policy, MemberFacts(self.user, 1, frozenset(ids), timed_out_until_ms=self.timed_out_until_ms)

    def rights(self) -> Permission:
        policy, facts = self.make()
        return rights_in_channel(policy, facts, policy.channels[GENERAL], self.is_channel_member, NOW)

    def reasons(self) -> list[PermissionReason]:
        policy, facts = self.make()
        return explain(policy, facts, policy.channels[GENERAL], self.is_channel_member, NOW)


VIEW, READ, SEND = P.VIEW_CHANNEL, P.READ_HISTORY, P.SEND_MESSAGES
BASE = VIEW | READ | SEND
ALL_BUT_WRITING = EVERYTHING & ~(
    SEND | P.SEND_THREADS | P.CREATE_THREADS | P.ATTACH_FILES | P.EMBED_LINKS | P.MENTION_EVERYONE | P.ADD_REACTIONS
    | P.PIN_MESSAGES
)  # fmt: skip

CASES = {
    "the role of everyone": Case(BASE),
    "all roles together": Case(BASE | P.PIN_MESSAGES | P.KICK_MEMBERS, roles=(P.PIN_MESSAGES, P.KICK_MEMBERS)),
    "administrators have everything": Case(EVERYTHING, roles=(P.ADMINISTRATOR,), everyone=NOTHING),
    "everyone may be an administrator": Case(EVERYTHING, everyone=P.ADMINISTRATOR),
    "no overwrite concerns administrators": Case(
        EVERYTHING,
        roles=(P.ADMINISTRATOR,),
        on_everyone=Overwrite(deny=VIEW),
        on_roles={0: Overwrite(deny=SEND)},
        on_member=Overwrite(deny=READ),
    ),
    "the owner has everything": Case(EVERYTHING, user=ALICE, everyone=NOTHING, on_member=Overwrite(deny=EVERYTHING)),
    "the time-out of an owner has no effect": Case(EVERYTHING, user=ALICE, timed_out_until_ms=LATER),
    "a deny for everyone": Case(VIEW | READ, on_everyone=Overwrite(deny=SEND)),
    "an allow for everyone": Case(BASE | P.ADD_REACTIONS, on_everyone=Overwrite(P.ADD_REACTIONS)),
    "a role allows what everyone is denied": Case(
        BASE, roles=(NOTHING,), on_everyone=Overwrite(deny=SEND), on_roles={0: Overwrite(SEND)}
    ),
    "a role denies what everyone is allowed": Case(
        BASE, roles=(NOTHING,), on_everyone=Overwrite(P.ADD_REACTIONS), on_roles={0: Overwrite(deny=P.ADD_REACTIONS)}
    ),
    "the allow of a lower role wins over the deny of a higher one": Case(
        BASE, roles=(NOTHING, NOTHING), on_roles={0: Overwrite(SEND), 1: Overwrite(deny=SEND)}
    ),
    "the allow of a higher role wins over the deny of a lower one": Case(
        BASE, roles=(NOTHING, NOTHING), on_roles={0: Overwrite(deny=SEND), 1: Overwrite(SEND)}
    ),
    "the member's deny wins over the allow of a role": Case(
        VIEW | READ, roles=(NOTHING,), on_roles={0: Overwrite(SEND)}, on_member=Overwrite(deny=SEND)
    ),
    "the member's allow wins over the deny of a role": Case(
        BASE, roles=(NOTHING,), on_roles={0: Overwrite(deny=SEND)}, on_member=Overwrite(SEND)
    ),
    "a permission of a role is denied to everyone in the channel": Case(
        BASE, roles=(P.MANAGE_MESSAGES,), on_everyone=Overwrite(deny=P.MANAGE_MESSAGES)
    ),
    "without VIEW_CHANNEL there is nothing": Case(NOTHING, roles=(P.MANAGE_ROLES,), on_everyone=Overwrite(deny=VIEW)),
    "without SEND_MESSAGES there is nothing that needs it": Case(
        VIEW | READ | P.ADD_REACTIONS,
        everyone=OF_EVERYONE & (BASE | P.ADD_REACTIONS) | P.ATTACH_FILES | P.MENTION_EVERYONE | P.SEND_THREADS,
        on_everyone=Overwrite(deny=SEND),
    ),
    "an overwrite gives no ADMINISTRATOR": Case(BASE, on_member=Overwrite(P.ADMINISTRATOR)),
    "the category's overwrites": Case(VIEW | READ, on_everyone=Overwrite(deny=SEND), in_category=True),
    "the category's overwrite of a member": Case(
        VIEW | READ | P.MANAGE_MESSAGES, on_member=Overwrite(P.MANAGE_MESSAGES, SEND), in_category=True
    ),
    "a PRIVATE channel for others": Case(NOTHING, kind=ChannelKind.PRIVATE),
    "a PRIVATE channel for its members": Case(BASE, kind=ChannelKind.PRIVATE, is_channel_member=True),
    "a PRIVATE channel for administrators": Case(NOTHING, kind=ChannelKind.PRIVATE, roles=(P.ADMINISTRATOR,)),
    "a PRIVATE channel for the owner": Case(NOTHING, kind=ChannelKind.PRIVATE, user=ALICE),
    "a PRIVATE channel for the owner as a member": Case(
        EVERYTHING, kind=ChannelKind.PRIVATE, user=ALICE, is_channel_member=True
    ),
    "an overwrite opens no PRIVATE channel": Case(NOTHING, kind=ChannelKind.PRIVATE, on_member=Overwrite(VIEW)),
    "a time-out": Case(VIEW | READ, everyone=OF_EVERYONE, timed_out_until_ms=LATER),
    "a time-out gives nothing": Case(VIEW, everyone=VIEW | SEND, timed_out_until_ms=LATER),
    "a time-out that has ended": Case(BASE, timed_out_until_ms=NOW),
    "the time-out of an administrator": Case(VIEW | READ, roles=(P.ADMINISTRATOR,), timed_out_until_ms=LATER),
    "an archived channel": Case(
        VIEW | READ | P.MANAGE_MESSAGES,
        everyone=OF_EVERYONE & ~(P.CREATE_INVITES | P.CHANGE_NICKNAME | P.CONNECT | P.SPEAK | P.VIDEO)
        | P.PIN_MESSAGES
        | P.MANAGE_MESSAGES,
        is_archived=True,
    ),
    "an archived channel for the owner": Case(ALL_BUT_WRITING, user=ALICE, is_archived=True),
    "an archived channel for administrators": Case(ALL_BUT_WRITING, roles=(P.ADMINISTRATOR,), is_archived=True),
}

DISCORD = {
    "base: the permissions of @everyone and of all roles": Case(
        BASE | P.KICK_MEMBERS | P.CONNECT, roles=(P.KICK_MEMBERS, P.CONNECT)
    ),
    "base: the owner has all": Case(EVERYTHING, user=ALICE, everyone=NOTHING),
    "base: ADMINISTRATOR is all": Case(EVERYTHING, roles=(P.ADMINISTRATOR,), everyone=NOTHING),
    "hierarchy: role A denies VIEW_CHANNEL and role B allows it, whatever their positions": Case(
        BASE, roles=(NOTHING, NOTHING), on_roles={1: Overwrite(deny=VIEW), 0: Overwrite(VIEW)}
    ),
    "overwrites: steps 3 and 4, @everyone": Case(
        VIEW | READ | P.SPEAK, on_everyone=Overwrite(P.SPEAK, SEND), roles=(NOTHING,)
    ),
    "overwrites: steps 5 and 6, roles after @everyone": Case(
        VIEW | SEND,
        roles=(NOTHING, NOTHING),
        on_everyone=Overwrite(deny=SEND),
        on_roles={0: Overwrite(SEND), 1: Overwrite(deny=READ)},
    ),
    "overwrites: steps 7 and 8, the member last": Case(
        VIEW | READ, roles=(NOTHING,), on_roles={0: Overwrite(SEND, READ)}, on_member=Overwrite(READ, SEND)
    ),
    "overwrites: ADMINISTRATOR bypasses them": Case(
        EVERYTHING, roles=(P.ADMINISTRATOR,), on_everyone=Overwrite(deny=VIEW), on_member=Overwrite(deny=VIEW)
    ),
    "implicit: without VIEW_CHANNEL SEND_MESSAGES is ignored": Case(NOTHING, on_member=Overwrite(SEND, VIEW)),
    "implicit: without SEND_MESSAGES no mentions of everyone, files, embeds": Case(
        VIEW | READ,
        everyone=BASE | P.MENTION_EVERYONE | P.ATTACH_FILES | P.EMBED_LINKS,
        on_everyone=Overwrite(deny=SEND),
    ),
    "syncing: a channel that follows its category": Case(
        VIEW | READ, on_everyone=Overwrite(deny=SEND), in_category=True
    ),
    "time-out: all but VIEW_CHANNEL and READ_MESSAGE_HISTORY": Case(
        VIEW | READ, everyone=OF_EVERYONE, timed_out_until_ms=LATER
    ),
}
"""Each statement and step of "Permissions" in Discord's documentation for developers that Confab has too.

https://discord.com/developers/docs/topics/permissions: "Permission Hierarchy", "Permission Overwrites", "Implicit
Permissions", "Permission Syncing" and "Permissions For Timed Out Members". One differs: there, a time-out does not
concern administrators.
"""


@pytest.mark.parametrize("name", [*CASES, *DISCORD])
def test_rights_in_a_channel(name: str) -> None:
    case = (CASES | DISCORD)[name]
    assert case.rights() == case.expected
    assert Permission(sum(r.permission for r in case.reasons() if r.allowed)) == case.expected


@dataclass
class Why:
    """The reason for a permission."""

    case: Case
    permission: Permission
    rule: PermissionRule
    role: RoleId | None = None


_FIRST, _SECOND = role_id(W, 10), role_id(W, 11)
REASONS = {
    "owner": Why(CASES["the owner has everything"], SEND, PermissionRule.OWNER),
    "administrator": Why(CASES["administrators have everything"], SEND, PermissionRule.ADMINISTRATOR, _FIRST),
    "everyone": Why(CASES["the role of everyone"], SEND, PermissionRule.ROLE, EVERYONE),
    "the highest role that grants it": Why(
        Case(NOTHING, roles=(P.KICK_MEMBERS, P.KICK_MEMBERS)), P.KICK_MEMBERS, PermissionRule.ROLE, _SECOND
    ),
    "nothing grants it": Why(CASES["the role of everyone"], P.BAN_MEMBERS, PermissionRule.DEFAULT),
    "denied to everyone": Why(CASES["a deny for everyone"], SEND, PermissionRule.EVERYONE_OVERWRITE, EVERYONE),
    "allowed to a role": Why(
        CASES["the allow of a lower role wins over the deny of a higher one"],
        SEND,
        PermissionRule.ROLE_OVERWRITE,
        _FIRST,
    ),
    "allowed to the member": Why(
        CASES["the member's allow wins over the deny of a role"], SEND, PermissionRule.MEMBER_OVERWRITE
    ),
    "denied with VIEW_CHANNEL": Why(
        CASES["without VIEW_CHANNEL there is nothing"], P.MANAGE_ROLES, PermissionRule.NOT_VISIBLE
    ),
    "VIEW_CHANNEL itself": Why(
        CASES["without VIEW_CHANNEL there is nothing"], VIEW, PermissionRule.EVERYONE_OVERWRITE, EVERYONE
    ),
    "a PRIVATE channel": Why(CASES["a PRIVATE channel for the owner"], VIEW, PermissionRule.NOT_VISIBLE),
    "needs SEND_MESSAGES": Why(
        CASES["without SEND_MESSAGES there is nothing that needs it"], P.ATTACH_FILES, PermissionRule.IMPLIED
    ),
    "time-out": Why(CASES["a time-out"], SEND, PermissionRule.TIMED_OUT),
    "archived": Why(CASES["an archived channel for the owner"], P.ATTACH_FILES, PermissionRule.ARCHIVED),
}


@pytest.mark.parametrize("name", REASONS)
def test_each_rule_is_named(name: str) -> None:
    why = REASONS[name]
    (reason,) = (reason for reason in why.case.reasons() if reason.permission == why.permission)
    assert (reason.decided_by, reason.role) == (why.rule, why.role)


def test_all_permissions_are_explained_in_order() -> None:
    assert [reason.permission for reason in Case(NOTHING).reasons()] == list(Permission)


def test_rights_in_the_workspace() -> None:
    policy = sample_policy()

    def rights(user: UserId, *roles: RoleId, until: int = 0) -> Permission:
        return rights_in_workspace(policy, MemberFacts(user, 1, frozenset(roles), timed_out_until_ms=until), NOW)

    assert rights(ALICE) == rights(BOB, ADMIN) == rights(ALICE, until=LATER) == EVERYTHING
    assert rights(DAVE) == OF_EVERYONE
    assert rights(CAROL, GUIDE, OTHER) == OF_EVERYONE | P.PIN_MESSAGES
    assert rights(CAROL, GUIDE, until=LATER) == rights(BOB, ADMIN, until=LATER) == VIEW | READ
    # Channels decide what follows from VIEW_CHANNEL.
    hidden = replace(policy.roles[EVERYONE], permissions=P.MANAGE_CHANNELS)
    policy = replace(policy, roles=dict(policy.roles) | {EVERYONE: hidden})
    assert rights(DAVE) == P.MANAGE_CHANNELS


def test_the_highest_position() -> None:
    policy = sample_policy()
    assert highest_position(policy, MemberFacts(ALICE, 1)) == OWNER_POSITION
    assert highest_position(policy, MemberFacts(BOB, 1, frozenset({GUIDE, ADMIN, OTHER}))) == 2
    assert highest_position(policy, MemberFacts(DAVE, 1, frozenset({OTHER}))) == 0


def test_kept_rights_are_bounded_and_belong_to_one_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights_module, "_MAX_KEPT_RIGHTS", 2)
    policy = sample_policy()
    for roles in (frozenset({GUIDE}), frozenset({ADMIN}), frozenset({GUIDE, ADMIN})):
        rights_in_channel(policy, MemberFacts(BOB, 1, roles), policy.channels[STAFF], True, NOW)
    assert len(policy.rights_of_roles) == 1
    changed = replace(policy, roles=dict(policy.roles) | {ADMIN: replace(policy.roles[ADMIN], permissions=NOTHING)})
    facts = MemberFacts(BOB, 1, frozenset({ADMIN}))
    assert [rights_in_channel(p, facts, p.channels[STAFF], True, NOW) for p in (policy, changed)] == [
        EVERYTHING,
        OF_EVERYONE,
    ]


def test_combinations_of_permissions_are_not_kept_for_ever() -> None:
    kept = len(Permission._value2member_map_)
    combination = P.SPEAK | P.VIDEO | P.CONNECT
    assert combination == Permission(int(combination)) and hash(combination) == hash(int(combination))
    assert set(combination) == {P.SPEAK, P.VIDEO, P.CONNECT} and P.SPEAK in combination and P.SPEAK in ~P.VIDEO
    assert P.SPEAK not in ~combination and ~~combination == combination and not combination & ~combination
    # Bits of later versions are kept, so that a change of a role loses none.
    assert int(Permission(1 << 40 | 1)) == 1 << 40 | 1
    assert len(Permission._value2member_map_) == kept

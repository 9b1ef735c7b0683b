"""Which channels a change of the policy concerns: elsewhere nothing is judged again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from store.base.workspace_ids import role_id
from store.workspaces.changing.proposed_change import channels_concerned
from store.workspaces.permissions import NOTHING, Permission
from store.workspaces.policy import ChannelKind, Overwrite, Overwrites, Policy, Role
from tests.store.workspaces import ADMIN, BOB, DAVE, EVERYONE, GENERAL, GUIDE, OLD, TRAILS, W, sample_policy


def _with_role(policy: Policy, role: Role) -> dict[Any, Role]:
    return dict(policy.roles) | {role.id: role}


def test_the_channels_that_a_change_concerns() -> None:
    before = sample_policy()

    def concerned(**fields: Any) -> object:
        return channels_concerned(before, replace(before, **fields))

    category = before.categories[TRAILS]
    everyone, guide = before.everyone, before.roles[GUIDE]
    without_overwrites = {TRAILS: replace(category, overwrites=Overwrites())}
    silent = replace(before, roles=_with_role(before, replace(guide, permissions=NOTHING)))
    assert concerned() == concerned(roles=_with_role(before, replace(guide, name="x", position=3))) == frozenset()
    assert concerned(owner=BOB) is None
    assert concerned(roles=_with_role(before, replace(everyone, permissions=NOTHING))) is None
    assert concerned(roles={EVERYONE: everyone, ADMIN: before.roles[ADMIN]}) is None
    assert channels_concerned(silent, replace(silent, roles={EVERYONE: everyone, ADMIN: before.roles[ADMIN]})) == set()
    # Nobody has a new role yet.
    assert concerned(roles=_with_role(before, Role(role_id(W, 9), "new", 3, Permission.ADMINISTRATOR))) == frozenset()
    assert concerned(categories={TRAILS: replace(category, name="paths", position=9)}) == frozenset()
    assert concerned(categories=without_overwrites) == concerned(categories={}) == {OLD}

    def with_general(**fields: Any) -> object:
        channels = dict(before.channels) | {GENERAL: replace(before.channels[GENERAL], **fields)}
        return concerned(channels=channels)

    assert with_general(name="lobby", topic="x", position=8, is_default=False, member_count=5) == frozenset()
    for fields in (
        {"kind": ChannelKind.PRIVATE},
        {"is_archived": True},
        {"slow_mode_seconds": 5},
        {"full_history": False},
        {"category": TRAILS},
        {"overwrites": Overwrites({}, {DAVE: Overwrite(deny=Permission.SEND_MESSAGES)})},
    ):
        assert with_general(**fields) == {GENERAL}

"""The badge is the user's attention, whether the state of the user is cached or not."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from tests.api.channels.calls import ADD, make_workspace
from tests.api.client import Json, make_caller
from tests.api.conftest import Deployments
from tests.push.pushing import Pushing

ATTENTION = "{ attention { unread mentions } }"


@pytest.mark.parametrize("is_cached", [True, False])
async def test_the_badge_is_the_attention_of_the_user(
    pushing: Pushing, deployments: Deployments, is_cached: bool
) -> None:
    api = pushing.api
    made = await make_workspace(api)
    alice, bob, carol = await pushing.create_users("alice", "bob", "carol")
    await api.data(make_caller("service", CallerRole.SERVICE), ADD, id=made.id, users=[bob, alice])
    channel = (await made.create("trails"))["id"]
    group, muted = await api.create_group(alice, bob, carol), await api.create_group(alice, bob, carol)
    await api.send(alice, group, "one", mentions=[bob])
    await api.send(alice, muted, "two", mentions=[bob])
    await api.mute(bob, muted)
    await api.send(alice, bob, "in a shop", subBiz="shop")
    await api.send(alice, channel, "in a channel", mentions=[bob])
    parent = (await api.send(bob, group, "question"))["message"]
    await api.send(bob, parent["id"], "urgent")
    await api.send(alice, f"t_{parent['seq']}_{group}", "answer", mentions=[bob])
    await api.send(alice, bob, "last")
    attention: Json = (await api.data(bob, ATTENTION))["attention"]
    assert attention["unread"] >= 3 and attention["mentions"] >= 2
    if not is_cached:
        deployments.evict_user_state("main", bob)
    await pushing.work()
    badges = {push.message.badge for push in pushing.service.to(bob)}
    assert badges == {attention["unread"] + attention["mentions"]}

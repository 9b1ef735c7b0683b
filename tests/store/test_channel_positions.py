"""Positions of channels: dense, in the order in which they were put."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from store.base.ids import ConversationId
from store.base.workspace_ids import category_id, channel_id, workspace_id
from store.channels.positions import place_category, place_channel, remove_category
from store.workspaces.permissions import Permission
from store.workspaces.policy import Channel, ChannelCategory, ChannelKind, Overwrite, Overwrites

W = workspace_id(1)
CATEGORIES = (None, category_id(W, 1), category_id(W, 2))
STEPS = st.lists(st.tuples(st.integers(0, 7), st.sampled_from(CATEGORIES), st.none() | st.integers(0, 9)), max_size=25)


@given(STEPS)
@settings(max_examples=100)
def test_channels_are_where_a_naive_list_has_them(steps: list[tuple[int, str | None, int | None]]) -> None:
    channels: dict[ConversationId, Channel] = {}
    naive: dict[str | None, list[ConversationId]] = {category: [] for category in CATEGORIES}
    for number, category, position in steps:
        name = channel_id(W, number)
        channel = Channel(name, "c", ChannelKind.PUBLIC, 0, 0, category=category)  # type: ignore[arg-type]
        for listed in naive.values():
            if channel.id in listed:
                listed.remove(channel.id)
        at = len(naive[category]) if position is None else position
        naive[category].insert(at, channel.id)
        channels = place_channel(channels, channel, position)
        shown = {
            each: [c.id for c in sorted(channels.values(), key=lambda c: c.position) if c.category == each]
            for each in CATEGORIES
        }
        assert shown == naive
        inside = sorted(c.position for c in channels.values() if c.category == category)
        assert inside == list(range(len(inside)))


def test_channels_of_a_removed_category_keep_its_overwrites() -> None:
    overwrites = Overwrites({}, {})
    own = Overwrites(users={}, roles={f"r_{W[2:]}": Overwrite(deny=Permission.VIEW_CHANNEL)})  # type: ignore[dict-item]
    for given_overwrites, inherits in ((overwrites, True), (own, False)):
        category = ChannelCategory(category_id(W, 1), "k", 0, given_overwrites)
        channel = Channel(channel_id(W, 1), "c", ChannelKind.PUBLIC, 0, 0, category=category.id)
        other = Channel(channel_id(W, 2), "c", ChannelKind.PUBLIC, 0, 0)
        after = remove_category({channel.id: channel, other.id: other}, category)[channel.id]
        assert (after.category, after.position) == (None, 1)
        assert (after.inherits_permissions, after.overwrites) == (inherits, given_overwrites)


def test_categories_shift() -> None:
    first, second = (ChannelCategory(category_id(W, n), "k", n - 1) for n in (1, 2))
    after = place_category({first.id: first, second.id: second}, second, 0)
    assert [(each.id, each.position) for each in after.values()] == [(second.id, 0), (first.id, 1)]

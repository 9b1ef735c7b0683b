"""The recipient list of a group tells which present members were members when messages were sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from resolvers.conversations.visibility import is_visible, visible_ranges
from store.base.ids import UserId
from store.conversations.conversation import Member
from store.conversations.recipient_lists import recipient_list


def _member(user: str, bounds: list[int], *, is_current: bool) -> Member:
    ends: list[int | None] = [*sorted(bounds)]
    if is_current and len(ends) % 2 == 0:
        ends.append(21)
    if not is_current and len(ends) % 2:
        ends.append(22)
    if len(ends) % 2:
        ends.append(None)
    intervals = [(first, last) for first, last in zip(ends[::2], ends[1::2], strict=True) if first is not None]
    return Member(UserId(user), "", tuple(intervals), 0)


MEMBERS = st.lists(st.tuples(st.lists(st.integers(1, 20), min_size=1, max_size=6, unique=True), st.booleans()))


@given(MEMBERS, st.lists(st.integers(1, 24), min_size=1, max_size=3))
def test_present_members_at_messages_are_those_whose_ranges_have_them(
    drawn: list[tuple[list[int], bool]], seqs: list[int]
) -> None:
    members = [_member(f"u{n}", bounds, is_current=current) for n, (bounds, current) in enumerate(drawn)]
    expected = [
        member.user
        for member in members
        if member.is_current
        and all(is_visible(seq, visible_ranges(member, full_history=False, floor_seq=0)) for seq in seqs)
    ]
    assert recipient_list("1", members).present_at(seqs) == expected

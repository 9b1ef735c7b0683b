"""The verdict about an unread count, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.admin.source import time_text
from store.admin.unread.message_count import MOST_COUNTED, MessageCount
from store.admin.unread.stored_session import StoredSession
from store.base.ids import ConversationKind
from store.sessions.session import Session

_MOST_RANGES = 8


def ranges_text(seqs: Sequence[int]) -> str:
    """Return ascending seqs as words: "messages 3, 5 to 7 and 9"."""
    ranges: list[list[int]] = []
    for seq in seqs:
        if ranges and ranges[-1][1] + 1 == seq:
            ranges[-1][1] = seq
        else:
            ranges.append([seq, seq])
    words = [str(first) if first == last else f"{first} to {last}" for first, last in ranges[:_MOST_RANGES]]
    if len(ranges) > _MOST_RANGES:
        words.append("others")
    text = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
    return f"message{'' if len(seqs) == 1 else 's'} {text}"


def sentences_without_session(stored: StoredSession) -> Iterator[str]:
    """Yield why there is no session."""
    if stored.sees_channel is False:
        yield "The user cannot see the channel, so there is no unread count."
    elif stored.head.kind is ConversationKind.CHANNEL:
        yield "The user has no session in this channel: they never followed, read or wrote here. All of it is read."
    elif stored.head.kind is ConversationKind.GROUP and stored.member is None:
        yield "The user never was a member of the group, so there is no session."
    else:
        yield "The user has no session here, so there is no unread count."


def sentences_about(stored: StoredSession, session: Session, count: MessageCount) -> Iterator[str]:
    """Yield the verdict about the messages: which of them count, and why the others do not."""
    if not count.is_whole:
        yield (
            f"{session.unread_count:,} unread by the stored counts. More than {MOST_COUNTED:,} messages follow the "
            "read position, so they were not counted one by one."
        )
    elif count.unread:
        yield f"{count.unread_count} unread: {ranges_text(count.unread)}."
    else:
        yield f"0 unread: {_reason_for_none(stored, session, count)}."
    yield from _about_position(session)
    if count.own:
        yield (
            f"{_subject(count.own)} the user's own: sending reads everything up to there, so nothing up to seq "
            f"{count.own_seq} counts."
        )
    if count.system:
        are = "is a system message and does" if len(count.system) == 1 else "are system messages and do"
        yield f"{ranges_text(count.system).capitalize()} {are} not count."
    if count.recalled:
        count_words = "is recalled, and counts until it is" if len(count.recalled) == 1 else "are recalled, and count"
        ending = " read." if len(count.recalled) == 1 else " until they are read."
        yield f"{ranges_text(count.recalled).capitalize()} {count_words}{ending}"
    if session.muted:
        until = f" until {time_text(session.muted_until_ms)}" if session.muted_until_ms is not None else ""
        yield f"The session is muted{until}: its messages are not in the user's total."
    if session.unread_status:
        yield f"The user marked it unread at seq {session.unread_mark}; that does not change the count."
    if session.comes_from_head:
        yield "It is in no total of unread messages, and messages of others do not change its row."


def _reason_for_none(stored: StoredSession, session: Session, count: MessageCount) -> str:
    if stored.sees_channel is False or session.hidden:
        return "the user cannot see the conversation any more"
    if session.dissolved:
        return "the group has ended"
    if not session.has_counts:
        if session.deleted_n is not None:
            return f"the user deleted the session at seq {session.deleted_seq}, and no message came since that counts"
        if session.conversation.startswith("t_"):
            return "the user does not follow the thread"
        return "the session has no message yet"
    if count.first > count.last:
        return f"everything up to seq {session.write_seq} is read"
    return "no message after the read position counts"


def _about_position(session: Session) -> Iterator[str]:
    if session.read_seq == session.acknowledged_seq:
        yield f"The user has read up to seq {session.read_seq} of {session.write_seq}."
    elif session.deleted_seq is not None and session.read_seq == session.deleted_seq:
        yield (
            f"The user deleted the session at seq {session.deleted_seq}, so everything up to there counts as read "
            f"(read before: up to seq {session.acknowledged_seq})."
        )
    elif not session.dissolved:
        yield f"Messages up to seq {session.read_seq} are expired, so they do not count."
    if session.frozen:
        yield f"The user has left: messages after seq {session.last_readable_seq} are not theirs to read."


def _subject(seqs: Sequence[int]) -> str:
    return f"{ranges_text(seqs).capitalize()} {'is' if len(seqs) == 1 else 'are'}"

"""Compares threads, as the API shows them to a user, with the model."""

from __future__ import annotations

from tests.api.client import Api, Json
from tests.invariants.model.threads import ModelThread, ThreadModel

_THREAD = """id replyCount participantCount participants(first: 50) { id } lastReplyAt followerCount viewerFollows
    isLocked session { readSeq unreadCount unreadMentionCount status subBiz muteStatus unreadStatus }
    lastMessage { seq }"""
_ATTENTION = "totalUnread attention { unread mentions threads }"
_INBOX = 'inbox: sessions(first: 60, subBiz: "@threads") { edges { node { conversation { id } } } }'
_REPLIES = "edges { node { seq sender { id } state createdAt } }"


async def check_user(api: Api, model: ThreadModel, user: str) -> None:
    """Check all that a user is shown of threads: the inbox, sums, counts, followers, replies and sessions."""
    threads = list(model.threads.values())
    groups = [name for name, each in model.base.conversations.items() if each.has_had(user)]
    parts = [_ATTENTION, _INBOX]
    parts += [f'l{n}: threads(conversationId: "{name}") {{ edges {{ node {{ id }} }} }}'
              for n, name in enumerate(groups)]  # fmt: skip
    for n, thread in enumerate(threads):
        parts.append(f't{n}: thread(id: "{thread.id}") {{ {_THREAD} }}')
        if model.sees(user, thread):
            parts.append(f'm{n}: messages(conversationId: "{thread.id}", first: 100) {{ {_REPLIES} }}')
    shown = await api.data(user, "{ " + " ".join(parts) + " }")
    expected = model.attention(user)
    assert shown["attention"] == expected, f"{user}: expected {expected}, got {shown['attention']}"
    assert shown["totalUnread"] == expected["unread"]
    inbox = sorted(edge["node"]["conversation"]["id"] for edge in shown["inbox"]["edges"])
    assert inbox == sorted(t.id for t in threads if model.is_listed(user, t)), f"{user}: {inbox}"
    for n, name in enumerate(groups):
        listed = [edge["node"]["id"] for edge in shown[f"l{n}"]["edges"]]
        here = [thread.id for thread in threads if thread.conversation == name and model.sees(user, thread)]
        assert sorted(listed) == sorted(here), f"{user} threads of {name}: {listed}"
    for n, thread in enumerate(threads):
        _check_thread(model, user, thread, shown[f"t{n}"], shown.get(f"m{n}"))


def _check_thread(model: ThreadModel, user: str, thread: ModelThread, shown: Json | None, replies: Json | None) -> None:
    expected, place = model.shown(user, thread), f"{user} {thread.id}"
    assert (shown is None) == (expected is None), f"{place}: expected {expected}, got {shown}"
    if shown is None or expected is None or replies is None:
        return
    session = shown.pop("session")
    listed = [edge["node"] for edge in replies["edges"]]
    found = {
        "replies": [(each["seq"], each["sender"]["id"], each["state"] == "RECALLED") for each in listed],
        **{name: shown[name] for name in expected if name in shown},
        "participants": [each["id"] for each in shown["participants"]],
    }
    if user not in model.parent_of(thread).members:
        # The contract does not say what former members see of these.
        for name in ("isLocked", "viewerFollows"):
            del expected[name], found[name]
    assert found == expected, f"{place}:\nexpected {expected}\ngot      {found}"
    assert shown["lastReplyAt"] == (listed[-1]["createdAt"] if listed else None), place
    assert (shown["lastMessage"] and shown["lastMessage"]["seq"]) == (listed[-1]["seq"] if listed else None), place
    _check_session(model, user, thread, session)


def _check_session(model: ThreadModel, user: str, thread: ModelThread, shown: Json | None) -> None:
    mine, is_member = thread.sessions.get(user), user in model.parent_of(thread).members
    place = f"{user} {thread.id}: {mine}, {shown}"
    if mine is None:
        assert shown is None, place
        return
    assert shown is not None, place
    listed = model.is_listed(user, thread)
    unread, mentions = len(model.unread(user, thread)), model.mentions(user, thread)
    assert (shown["unreadCount"], shown["unreadMentionCount"]) == (unread, mentions), f"{place}: {unread}, {mentions}"
    assert shown["status"] == ("ACTIVE" if listed else "INVALID"), place
    if is_member:
        assert shown["readSeq"] == max(mine.read, mine.deleted), place
        assert (shown["muteStatus"], shown["unreadStatus"]) == (mine.muted, mine.reminder), place
        assert shown["subBiz"] == ("@threads" if thread.follows(user) else None), place

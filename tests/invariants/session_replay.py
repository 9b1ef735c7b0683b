"""What was missed since a cursor, event by event, in all conversations or in one, by members and by those who left."""

from __future__ import annotations

from collections import defaultdict

from subscriptions.transport.engine import RequestRefused
from tests.api.client import Refusal, parse_refusal
from tests.invariants.model_device import LIVE_MESSAGES
from tests.invariants.session_told import Ears
from tests.invariants.session_watch import Mark, Watch
from tests.invariants.session_world import World


async def replay(world: World, watch: Watch, mark: Mark, name: str | None, process: int) -> None:
    """Everything since the mark comes once, messages in order of seq, then CaughtUp; a reset only if Redis was harmed. name: of
    one conversation, which has to be one that the user is or was in."""
    model = watch.model
    try:
        heard = await world.apis[process].subscribe(mark.user, LIVE_MESSAGES, since=mark.cursor, id=name)
    except RequestRefused as refused:
        assert name is not None and not model.rooms[name].knows(mark.user), f"{mark.user} in {name}: {refused.errors}"
        assert parse_refusal(refused.errors[0]) == Refusal("NOT_FOUND", "conversationId")
        return
    assert name is None or model.rooms[name].knows(mark.user), f"{mark.user} hears of {name}"
    ears = Ears(mark.user)
    ears.missed(model, mark.told, bursts=mark.bursts != watch.bursts)
    created: defaultdict[str, list[int]] = defaultdict(list)
    while ears.replaying:
        event = await heard.next()
        ears.hear(event)
        if event["__typename"] == "MessageCreated":
            created[event["message"]["conversationId"]].append(event["message"]["seq"])
    await heard.stop()
    assert heard.pop_events() == [], "it goes on after CaughtUp, though nothing happens"
    assert not ears.skipped or mark.losses != watch.losses, f"{mark.user} is to begin anew, and nothing was lost"
    for where, seqs in created.items():
        assert seqs == sorted(seqs), f"{where}: {seqs}"
    wrong = ears.wrong(model, only=name)
    assert not wrong, f"{mark.user} missed: {wrong}"

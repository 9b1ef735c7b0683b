"""Replays the events since a cursor, in all conversations or in one, for members and former members."""

from __future__ import annotations

from collections import defaultdict

from subscriptions.transport.engine import RequestRefused
from tests.api.client import Refusal, parse_refusal
from tests.invariants.machine.checks import Checks, Mark
from tests.invariants.machine.deployment import ClockedDeployment
from tests.invariants.machine.model_device import LIVE_MESSAGES
from tests.invariants.machine.received_events import ReceivedEvents


async def replay(processes: ClockedDeployment, checks: Checks, mark: Mark, name: str | None, process: int) -> None:
    """Check that a replay since a mark has every event once, messages in order of seq, then CaughtUp.

    It may end in a reset only if Redis lost data. name: one conversation, which is refused to a user who never was a
    member.
    """
    model = checks.model
    try:
        subscription = await processes.apis[process].subscribe(mark.user, LIVE_MESSAGES, since=mark.cursor, id=name)
    except RequestRefused as refused:
        assert name is not None and not model.conversations[name].has_had(mark.user), (
            f"{mark.user} in {name}: {refused.errors}"
        )
        assert parse_refusal(refused.errors[0]) == Refusal("NOT_FOUND", "conversationId")
        return
    assert name is None or model.conversations[name].has_had(mark.user), f"{mark.user} receives events of {name}"
    received = ReceivedEvents(mark.user, processes.ids)
    received.missed(model, mark.told, bursts=mark.bursts != checks.bursts)
    created: defaultdict[str, list[int]] = defaultdict(list)
    while received.replaying:
        event = await subscription.next()
        received.note_event(event)
        if event["__typename"] == "MessageCreated":
            created[event["message"]["conversationId"]].append(event["message"]["seq"])
    await subscription.stop()
    assert subscription.pop_events() == [], "it goes on after CaughtUp, though nothing happens"
    assert not received.skipped or mark.losses != checks.losses, f"{mark.user} has to start over, and nothing was lost"
    for where, seqs in created.items():
        assert seqs == sorted(seqs), f"{where}: {seqs}"
    wrong = received.wrong(model, only=name)
    assert not wrong, f"{mark.user} missed: {wrong}"

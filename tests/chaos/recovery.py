"""How long it took after each fault until things went well again, by the clients' histories."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from tests.chaos.history import Json
from tests.chaos.record import Record


@dataclass(frozen=True, slots=True)
class Recovery:
    """Of one fault. Seconds from its healing until the first send that began after it was answered, and until the first message that
    was sent after it reached somebody by itself; None: never."""

    name: str
    send: float | None
    delivery: float | None


def recoveries(lines: list[Json], record: Record) -> list[Recovery]:
    """Of each fault that was healed, in order."""
    sends = sorted(
        (t.answered, t.invoked, t.value["message"]["id"])
        for t in record.sends()
        if t.done and isinstance(t.value, dict)
    )
    began = {id: invoked for _, invoked, id in sends}
    heard: list[tuple[float, float]] = []
    for line in lines:
        if line["what"] == "event" and line["live"] and line["event"].get("__typename") == "MessageCreated":
            id = line["event"]["message"]["id"]
            if id in began:
                heard.append((line["t"], began[id]))
    ends = [(answered, invoked) for answered, invoked, _ in sends]
    found = []
    for line in lines:
        if line["what"] == "fault" and line["state"] == "healed":
            at = line["t"]
            found.append(Recovery(line["name"], _first_after(ends, at), _first_after(heard, at)))
    return found


def _first_after(ends: list[tuple[float, float]], at: float) -> float | None:
    """ends: (when it ended, when it began), in order."""
    for ended, began in ends[bisect_left(ends, (at, 0.0)) :]:
        if began >= at:
            return ended - at
    return None


def table(found: list[Recovery]) -> list[str]:
    """A line for each kind of fault."""
    by_name: defaultdict[str, list[Recovery]] = defaultdict(list)
    for one in found:
        by_name[one.name].append(one)
    told = []
    for name, ones in sorted(by_name.items()):
        parts = [f"{name}: {len(ones)}"]
        for what, times in (("send", [o.send for o in ones]), ("delivery", [o.delivery for o in ones])):
            known = [seconds for seconds in times if seconds is not None]
            never = len(times) - len(known)
            shown = f"median {median(known):.2f} s, worst {max(known):.2f} s" if known else "-"
            parts.append(f"{what} {shown}" + (f", {never} not before the end" if never else ""))
        told.append("; ".join(parts))
    return told

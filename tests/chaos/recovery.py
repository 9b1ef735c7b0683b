"""How things went during each fault, and how long it took after it until they went well again, by the clients' histories."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from statistics import median

from tests.chaos.history import Json
from tests.chaos.record import Record


@dataclass(frozen=True, slots=True)
class Recovery:
    """Of one fault. Seconds from its healing until the first send that began after it was answered, and until the first message that
    was sent after it reached somebody by itself; None: never. Of the requests that began while it lasted: how many there were, how
    many were answered well, and after how many seconds the last of all had its answer, whatever that was."""

    name: str
    send: float | None
    delivery: float | None
    asked: int = 0
    answered: int = 0
    longest: float = 0.0


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
    begun: dict[str, float] = {}
    for line in lines:
        if line["what"] != "fault" or "lost" in line:
            continue
        at, name = line["t"], line["name"]
        if line["state"] == "begins":
            begun[name] = at
            continue
        since = begun[name.partition(" (")[0]]
        tries = [tried for tried in record.tries if since <= tried.invoked < at]
        longest = max((tried.answered - tried.invoked for tried in tries if tried.answered != inf), default=0.0)
        answered = sum(tried.done for tried in tries)
        found.append(Recovery(name, _first_after(ends, at), _first_after(heard, at), len(tries), answered, longest))
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
        asked, answered = sum(one.asked for one in ones), sum(one.answered for one in ones)
        if asked:
            longest = max(one.longest for one in ones)
            parts.append(f"meanwhile {answered / asked:.0%} of {asked} answered, the longest wait {longest:.1f} s")
        told.append("; ".join(parts))
    return told

"""Measures, from a history, how requests went during each fault, and the time until they succeed after it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from statistics import median

from tests.chaos.judges.history import Json
from tests.chaos.judges.record import Record


@dataclass(frozen=True, slots=True)
class Recovery:
    """One fault and the time after it.

    `send` and `delivery` are the seconds from its healing until the first send that began after it was answered, and
    until the first event of such a message arrived; None for never. The others count the requests that began while the
    fault lasted: all of them, the successful ones, and the longest time until any answer, in seconds.
    """

    name: str
    send: float | None
    delivery: float | None
    requests: int = 0
    successes: int = 0
    longest: float = 0.0


def recoveries(lines: list[Json], record: Record) -> list[Recovery]:
    """Return one entry for each fault that was healed, in order."""
    sends = sorted(
        (t.answered, t.invoked, t.value["message"]["id"])
        for t in record.sends()
        if t.succeeded and isinstance(t.value, dict)
    )
    began = {id: invoked for _, invoked, id in sends}
    arrived: list[tuple[float, float]] = []
    for line in lines:
        if line["what"] == "event" and line["live"] and line["event"].get("__typename") == "MessageCreated":
            id = line["event"]["message"]["id"]
            if id in began:
                arrived.append((line["t"], began[id]))
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
        successes = sum(tried.succeeded for tried in tries)
        found.append(Recovery(name, _first_after(ends, at), _first_after(arrived, at), len(tries), successes, longest))
    return found


def _first_after(ends: list[tuple[float, float]], at: float) -> float | None:
    """Return the seconds from a time to the first end of what began after it. ends: (end, begin), in order."""
    for ended, began in ends[bisect_left(ends, (at, 0.0)) :]:
        if began >= at:
            return ended - at
    return None


def table(found: list[Recovery]) -> list[str]:
    """Return a line of text for each kind of fault."""
    by_name: defaultdict[str, list[Recovery]] = defaultdict(list)
    for one in found:
        by_name[one.name].append(one)
    lines = []
    for name, ones in sorted(by_name.items()):
        parts = [f"{name}: {len(ones)}"]
        for title, times in (("send", [o.send for o in ones]), ("delivery", [o.delivery for o in ones])):
            known = [seconds for seconds in times if seconds is not None]
            never = len(times) - len(known)
            shown = f"median {median(known):.2f} s, worst {max(known):.2f} s" if known else "-"
            parts.append(f"{title} {shown}" + (f", {never} not before the end" if never else ""))
        requests, successes = sum(one.requests for one in ones), sum(one.successes for one in ones)
        if requests:
            longest = max(one.longest for one in ones)
            parts.append(
                f"meanwhile {successes / requests:.0%} of {requests} succeeded, the longest wait {longest:.1f} s"
            )
        lines.append("; ".join(parts))
    return lines

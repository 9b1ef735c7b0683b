"""Compares answers of searches with what a naive reader finds, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tests.api.client import Json
from tests.invariants.search.naive_matcher import Clause, Kind, Verdict, occurrences, plain, squeezed
from tests.invariants.search.naive_reader import Readable, judge_message
from tests.invariants.search.queries import Query
from tests.invariants.search.searching import Found


@dataclass
class Tally:
    """Counts of searches, and descriptions of faults.

    Attributes:
        leaks: Results that the user could not read at that moment.
        missing: Messages that a complete search should have found.
        others: Results that do not match, wrong order, highlights or totals.
    """

    queries: int = 0
    refused: int = 0
    pages: int = 0
    results: int = 0
    incomplete: int = 0
    leaks: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.queries} queries, {self.pages} pages, {self.results} results, {self.refused} refused, "
            f"{self.incomplete} incomplete, leaks {len(self.leaks)}, missing {len(self.missing)}, "
            f"other faults {len(self.others)}"
        )

    def expect_no_faults(self) -> None:
        faults = self.leaks + self.missing + self.others
        assert not faults, "\n".join((str(self), *faults[:10]))

    def compare(
        self, user: str, query: Query, found: Found, readable: Mapping[str, Readable], workspace: str = ""
    ) -> None:
        """Compare the pages of a search with what the user could read."""
        where = f"{user} searches {query.text!r} {query.filter}"
        verdicts = {message.id: judge_message(message, user, query, workspace) for message in readable.values()}
        self.queries += 1
        self.pages += len(found.pages)
        self.results += len(found.ids)
        self.incomplete += not found.complete
        numbers = [int(name.removeprefix("m_")) for name in found.ids]
        if numbers != sorted(set(numbers), reverse=True):
            self.others.append(f"{where}: order {found.ids}")
        possible = sum(verdict is not Verdict.NO for verdict in verdicts.values())
        self.others += [
            f"{where}: totalAtLeast {page['totalAtLeast']} of {possible}"
            for page in found.pages
            if page["totalAtLeast"] > possible
        ]
        for edge in found.edges:
            self._compare_edge(where, query, edge, readable, verdicts)
        if found.complete:
            self._find_missing(where, found, readable, verdicts)

    def _compare_edge(
        self, where: str, query: Query, edge: Json, readable: Mapping[str, Readable], verdicts: Mapping[str, Verdict]
    ) -> None:
        node = edge["node"]
        message = readable.get(node["id"])
        if message is None:
            self.leaks.append(f"{where}: not readable {node}")
            return
        if any(node[name] != message.node[name] for name in ("content", "conversationId", "seq", "editCount")):
            self.leaks.append(f"{where}: other content {node}, readable {message.node}")
        elif verdicts[message.id] is Verdict.NO:
            self.others.append(f"{where}: does not match {message}")
        fault = _check_highlights(node["content"], query.clauses, edge["highlights"])
        if fault:
            self.others.append(f"{where}: {fault} in {node['content']!r}, {edge['highlights']}")

    def _find_missing(
        self, where: str, found: Found, readable: Mapping[str, Readable], verdicts: Mapping[str, Verdict]
    ) -> None:
        ids = set(found.ids)
        # A reply and its copy in the conversation are one message in two places. One of them is enough.
        shown = ids | {_original(readable[name]) for name in ids & readable.keys()}
        self.missing += [
            f"{where}: missing {readable[name]}"
            for name, verdict in verdicts.items()
            if verdict is Verdict.MUST and _original(readable[name]) not in shown
        ]


def _original(message: Readable) -> str:
    """Return the id of the reply of which a message is the copy, else its own."""
    original = message.node.get("broadcastOf")
    return str(original["id"]) if original is not None else message.id


def _check_highlights(content: str, clauses: tuple[Clause, ...], ranges: list[Json]) -> str:
    """Return what is wrong with the highlights of a text; "": nothing."""
    places = [(each["start"], each["end"]) for each in ranges]
    if any(not 0 <= start < end <= len(content) for start, end in places):
        return "a highlight outside of the text"
    if any(one[1] > other[0] for one, other in pairwise(places)):
        return "highlights overlap or are not in order"
    if not places:
        return "no highlight"
    marked = {n for start, end in places for n in range(start, end)}
    for start, end in occurrences(content, clauses):
        if not marked.issuperset(range(start, end)):
            return f"not highlighted: {content[start:end]!r}"
    wanted = [squeezed(clause.text) for clause in clauses if not clause.excludes]
    for start, end in places:
        text = squeezed(content[start:end])
        if text and not any(each in text or text in each for each in wanted):
            return f"highlighted without reason: {content[start:end]!r}"
    words = [plain(each.text) for each in clauses if each.kind is Kind.WORD and not each.excludes]
    highlighted = plain("\n".join(content[start:end] for start, end in places))
    return next((f"no highlight for {word!r}" for word in words if word not in highlighted), "")

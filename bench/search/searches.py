"""Sends searches to a server, and measures their time and CPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.meter import cpu_seconds
from bench.search.questions import Kind, Question
from bench.threads.stage import Stage
from tests.security.attacks.measurement import percentile

SEARCH = """query ($words: String!, $filter: SearchFilter, $after: String) {
  searchMessages(query: $words, filter: $filter, first: 25, after: $after) {
    totalAtLeast complete indexedUpTo pageInfo { hasNextPage endCursor }
    edges { highlights { start end } node {
      id seq conversationId content contentType createdAt authorName sender { id displayName avatarUrl } } } } }"""


@dataclass(frozen=True, slots=True)
class Searched:
    """Questions of one kind, asked one after the other.

    Attributes:
        name: Name of the kind.
        seconds: Time until each answer.
        cpu: Seconds of CPU for each question, by process.
        found: Results of each question on the page that was asked for.
        incomplete: Number of answers that were not complete.
    """

    name: str
    seconds: Sequence[float]
    cpu: Mapping[str, float]
    found: Sequence[int]
    incomplete: int


async def search(stage: Stage, reader: str, kind: Kind, times: int, pids: Mapping[str, int]) -> Searched:
    """Ask all questions of a kind a number of times."""
    given = [await _variables(stage, reader, question) for question in kind.questions]
    asked = [variables for variables in given if variables is not None]
    seconds: list[float] = []
    found: list[int] = []
    incomplete = 0
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    for _ in range(times):
        for variables in asked:
            began = time.perf_counter()
            answer = await stage.ask(reader, SEARCH, **variables)
            seconds.append(time.perf_counter() - began)
            found.append(len(answer["edges"]))
            incomplete += not answer["complete"]
    cpu = {name: (cpu_seconds(pid) - before[name]) / max(1, len(seconds)) for name, pid in pids.items()}
    return Searched(kind.name, seconds, cpu, found, incomplete)


async def _variables(stage: Stage, reader: str, question: Question) -> dict[str, Any] | None:
    """Return the variables for the page of a question that is measured. None if there is no such page."""
    after = None
    for _ in range(question.page - 1):
        answer = await stage.ask(reader, SEARCH, words=question.query, filter=question.filter, after=after)
        if not answer["pageInfo"]["hasNextPage"]:
            return None
        after = answer["pageInfo"]["endCursor"]
    return {"words": question.query, "filter": question.filter, "after": after}


def describe(searched: Searched) -> str:
    """Return a row of a table."""
    if not searched.seconds:
        return f"| {searched.name} | - | - | - | - | - |"
    p50, p95 = (1000 * percentile(searched.seconds, share) for share in (0.5, 0.95))
    cpu = " | ".join(f"{1000 * value:.1f}" for value in searched.cpu.values())
    late = f" ({searched.incomplete} not complete)" if searched.incomplete else ""
    return f"| {searched.name} | {statistics.mean(searched.found):.1f}{late} | {p50:.1f} | {p95:.1f} | {cpu} |"

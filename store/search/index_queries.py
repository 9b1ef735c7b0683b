"""Queries of the index of messages in MongoDB, and the proposals in their rows (ADR 85)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from store.base.ids import ConversationId
from store.mongo.client import Document, Sort
from store.mongo.index_fields import BY_NEWEST, BY_TERM
from store.search.filter_terms import is_filter_term
from store.search.index_rows import SPREAD, IndexField, PlaceInRow, hash_of, places_in
from store.search.search_index import SearchCriteria
from store.text.words import LONGEST_TERM

MOST_CONVERSATIONS = 200
"""Most conversations of one query. MongoDB scans the index once for each, in the order of ids, and merges the scans.

This is MongoDB's parameter internalQueryMaxScansToExplode. For more conversations it would read and sort all rows.
"""

_MOST_READ_TERMS = 20
"""Most terms of a row with the beginning that are read."""

_CLEARLY_LONGER = 2
_FIRST_OF_EAST_ASIA = "\u2e80"
_EAST_ASIAN_WEIGHT = 3
"""Number of letters that are about as rare as one Chinese, Japanese or Korean character."""

_F = IndexField
_WITH_BEGINNING = "b"
_OF_TERMS = "h"
"""Fields of answers: terms of the row that have the beginning, and terms of the criteria that the row has."""


class IndexQuery(NamedTuple):
    """The arguments of a find in `search`."""

    query: Document
    projection: Document
    hint: Sort
    sort: Sort | None


def main_term(criteria: SearchCriteria) -> str | None:
    """Return the term to look up: the word that is probably the rarest, else that of a filter, else None."""
    words = [term for term in criteria.terms if not is_filter_term(term)]
    return max(words or criteria.terms, key=_weight, default=None)


def looks_up_beginning(criteria: SearchCriteria) -> bool:
    """Return whether the beginning is looked up: there are no words, or all of them are clearly shorter."""
    words = [_weight(term) for term in criteria.terms if not is_filter_term(term)]
    return bool(criteria.beginning) and (not words or _weight(criteria.beginning) > max(words) + _CLEARLY_LONGER)


def newest_query(criteria: SearchCriteria, conversations: Sequence[ConversationId]) -> IndexQuery:
    """Return the query for the rows that match and have only messages before `before_id`, newest first."""
    bounds = {"$gte": criteria.first_id}
    if criteria.before_id is not None:
        bounds["$lt"] = criteria.before_id
    query = _matching(criteria, conversations) | {_F.NEWEST: bounds}
    hint = BY_NEWEST if main_term(criteria) is None else BY_TERM
    return IndexQuery(query, _projection(criteria), hint, ((_F.NEWEST, -1),))


def overlapping_query(criteria: SearchCriteria, conversations: Sequence[ConversationId], before_id: int) -> IndexQuery:
    """Return the query for the rows that match and have messages before `before_id` as well as others."""
    bounds = {"$gte": max(before_id, criteria.first_id), "$lt": before_id + SPREAD}
    query = _matching(criteria, conversations) | {_F.NEWEST: bounds, _F.OLDEST: {"$lt": before_id}}
    hint = BY_NEWEST if main_term(criteria) is None else BY_TERM
    return IndexQuery(query, _projection(criteria), hint, None)


def beginning_query(criteria: SearchCriteria, conversations: Sequence[ConversationId]) -> IndexQuery:
    """Return the query for the rows that have the beginning. Their other terms are compared by `RowMatcher`."""
    bounds = {"$gte": criteria.first_id}
    if criteria.before_id is not None:
        bounds["$lt"] = criteria.before_id + SPREAD
    has_one = {"$elemMatch": _range(criteria.beginning)}
    query = {_F.CONVERSATION: {"$in": list(conversations)}, _F.TERMS: has_one, _F.NEWEST: bounds}
    projection = _projection(criteria)
    if terms := {*criteria.terms, *(term for group in criteria.any_of for term in group)}:
        projection[_OF_TERMS] = {"$setIntersection": [f"${_F.TERMS}", [_literal(term) for term in sorted(terms)]]}
    return IndexQuery(query, projection, BY_TERM, None)


class RowMatcher:
    """Finds the messages of a row that may match."""

    def __init__(self, criteria: SearchCriteria) -> None:
        self._criteria = criteria
        self._terms = set(criteria.terms)
        self._hashes = frozenset(map(hash_of, criteria.terms))
        self._groups = [frozenset(map(hash_of, group)) for group in criteria.any_of]

    def places(self, row: Document) -> Iterator[PlaceInRow]:
        """Yield the messages that may match, with ids between the bounds."""
        present = row.get(_OF_TERMS)
        if present is not None and not self._may_match(set(present)):
            return
        beginnings = row.get(_WITH_BEGINNING, ())
        # If not all terms with the beginning were read, any message may have one.
        compares = 0 < len(beginnings) < _MOST_READ_TERMS
        hashes = frozenset(map(hash_of, beginnings)) if compares else None
        before_id = self._criteria.before_id
        for place in places_in(row):
            if place.id < self._criteria.first_id or (before_id is not None and place.id >= before_id):
                continue
            if place.hashes is None or self._has_terms(place.hashes, hashes):
                yield place

    def _may_match(self, present: set[str]) -> bool:
        return self._terms <= present and all(not present.isdisjoint(group) for group in self._criteria.any_of)

    def _has_terms(self, hashes: frozenset[int], beginnings: frozenset[int] | None) -> bool:
        return (
            self._hashes <= hashes
            and (beginnings is None or not hashes.isdisjoint(beginnings))
            and all(not hashes.isdisjoint(group) for group in self._groups)
        )


def _matching(criteria: SearchCriteria, conversations: Sequence[ConversationId]) -> Document:
    """Return the query for rows that match. Only the main term is looked up in the index."""
    query: Document = {_F.CONVERSATION: {"$in": list(conversations)}}
    main = main_term(criteria)
    missing: list[Document] = [{_F.TERMS: {"$ne": term}} for term in criteria.terms if term != main]
    missing += [{_F.TERMS: {"$nin": list(group)}} for group in criteria.any_of]
    if criteria.beginning:
        missing.append({_F.TERMS: {"$not": {"$elemMatch": _range(criteria.beginning)}}})
    if main is not None:
        query[_F.TERMS] = main
    if missing:
        # MongoDB looks none of these up in the index. In another form it might choose one of them.
        query["$nor"] = missing
    return query


def _range(beginning: str) -> dict[str, Any]:
    # No term is longer than LONGEST_TERM, so none with this beginning is after the end of the range.
    first = beginning[:LONGEST_TERM]
    return {"$gte": first, "$lte": first + "\U0010ffff" * LONGEST_TERM}


def _projection(criteria: SearchCriteria) -> Document:
    projection: Document = {"_id": 0, _F.CONVERSATION: 1, _F.NEWEST: 1, _F.MESSAGES: 1}
    if criteria.beginning:
        first, last = (_literal(bound) for bound in _range(criteria.beginning).values())
        is_inside = {"$and": [{"$gte": ["$$this", first]}, {"$lte": ["$$this", last]}]}
        inside = {"$filter": {"input": f"${_F.TERMS}", "as": "this", "cond": is_inside}}
        projection[_WITH_BEGINNING] = {"$slice": [inside, _MOST_READ_TERMS]}
    return projection


def _literal(term: str) -> Document:
    # A term that begins with `$` would be the name of a field.
    return {"$literal": term}


def _weight(term: str) -> int:
    return sum(_EAST_ASIAN_WEIGHT if character >= _FIRST_OF_EAST_ASIA else 1 for character in term)

"""Limits the shape of a document, valid or not: depth, width, repetition and directives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
)

from schema.execution.query_limits import MAX_COUNT, QueryLimits, fragments_of, limit_error

_INTROSPECTION = frozenset({"__schema", "__type"})
_INTROSPECTION_LISTS = frozenset({"fields", "inputFields", "interfaces", "possibleTypes"})


def check_shape(document: DocumentNode, limits: QueryLimits) -> None:
    """Check every operation of a document, valid or not, against the limits on shape.

    Raises:
        GraphQLError: QUERY_TOO_COMPLEX.
    """
    ShapeAnalysis(document, limits).check()


@dataclass(frozen=True, slots=True)
class Shape:
    """Measures of a selection set, with fragments expanded."""

    depth: int = 0
    lists: int = 0
    """Introspection's lists inside one another, if the selection set is inside introspection."""
    introspection_depth: int = 0
    introspection_lists: int = 0
    nesting: int = 0
    width: int = 0
    """Fields of the selection set itself."""
    fields: int = 0
    aliases: int = 0

    @staticmethod
    def of_selection_set(selections: Iterable[Shape]) -> Shape:
        """Return the shape of a selection set that consists of these selections."""
        parts = tuple(selections)
        return Shape(
            depth=max((part.depth for part in parts), default=0),
            lists=max((part.lists for part in parts), default=0),
            introspection_depth=max((part.introspection_depth for part in parts), default=0),
            introspection_lists=max((part.introspection_lists for part in parts), default=0),
            nesting=1 + max((part.nesting for part in parts), default=0),
            width=min(MAX_COUNT, sum(part.width for part in parts)),
            fields=min(MAX_COUNT, sum(part.fields for part in parts)),
            aliases=min(MAX_COUNT, sum(part.aliases for part in parts)),
        )

    def below(self, field: FieldNode) -> Shape:
        """Return the shape of a field whose selection set has this shape."""
        name = field.name.value
        introspects = name in _INTROSPECTION
        return Shape(
            depth=1 if introspects else 1 + self.depth,
            lists=self.lists + (name in _INTROSPECTION_LISTS),
            introspection_depth=1 + self.depth if introspects else self.introspection_depth,
            introspection_lists=self.lists if introspects else self.introspection_lists,
            nesting=self.nesting,
            width=1,
            fields=min(MAX_COUNT, 1 + self.fields),
            aliases=min(MAX_COUNT, self.aliases + (field.alias is not None)),
        )


class ShapeAnalysis:
    """Measures one document."""

    def __init__(self, document: DocumentNode, limits: QueryLimits) -> None:
        self.visits = 0
        """Selections visited so far."""
        self._limits = limits
        self._document = document
        self._fragments = fragments_of(document)
        self._fragment_shapes: dict[str, Shape] = {}
        self._level = 0

    def check(self) -> None:
        """Measure the document. Raises GraphQLError for the first limit that it exceeds."""
        limits = self._limits
        operations = [node for node in self._document.definitions if isinstance(node, OperationDefinitionNode)]
        self._check_limit("max_operations", limits.max_operations, len(operations), "operations in one document")
        self._check_limit("max_fragments", limits.max_fragments, len(self._fragments), "fragments in one document")
        for operation in operations:
            self._check_directives(operation)
            for variable in operation.variable_definitions or ():
                self._check_directives(variable)
            shape = self._of_selection_set(operation.selection_set)
            self._check_limit("max_depth", limits.max_depth, shape.depth, "levels of fields")
            self._check_limit("max_nesting", limits.max_nesting, shape.nesting, "selection sets inside one another")
            self._check_limit(
                "max_introspection_depth",
                limits.max_introspection_depth,
                shape.introspection_depth,
                "levels of introspection",
            )
            self._check_limit(
                "max_introspection_lists",
                limits.max_introspection_lists,
                shape.introspection_lists,
                "lists of introspection inside one another",
            )
            self._check_limit("max_root_fields", limits.max_root_fields, shape.width, "root fields")
            self._check_limit("max_aliases", limits.max_aliases, shape.aliases, "aliases")
            self._check_limit("max_fields", limits.max_fields, shape.fields, "fields")

    def _of_selection_set(self, selections: SelectionSetNode | None) -> Shape:
        if selections is None:
            return Shape()
        self._level += 1
        self._check_limit("max_nesting", self._limits.max_nesting, self._level, "selection sets inside one another")
        self._check_repeats(selections)
        shape = Shape.of_selection_set([self._of_selection(selection) for selection in selections.selections])
        self._level -= 1
        return shape

    def _of_selection(self, selection: SelectionNode) -> Shape:
        self.visits += 1
        self._check_directives(selection)
        match selection:
            case FieldNode():
                return self._of_selection_set(selection.selection_set).below(selection)
            case InlineFragmentNode():
                return self._of_selection_set(selection.selection_set)
            case FragmentSpreadNode():
                return self._of_fragment(selection.name.value)
            case _:
                return Shape()

    def _of_fragment(self, name: str) -> Shape:
        if name not in self._fragment_shapes:
            # A fragment that spreads itself finds this empty shape.
            self._fragment_shapes[name] = Shape()
            definition = self._fragments.get(name)
            if definition is not None:
                self._check_directives(definition)
                self._fragment_shapes[name] = self._of_selection_set(definition.selection_set)
        return self._fragment_shapes[name]

    def _check_repeats(self, selections: SelectionSetNode) -> None:
        repeats = Counter(map(_response_key, selections.selections))
        repeats.pop(None, None)
        if repeats:
            most = max(repeats.values())
            self._check_limit("max_repeats", self._limits.max_repeats, most, "times the same selection")

    def _check_directives(self, node: Any) -> None:
        if node.directives:
            count = len(node.directives)
            self._check_limit("max_directives", self._limits.max_directives, count, "directives in one place")

    def _check_limit(self, limit: str, allowed: int, found: int, counted: str) -> None:
        if found > allowed:
            raise limit_error(limit, allowed, found, counted)


def _response_key(selection: SelectionNode) -> str | None:
    match selection:
        case FieldNode():
            return (selection.alias or selection.name).value
        case FragmentSpreadNode():
            return f"...{selection.name.value}"
        case _:
            return None

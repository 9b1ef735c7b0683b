"""How much one request may ask for: bounds on its text and its shape. For the rows it leads to: `query_cost`.

    parse_limited            before parsing       characters, tokens, brackets
    check_shape              before validation    depth, fields, aliases, repetition, directives, introspection
    query_cost.check_cost    before execution     rows of pages inside pages, and values; needs the variables

Each takes time linear in the size of the document: what a fragment holds is worked out once, however often it is
spread. Unknown fragments and cycles of fragments count as empty: validation reports them.

A document past a limit is refused with QUERY_TOO_COMPLEX, and extensions that say which limit and how far.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    parse,
)

from resolvers.base.errors import InvalidInput, QueryTooComplex


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one request may ask for. Fields and aliases are counted with fragments expanded, per operation."""

    max_characters: int = 50_000
    max_tokens: int = 3_000
    """Comments included."""
    max_brackets: int = 64
    """Brackets, braces and parentheses open at the same time: parsing recurses as deep."""
    max_operations: int = 20
    """In a document: GraphiQL sends all that stand in its editor."""
    max_depth: int = 15
    """Fields inside one another, introspection apart."""
    max_nesting: int = 100
    """Selection sets inside one another, opened by a field or a fragment: execution recurses as deep."""
    max_introspection_depth: int = 20
    max_introspection_lists: int = 2
    """Lists of types or fields inside one another: the answer grows with the power."""
    max_fields: int = 1_000
    max_root_fields: int = 50
    max_aliases: int = 30
    max_repeats: int = 5
    """Of one name in one selection set: validation takes time by the square."""
    max_directives: int = 5
    """In one place."""
    max_nodes: int = 10_000
    """Rows: 100 groups with 50 members each are 5,100."""
    max_values: int = 50_000
    """Fields of all these rows."""
    default_page: int = 50
    """Rows where a page is neither asked for nor set by the schema."""
    max_page: int = 100
    """What a page counts as at most: the field itself refuses more."""


def parse_limited(source: str, limits: QueryLimits) -> DocumentNode:
    """The document that `source` spells. Raises GraphQLError: QUERY_TOO_COMPLEX, or INVALID_INPUT for a syntax
    error. Never a RecursionError."""
    _check_text(source, limits)
    try:
        return parse(source)
    except GraphQLError as error:
        error.extensions = {"code": InvalidInput.code, "retryable": InvalidInput.retryable}
        raise


def check_shape(document: DocumentNode, limits: QueryLimits) -> None:
    """Every operation of the document, valid or not, lies within the limits on shape. Raises GraphQLError."""
    ShapeSurvey(document, limits).check()


def refuse(limit: str, allowed: int, found: int, what: str) -> GraphQLError:
    """The error for a limit (a field of QueryLimits) that is passed."""
    return GraphQLError(
        f"The query is too complex: {found:,} {what}, where {allowed:,} are allowed.",
        extensions={
            "code": QueryTooComplex.code,
            "retryable": QueryTooComplex.retryable,
            "limit": limit,
            "allowed": allowed,
            "found": found,
        },
    )


# --- text

_TOKEN = re.compile(
    r'''"""(?: \\""" | [^"] | "(?!"") )*+ (?:"""|\Z)  # an unterminated string is the parser's to report
      | "(?: \\. | [^"\\\r\n] )*+ "?
      | \#[^\r\n]*+
      | \.\.\.
      | [\w.+-]++
      | (?P<opening> [\[{(] )
      | (?P<closing> [\]})] )
      | [^\s,]''',
    re.VERBOSE,
)


def _check_text(source: str, limits: QueryLimits) -> None:
    if len(source) > limits.max_characters:
        raise refuse("max_characters", limits.max_characters, len(source), "characters")
    open_now = 0
    for count, token in enumerate(_TOKEN.finditer(source), start=1):
        if count > limits.max_tokens:
            raise refuse("max_tokens", limits.max_tokens, count, "tokens or more")
        match token.lastgroup:
            case "opening":
                open_now += 1
                if open_now > limits.max_brackets:
                    raise refuse("max_brackets", limits.max_brackets, open_now, "brackets or more inside one another")
            case "closing":
                open_now -= 1


# --- shape

_INTROSPECTION = frozenset({"__schema", "__type"})
_INTROSPECTION_LISTS = frozenset({"fields", "inputFields", "interfaces", "possibleTypes"})

MANY = 1_000_000_000
"""Where counting stops: fragments double their number every eight tokens."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a selection set holds, fragments expanded."""

    depth: int = 0
    lists: int = 0
    """Introspection's lists inside one another, if this is introspection."""
    introspection_depth: int = 0
    introspection_lists: int = 0
    nesting: int = 0
    width: int = 0
    """Fields of this set itself."""
    fields: int = 0
    aliases: int = 0

    @staticmethod
    def of_all(parts: Iterable[Shape]) -> Shape:
        """A selection set with these parts side by side."""
        parts = tuple(parts)
        return Shape(
            depth=max((part.depth for part in parts), default=0),
            lists=max((part.lists for part in parts), default=0),
            introspection_depth=max((part.introspection_depth for part in parts), default=0),
            introspection_lists=max((part.introspection_lists for part in parts), default=0),
            nesting=1 + max((part.nesting for part in parts), default=0),
            width=min(MANY, sum(part.width for part in parts)),
            fields=min(MANY, sum(part.fields for part in parts)),
            aliases=min(MANY, sum(part.aliases for part in parts)),
        )

    def under(self, field: FieldNode) -> Shape:
        """A field with this inside."""
        name = field.name.value
        introspects = name in _INTROSPECTION
        return Shape(
            depth=1 if introspects else 1 + self.depth,
            lists=self.lists + (name in _INTROSPECTION_LISTS),
            introspection_depth=1 + self.depth if introspects else self.introspection_depth,
            introspection_lists=self.lists if introspects else self.introspection_lists,
            nesting=self.nesting,
            width=1,
            fields=min(MANY, 1 + self.fields),
            aliases=min(MANY, self.aliases + (field.alias is not None)),
        )


class ShapeSurvey:
    """One look at a document, valid or not."""

    def __init__(self, document: DocumentNode, limits: QueryLimits) -> None:
        self.visits = 0
        """Selections looked at so far."""
        self._limits = limits
        self._document = document
        self._fragments = fragments_of(document)
        self._shapes: dict[str, Shape] = {}
        self._level = 0

    def check(self) -> None:
        """Raises GraphQLError for the first limit that is passed."""
        limits = self._limits
        operations = [node for node in self._document.definitions if isinstance(node, OperationDefinitionNode)]
        self._hold("max_operations", limits.max_operations, len(operations), "operations in one document")
        for operation in operations:
            self._check_directives(operation)
            for variable in operation.variable_definitions or ():
                self._check_directives(variable)
            shape = self._of_set(operation.selection_set)
            self._hold("max_depth", limits.max_depth, shape.depth, "levels of fields")
            self._hold("max_nesting", limits.max_nesting, shape.nesting, "selection sets inside one another")
            self._hold(
                "max_introspection_depth",
                limits.max_introspection_depth,
                shape.introspection_depth,
                "levels of introspection",
            )
            self._hold(
                "max_introspection_lists",
                limits.max_introspection_lists,
                shape.introspection_lists,
                "lists of introspection inside one another",
            )
            self._hold("max_root_fields", limits.max_root_fields, shape.width, "root fields")
            self._hold("max_aliases", limits.max_aliases, shape.aliases, "aliases")
            self._hold("max_fields", limits.max_fields, shape.fields, "fields")

    def _of_set(self, selections: SelectionSetNode | None) -> Shape:
        if selections is None:
            return Shape()
        self._level += 1
        self._hold("max_nesting", self._limits.max_nesting, self._level, "selection sets inside one another")
        self._check_repeats(selections)
        shape = Shape.of_all([self._of_selection(selection) for selection in selections.selections])
        self._level -= 1
        return shape

    def _of_selection(self, selection: SelectionNode) -> Shape:
        self.visits += 1
        self._check_directives(selection)
        match selection:
            case FieldNode():
                return self._of_set(selection.selection_set).under(selection)
            case InlineFragmentNode():
                return self._of_set(selection.selection_set)
            case FragmentSpreadNode():
                return self._of_fragment(selection.name.value)
            case _:
                return Shape()

    def _of_fragment(self, name: str) -> Shape:
        if name not in self._shapes:
            self._shapes[name] = Shape()  # what a fragment finds that leads back to itself
            definition = self._fragments.get(name)
            if definition is not None:
                self._check_directives(definition)
                self._shapes[name] = self._of_set(definition.selection_set)
        return self._shapes[name]

    def _check_repeats(self, selections: SelectionSetNode) -> None:
        repeats = Counter(map(_response_key, selections.selections))
        repeats.pop(None, None)
        if repeats:
            self._hold("max_repeats", self._limits.max_repeats, max(repeats.values()), "times the same selection")

    def _check_directives(self, node: Any) -> None:
        if node.directives:
            self._hold("max_directives", self._limits.max_directives, len(node.directives), "directives in one place")

    def _hold(self, limit: str, allowed: int, found: int, what: str) -> None:
        if found > allowed:
            raise refuse(limit, allowed, found, what)


def _response_key(selection: SelectionNode) -> str | None:
    match selection:
        case FieldNode():
            return (selection.alias or selection.name).value
        case FragmentSpreadNode():
            return f"...{selection.name.value}"
        case _:
            return None


def fragments_of(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    """The document's fragments by name."""
    return {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}

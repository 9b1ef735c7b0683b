"""Limits on the size of one request, and the check of its text.

Three checks apply them:

    parse_limited             before parsing       characters, tokens, brackets, fragments; aliases of all operations
    query_shape.check_shape   before validation    depth, fields, aliases, repetition, directives, introspection
    query_cost.check_cost     before execution     rows of pages inside pages, and values; needs the variables

The real number of items in lists without `first` is known only during the execution, which stops after too many values.

Each takes time linear in the size of the document: a fragment is measured once, however often it is spread. Unknown
fragments and cycles of fragments count as empty; validation reports them.

A document that exceeds a limit is refused with QUERY_TOO_COMPLEX. The error's extensions name the limit and the values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphql import DocumentNode, FragmentDefinitionNode, GraphQLError, parse

from resolvers.base.errors import InvalidInput, QueryTooComplex

MAX_COUNT = 1_000_000_000
"""Counting stops here: nested fragments can double a count with every eight tokens."""


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of one request. Fields and aliases are counted per operation, with fragments expanded."""

    max_characters: int = 50_000
    max_tokens: int = 3_000
    """Comments included."""
    max_brackets: int = 64
    """Brackets, braces and parentheses open at the same time. Parsing recurses as deep."""
    max_operations: int = 20
    """Operations in one document. GraphiQL sends all operations in its editor."""
    max_fragments: int = 100
    """Fragments in one document. The time of validation grows with the square of those in one selection set."""
    max_depth: int = 15
    """Levels of fields inside one another, without introspection."""
    max_nesting: int = 100
    """Selection sets inside one another, of fields and fragments. Execution recurses as deep."""
    max_introspection_depth: int = 20
    max_introspection_lists: int = 2
    """Lists of types or fields inside one another. The response grows exponentially with them."""
    max_fields: int = 1_000
    max_root_fields: int = 50
    max_aliases: int = 30
    max_repeats: int = 5
    """Selections of the same name in one selection set. The time of validation grows with the square."""
    max_directives: int = 5
    """Directives on one selection, variable, fragment or operation."""
    max_nodes: int = 10_000
    """Rows if every page is full. 100 groups with 50 members each are 5,100."""
    max_values: int = 50_000
    """Fields of all these rows. A query is stopped when it has produced more."""
    max_event_values: int = 200_000
    """Values after which a mutation, or the rendering of an event, is stopped. More than in a query, because the
    mutation has made its change, and the subscription would get the same event again."""
    default_page: int = 50
    """Rows of a page whose size neither the query nor the schema gives."""
    max_page: int = 100
    """Largest page size that is counted; the field itself refuses larger pages."""


def parse_limited(source: str, limits: QueryLimits) -> DocumentNode:
    """Parse a document, if its text is within the limits. Never raises RecursionError.

    Raises:
        GraphQLError: QUERY_TOO_COMPLEX, or INVALID_INPUT for a syntax error.
    """
    _check_text(source, limits)
    try:
        document = parse(source)
    except GraphQLError as error:
        error.extensions = {"code": InvalidInput.code, "retryable": InvalidInput.retryable}
        raise
    _unlink_tokens(document)
    return document


def _unlink_tokens(document: DocumentNode) -> None:
    """Break the reference cycles of the tokens. Then a document is released at once, not by garbage collection."""
    token = document.loc.start_token if document.loc is not None else None
    while token is not None:
        following, token.prev, token.next = token.next, None, None
        token = following


def limit_error(limit: str, allowed: int, found: int, counted: str) -> GraphQLError:
    """Return the error for a document that exceeds a limit.

    Args:
        limit: A field of QueryLimits.
        allowed: The limit's value.
        found: The document's value.
        counted: A noun in the plural for the message.
    """
    return GraphQLError(
        f"The query is too complex: {found:,} {counted}, where {allowed:,} are allowed.",
        extensions={
            "code": QueryTooComplex.code,
            "retryable": QueryTooComplex.retryable,
            "limit": limit,
            "allowed": allowed,
            "found": found,
        },
    )


def fragments_of(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    """Return the document's fragments by name."""
    return {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}


_TOKEN = re.compile(
    r'''"""(?: \\""" | [^"] | "(?!"") )*+ (?:"""|\Z)  # the parser reports an unterminated string
      | "(?: \\. | [^"\\\r\n] )*+ "?
      | \#[^\r\n]*+
      | \.\.\.
      | [\w.+-]++
      | (?P<opening> [\[{(] )
      | (?P<closing> [\]})] )
      | (?P<colon> : )
      | [^\s,]''',
    re.VERBOSE,
)


def tokens_of(source: str) -> list[str]:
    """Return the tokens of a document's text. Comments are left out."""
    return [token[0] for token in _TOKEN.finditer(source) if not token[0].startswith("#")]


def _check_text(source: str, limits: QueryLimits) -> None:
    if len(source) > limits.max_characters:
        raise limit_error("max_characters", limits.max_characters, len(source), "characters")
    open_brackets = open_parentheses = definitions = fragments = aliases = 0
    for count, token in enumerate(_TOKEN.finditer(source), start=1):
        if count > limits.max_tokens:
            raise limit_error("max_tokens", limits.max_tokens, count, "tokens or more")
        match token.lastgroup:
            case "opening":
                definitions += not open_brackets and token[0] == "{"
                open_parentheses += token[0] == "("
                open_brackets += 1
                if open_brackets > limits.max_brackets:
                    raise limit_error(
                        "max_brackets", limits.max_brackets, open_brackets, "brackets or more inside one another"
                    )
            case "closing":
                open_parentheses -= token[0] == ")"
                open_brackets -= 1
            case "colon":
                # Inside parentheses it separates the name of an argument, variable or input field.
                aliases += not open_parentheses
            case _ if not open_brackets and token[0] == "fragment":
                fragments += 1
    if fragments > limits.max_fragments:
        raise limit_error("max_fragments", limits.max_fragments, fragments, "fragments in one document")
    # All fragments are used in a valid document, so one of the operations has at least the average number of aliases.
    operations = max(1, min(definitions - fragments, limits.max_operations))
    if aliases > limits.max_aliases * operations:
        raise limit_error("max_aliases", limits.max_aliases, -(-aliases // operations), "aliases")

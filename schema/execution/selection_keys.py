"""Recognises subscriptions with equal selections, whose responses can be shared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    Node,
    OperationDefinitionNode,
    VariableNode,
    print_ast,
)


@dataclass(frozen=True, slots=True)
class SelectionKey:
    """A subscription's selection in a normal form, and the variables in it.

    The arguments of the root field are left out: they decide where events begin, not how an event is rendered.
    """

    text: str
    variables: tuple[str, ...]


def selection_key(document: DocumentNode, operation: OperationDefinitionNode) -> SelectionKey:
    """Return the key of a subscription in a validated document."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    parts: list[Node] = [_without_arguments(selection) for selection in operation.selection_set.selections]
    spreads: dict[str, None] = {}
    variables: dict[str, None] = {}
    for part in parts:
        for node in _walk(part):
            if isinstance(node, VariableNode):
                variables[node.name.value] = None
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in spreads:
                spreads[node.name.value] = None
                parts.append(fragments[node.name.value])
    parts[len(operation.selection_set.selections) :] = [fragments[name] for name in sorted(spreads)]
    return SelectionKey("\n".join(map(print_ast, parts)), tuple(sorted(variables)))


def _without_arguments(selection: Node) -> Node:
    return replace(selection, arguments=()) if isinstance(selection, FieldNode) else selection


def _walk(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes below it."""
    yield node
    for key in node.keys:
        child = getattr(node, key, None)
        if isinstance(child, Node):
            yield from _walk(child)
        elif isinstance(child, (list, tuple)):
            for item in child:
                yield from _walk(item)

"""What two subscriptions have to have in common to be shown the same: the selection, and the variables it uses."""

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
class SelectionText:
    """A subscription's selection, spelt in one way. The arguments of its field are no part of it: they say where events begin, not
    how each is shown."""

    text: str
    variables: tuple[str, ...]


def selection_text(document: DocumentNode, operation: OperationDefinitionNode) -> SelectionText:
    """The selection of one of a validated document's subscriptions."""
    fragments = {node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)}
    parts: list[Node] = [_without_arguments(selection) for selection in operation.selection_set.selections]
    spread: dict[str, None] = {}
    variables: dict[str, None] = {}
    for part in parts:
        for node in _inside(part):
            if isinstance(node, VariableNode):
                variables[node.name.value] = None
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in spread:
                spread[node.name.value] = None
                parts.append(fragments[node.name.value])
    parts[len(operation.selection_set.selections) :] = [fragments[name] for name in sorted(spread)]
    return SelectionText("\n".join(map(print_ast, parts)), tuple(sorted(variables)))


def _without_arguments(selection: Node) -> Node:
    return replace(selection, arguments=()) if isinstance(selection, FieldNode) else selection


def _inside(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for key in node.keys:
        child = getattr(node, key, None)
        if isinstance(child, Node):
            yield from _inside(child)
        elif isinstance(child, (list, tuple)):
            for each in child:
                yield from _inside(each)

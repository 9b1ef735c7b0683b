"""The steps of a selection without generated code: one field of one object at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from graphql import GraphQLError, Node
from graphql.pyutils import is_awaitable

from schema.compiler.execution import PENDING, Complete, ExecutionState, ResponsePath
from schema.compiler.field_resolution import SelectedField
from schema.compiler.object_code import CompleteObject, PlannedField, Settle, Step, TypeNameField


def settle(field: SelectedField, complete: Complete) -> Settle:
    """Return the function that handles any value of a field."""
    nodes = field.nodes

    def settle_value(value: Any, path: ResponsePath, state: ExecutionState) -> None:
        if is_awaitable(value):
            state.pending.append((value, path, nodes, complete))
            return
        completed = complete(value, path, state)
        if completed is not PENDING:
            path[3][path[1]] = completed

    return settle_value


def step(planned: PlannedField | TypeNameField) -> Step:
    """Return the step of one field, without generated code."""
    if isinstance(planned, TypeNameField):
        return partial(_put_type_name, planned)
    key, type_name, nodes = planned.key, planned.field.parent.name, planned.field.nodes
    nullable, resolve, settle_value = not planned.required, planned.resolve, planned.settle

    def put(source: Any, out: dict[str, Any], parent_path: ResponsePath | None, state: ExecutionState) -> None:
        path = (parent_path, key, type_name, out, nullable)
        out[key] = None
        try:
            settle_value(resolve(source, path, state), path, state)
        except Exception as raw:
            state.record_error(raw, nodes, path)

    return put


def _put_type_name(
    planned: TypeNameField, source: Any, out: dict[str, Any], path: ResponsePath | None, state: ExecutionState
) -> None:
    out[planned.key] = planned.value


def always_raise(message: str, nodes: Sequence[Node] | None) -> CompleteObject:
    """Return a function that fails for every object."""

    def complete_object(source: Any, path: ResponsePath, state: ExecutionState) -> dict[str, Any]:
        raise GraphQLError(message, nodes)

    return complete_object

"""Notes every mutation of a caller who acts for a user in the audit log, before it is executed (ADR 92).

All mutations are executed in one place, which calls this, so no mutation can lack its entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import DocumentNode, GraphQLError, GraphQLSchema, OperationType
from graphql.execution import Executor
from graphql.execution.collect_fields import collect_fields

from resolvers.base.app import Confab
from resolvers.users.callers import Caller
from schema.base.errors import refused
from store.audit.audit_note import AuditNote
from store.base.errors import StoreError


async def note_acting_for(
    app: Confab,
    caller: object,
    schema: GraphQLSchema,
    document: DocumentNode,
    operation_name: str | None,
    variables: Mapping[str, Any] | None,
) -> None:
    """Store an entry for each root field of a mutation whose caller acts for another user, in one write.

    For other callers it does nothing. Runs in the request scope of the operation. Raises RequestRefused if the entries
    can't be stored: execute nothing then.
    """
    if not isinstance(caller, Caller) or caller.acted_by is None:
        return
    user = caller.user_id
    mutations = _list_mutations(schema, document, operation_name, variables)
    try:
        if mutations:
            await app.store.audit.record(*(AuditNote(user, mutation, target=user) for mutation in mutations))
    except StoreError as error:
        raise refused([GraphQLError(str(error), original_error=error)]) from error


def _list_mutations(
    schema: GraphQLSchema, document: DocumentNode, operation_name: str | None, variables: Mapping[str, Any] | None
) -> list[str]:
    """Return the names of the root fields that will be executed, in order; a field that is executed twice, twice.

    Empty if the values of the variables do not fit: then nothing will be executed.
    """
    executor = Executor.build(
        schema, document, raw_variable_values=dict(variables or {}), operation_name=operation_name
    )
    root = schema.get_root_type(OperationType.MUTATION)
    if isinstance(executor, list) or root is None:
        return []
    collected = collect_fields(schema, executor.fragments, executor.variable_values, root, executor.operation)
    names = (details[0].node.name.value for details in collected.grouped_field_set.values())
    return [name for name in names if not name.startswith("__")]

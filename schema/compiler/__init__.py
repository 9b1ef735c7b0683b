"""Executes GraphQL operations as compiled plans and generated code. Independent of the rest of Confab.

For every field of every object, graphql-core decides again which fields are selected, whether a type is a list or an
enum, and how its resolver is called. Here a validated operation over a Strawberry schema is compiled once and executed
many times. For each object, only its attributes remain to be read. The result is the same, errors and nulls included:

    operation = compile_operation(schema, document, operation_name)
    if operation is not None:
        result = await operation.execute(variables, root_value, context_value)

`compile_operation` returns None for operations that it does not support; graphql-core's `execute` supports all of them.

A resolver can notice these differences: fields of one level that have to be awaited are completed together when the
last one is available; an awaitable whose place an error has removed still runs to its end and is not cancelled; `info`
is built on first use; an object's attributes are read before its resolvers are called, and may be read twice.

The types of a schema can help: `reads` declares a field that is an attribute of the object's record, and
`prefetched_by` lets a data loader read for all objects of a list at once.
"""

from schema.compiler.deferred import Deferred, then
from schema.compiler.operations import CompiledOperation, MeasuredResult, ResultTooLarge, compile_operation
from schema.compiler.plan_cache import PlanCache
from schema.compiler.prefetching import prefetched_by
from schema.compiler.record_fields import reads

__all__ = [
    "CompiledOperation",
    "Deferred",
    "MeasuredResult",
    "PlanCache",
    "ResultTooLarge",
    "compile_operation",
    "prefetched_by",
    "reads",
    "then",
]

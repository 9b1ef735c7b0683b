"""GraphQL operations as closures: a validated operation over a Strawberry schema is compiled once, and run many times.

graphql-core finds out anew for every field of every object what it has to do: which fields are selected, whether a type is a
list or an enum, how its resolver is called. Here all of that is decided when the operation is compiled; what is left for each
object is to read its attributes. The outcome is the same, errors and nulls included:

    operation = compile_operation(schema, document, operation_name)
    if operation is not None:
        result = await operation.execute(variables, root_value, context_value)

`compile_operation` answers None for what it doesn't cover; graphql-core's `execute` does all of it. It knows nothing of Confab.

Differences that a resolver can see: fields of one level that wait are completed together once the last of them is there; what an
error leaves without a place is still run to its end, not cancelled; `info` is made when it is asked for; an attribute may be read twice.
"""

from schema.compiler.deferred import Deferred, then
from schema.compiler.operations import CompiledOperation, compile_operation
from schema.compiler.plan_cache import PlanCache

__all__ = ["CompiledOperation", "Deferred", "PlanCache", "compile_operation", "then"]

"""The GraphQL types of push notifications."""

from __future__ import annotations

import strawberry

from resolvers.push.push_service import PushOutcome, PushResult
from schema.compiler import reads

strawberry.enum(
    PushOutcome,
    description="ACCEPTED: the service has it, which does not mean that the device gets it. GONE: the address is not "
    "valid any more, and was removed from the device: register it again. REFUSED: the service refused this push, or "
    "the credentials. UNREACHABLE: no answer, or overloaded; try again later. NOT_CONFIGURED: the deployment has no "
    "credentials for the service, or the device has no push address.",
)


@strawberry.type(name="PushResult")
class PushResultType:
    record: strawberry.Private[PushResult]
    outcome: PushOutcome = reads("record.outcome")
    reason: str | None = reads("record.reason", description="For developers, in English. Null if it was accepted.")

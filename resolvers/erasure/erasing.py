"""Begins erasures of users, and shows their progress (ADR 94)."""

from __future__ import annotations

from dataclasses import dataclass

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, InvalidInput, NotFound
from resolvers.erasure.departures import ACTION
from resolvers.erasure.erasure_job import ErasureInput, steps_left
from resolvers.erasure.refusal import refuse_user
from resolvers.users.callers import Caller, CallerRole
from store.audit.audit_note import AuditNote
from store.base.ids import UserId, is_user_id
from store.jobs.job import Job, JobId, JobKind, JobState
from store.users.erased_users import is_pseudonym, new_pseudonym

KEPT_MS = 30 * 24 * 3600 * 1000
"""Time after its end for which an erasure is shown."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure.

    Attributes:
        user: The user, as the caller names them.
        state: The state of the job.
        remaining: Number of steps that are left. It grows if a pass finds the id again.
        finished_at_ms: When it ended (ms).
    """

    user: UserId
    state: JobState
    remaining: int
    finished_at_ms: int | None


async def erase_user(app: Confab, caller: Caller, user: str, *, removes_messages: bool) -> Erasure:
    """Begin to erase a user, who is refused from now on. If an erasure of the user is running, return that one.

    A finished erasure is returned too, until there is a user with the id again. A failed one is repeated.

    Raises Forbidden, NotFound for an unknown user, and InvalidInput for the caller's own id.
    """
    _check_role(caller)
    if user in (caller.user_id, caller.token_user):
        raise InvalidInput("you can't erase yourself; use the token of another service or admin", field="userId")
    target = UserId(user)
    if not is_user_id(user) or is_pseudonym(user):
        raise _unknown()
    name = app.store.erased_users.name_of(target)
    before = await app.store.jobs.find_newest(name, JobKind.ERASURE)
    has_failed = before is not None and before.state is JobState.FAILED
    is_known = await app.store.users.find(target) is not None
    if before is not None and (before.finished_at_ms is None or not (is_known or has_failed)):
        return _view(target, before)
    if not is_known and not has_failed:
        raise _unknown()
    # Rows that a failed erasure has changed already have its pseudonym.
    pseudonym = UserId(before.input["pseudonym"]) if before is not None and has_failed else new_pseudonym()
    given = ErasureInput(target, pseudonym, removes_messages)
    after = {"messages": removes_messages}
    await app.store.audit.record(AuditNote(caller.user_id, ACTION, target=pseudonym, after=after))
    now_ms = app.store.clock.now_ms()
    created = await app.store.jobs.create_only(
        Job(JobId(f"e_{app.store.ids.next()}"), JobKind.ERASURE, name, now_ms, input=given.to_stored())
    )
    await refuse_user(app, target)
    return _view(target, created)


async def find_erasure(app: Confab, caller: Caller, user: str) -> Erasure | None:
    """Return the newest erasure of a user; None if there was none in the last 30 days. Raises Forbidden."""
    _check_role(caller)
    if not is_user_id(user):
        return None
    job = await app.store.jobs.find_newest(app.store.erased_users.name_of(UserId(user)), JobKind.ERASURE)
    if job is None or (job.finished_at_ms or app.store.clock.now_ms()) + KEPT_MS < app.store.clock.now_ms():
        return None
    return _view(UserId(user), job)


def _view(user: UserId, job: Job) -> Erasure:
    is_ended = job.finished_at_ms is not None
    return Erasure(
        user,
        job.state,
        0 if job.state is JobState.DONE else steps_left(job.progress),
        job.finished_at_ms if is_ended else None,
    )


def _check_role(caller: Caller) -> None:
    if caller.role not in (CallerRole.SERVICE, CallerRole.ADMIN):
        raise Forbidden("only callers with role service or admin may do this")


def _unknown() -> NotFound:
    return NotFound("there is no such user", field="userId")

"""Users: sign-in, and creating users for other systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url
from resolvers.base.errors import Forbidden, InvalidInput, NotFound
from resolvers.base.metadata import encode_metadata
from resolvers.base.names import accept_name
from resolvers.users.callers import Caller, CallerRole
from store.base.ids import USER_ID_RULE, UserId, is_user_id
from store.users.user import User

MAX_USERS = 1_000


async def sign_in(app: Confab, caller: Caller) -> None:
    """Create the caller if needed. A name and a picture that are not set are taken from the token.

    No round trip after the first call. Raises Forbidden for a user who is being erased.
    """
    if app.revocations.is_being_erased(caller.user_id):
        raise Forbidden("this user is being erased")
    if await app.store.users.ensure(caller.user_id, caller.name, caller.picture):
        await _announce(app, [caller.user_id])


async def _announce(app: Confab, users: Sequence[UserId]) -> None:
    """Let other servers read changed profiles again, and list the users by their new names in their workspaces."""
    await app.bus.announce_users(users)
    await app.store.member_search.refresh_changed(users)


def check_user_ids(users: Sequence[str], field: str) -> None:
    """Raise NotFound if a text can't be a user id."""
    if not all(is_user_id(user) for user in users):
        raise NotFound("there is no such user", field=field)


async def access_users(app: Confab, users: Sequence[str], field: str) -> list[UserId]:
    """Return the users once each, in the given order. Raises NotFound if one does not exist."""
    wanted = list(dict.fromkeys(UserId(user) for user in users))
    check_user_ids(wanted, field)
    found = await app.store.users.find_many(wanted)
    for user in wanted:
        if user not in found:
            raise NotFound("there is no such user", field=field)
    return wanted


async def upsert_users(app: Confab, caller: Caller, users: Sequence[User]) -> list[User]:
    """Create users, or replace their profiles. If one is invalid, none is written. For services and admins.

    Raises Forbidden, InvalidInput.
    """
    if caller.role not in (CallerRole.SERVICE, CallerRole.ADMIN):
        raise Forbidden("only callers with role service or admin may do this")
    if len(users) > MAX_USERS:
        raise InvalidInput(f"give at most {MAX_USERS} users in one call", field="input")
    if len({user.id for user in users}) != len(users):
        raise InvalidInput("give each user once", field="id")
    accepted = [_accept_user(user) for user in users]
    if any(app.revocations.is_being_erased(user.id) for user in accepted):
        raise Forbidden("one of these users is being erased; try again after an hour", field="id")
    if accepted:
        await app.store.users.upsert_many(accepted)
        await _announce(app, [user.id for user in accepted])
    return accepted


async def update_me(
    app: Confab, viewer: UserId, display_name: str | None, avatar_url: str | None, metadata: object
) -> User:
    """Change the viewer's own profile. None leaves a field as it is; avatar_url "" removes the picture.

    If it changes nothing, nobody is notified. Raises InvalidInput.
    """
    name = accept_name(display_name, "displayName") if display_name is not None else None
    if avatar_url:
        check_avatar_url(avatar_url)
    user, has_changed = await app.store.users.update(
        viewer, name=name, avatar_url=avatar_url, metadata=encode_metadata(metadata)
    )
    if has_changed:
        await _announce(app, [viewer])
    return user


def _accept_user(user: User) -> User:
    """Return a user as it is stored. Raises InvalidInput."""
    if not is_user_id(user.id):
        raise InvalidInput(f"a user id is {USER_ID_RULE}", field="id")
    check_avatar_url(user.avatar_url)
    return replace(user, name=accept_name(user.name or "", "displayName"))

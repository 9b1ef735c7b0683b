"""Creates, finds and lists workspaces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from resolvers.base.app import Confab
from resolvers.base.checks import check_avatar_url, check_key
from resolvers.base.cursors import decode_page, is_number
from resolvers.base.errors import InvalidInput, LimitReached, NotFound, Unavailable
from resolvers.base.metadata import encode_metadata
from resolvers.base.names import accept_name
from resolvers.base.pages import Edge, Page, check_page_size
from resolvers.base.rate_limits import check_rate
from resolvers.users.people import check_query
from resolvers.workspaces.audit_values import workspace_values
from store.audit.audit_note import AuditNote
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, is_workspace_id, workspace_id
from store.workspaces.user_workspaces import TooManyWorkspaces
from store.workspaces.workspace_info import WorkspaceInfo
from store.workspaces.workspace_store import FIRST_POLICY_VERSION, DomainTaken, KeyTaken, OpenPosition

_DOMAIN = re.compile(r"[a-z0-9-]{3,32}\Z")


@dataclass(frozen=True, slots=True)
class NewWorkspace:
    """A workspace that a caller wants to create. `metadata`: a JSON value."""

    name: str
    domain: str | None = None
    icon_url: str | None = None
    is_open: bool = False
    metadata: object = None
    key: str | None = None


class CreatedWorkspace(NamedTuple):
    """A workspace. `rev`: its clock before it was stored; None if it was there before."""

    info: WorkspaceInfo
    rev: int | None


async def create_workspace(app: Confab, creator: UserId, new: NewWorkspace) -> CreatedWorkspace:
    """Create a workspace that the creator owns.

    If the creator uses a key again, the first workspace is returned. Raises InvalidInput, LimitReached, RateLimited and
    NotFound: then nothing was stored.
    """
    name = accept_name(new.name, "name")
    if new.domain is not None and not _DOMAIN.match(new.domain):
        raise InvalidInput("domain must have 3 to 32 characters of a-z, 0-9 and -", field="domain")
    check_avatar_url(new.icon_url, "iconUrl")
    check_key(new.key)
    metadata = encode_metadata(new.metadata)
    if new.key is not None and (first := await _find_first(app, creator, new.key)) is not None:
        return CreatedWorkspace(first, None)
    check_rate(app.store.rate_limits.workspace_changes, creator)
    user = await app.store.users.find(creator)
    info = WorkspaceInfo(
        workspace_id(app.store.ids.next()),
        name,
        creator,
        app.store.clock.now_ms(),
        member_count=1,
        version=FIRST_POLICY_VERSION,
        domain=new.domain,
        icon_url=new.icon_url,
        metadata=metadata,
        is_open=new.is_open,
    )
    # The clock begins here, so that no event of the workspace is older.
    (reading,) = await app.store.clocks.read([info.id])
    try:
        await app.store.workspaces.insert(
            info,
            user.name if user is not None else None,
            new.key,
            app.limits.max_workspaces_per_user,
            app.store.audit.entry_rows(
                AuditNote(creator, "createWorkspace", info.id, info.id, after=workspace_values(info))
            ),
        )
    except DomainTaken as error:
        raise InvalidInput("another workspace has this domain", field="domain") from error
    except TooManyWorkspaces as error:
        raise too_many_workspaces(app) from error
    except KeyTaken as error:
        first = await _find_first(app, creator, new.key) if new.key is not None else None
        if first is None:
            raise Unavailable("the workspace could not be stored; please try again") from error
        return CreatedWorkspace(first, None)
    app.memberships.announce([creator])
    return CreatedWorkspace(info, reading.tick)


def too_many_workspaces(app: Confab, field: str | None = None) -> LimitReached:
    """Return the error for a user who is in as many workspaces as allowed."""
    return LimitReached(f"a user is in at most {app.limits.max_workspaces_per_user} workspaces", field=field)


async def _find_first(app: Confab, creator: UserId, key: str) -> WorkspaceInfo | None:
    """Return the workspace that was created with a key, whatever the input was. Raises NotFound if it is gone."""
    workspace = await app.store.workspaces.find_claim(creator, key)
    if workspace is None:
        return None
    info = await app.store.workspaces.find(workspace)
    if info is None or await app.store.policies.find_member(workspace, creator, info.version) is None:
        raise NotFound("you are no longer in the workspace created with this idempotencyKey", field="idempotencyKey")
    return info


async def list_mine(app: Confab, viewer: UserId, first: int | None, after: str | None) -> Page[WorkspaceInfo]:
    """Return a page of the workspaces that the viewer is in, in the order of joining. Raises InvalidInput."""
    size = check_page_size(first, "first")
    start = _decode_position("w", after) if after is not None else None
    joined = await app.store.user_workspaces.list_joined(viewer)
    if start is not None:
        joined = [entry for entry in joined if (entry.joined_at_ms, entry.workspace) > start]
    part = joined[:size]
    infos = await app.store.workspaces.find_many([entry.workspace for entry in part])
    edges = [
        Edge(infos[entry.workspace], ("w", entry.joined_at_ms, entry.workspace))
        for entry in part
        # Rows of a workspace that was deleted are removed after it.
        if entry.workspace in infos
    ]
    return Page(edges, has_next=len(joined) > size, has_previous=start is not None)


def _decode_position(kind: str, after: str) -> tuple[int, WorkspaceId]:
    parts = decode_page(kind, after, "after")
    if len(parts) != 2 or not is_number(parts[0]) or not is_workspace_id(parts[1]):
        raise InvalidInput("after must be a cursor of this list", field="after")
    return int(parts[0]), WorkspaceId(parts[1])


async def list_open(app: Confab, query: str | None, first: int | None, after: str | None) -> Page[WorkspaceInfo]:
    """Return a page of the workspaces that anyone may join, largest first. Raises InvalidInput.

    query: the beginning of a word of the name.
    """
    size = check_page_size(first, "first")
    wanted = check_query(query) if query is not None else None
    start = OpenPosition(*_decode_position("o", after)) if after is not None else None
    found = await app.store.workspaces.list_open(wanted, start, size + 1)
    edges = [Edge(info, ("o", info.member_count, info.id)) for info in found[:size]]
    return Page(edges, has_next=len(found) > size, has_previous=start is not None)

"""Access to webhooks: MANAGE_WEBHOOKS for those of a workspace, the role admin for those of the deployment."""

from __future__ import annotations

from resolvers.base.app import Confab
from resolvers.base.errors import Forbidden, NotFound
from resolvers.users.callers import Caller, CallerRole
from resolvers.workspaces.access import access_scope
from store.base.workspace_ids import WorkspaceId
from store.webhooks.webhook import Webhook, parse_webhook_id
from store.workspaces.permissions import Permission


async def check_may_manage(app: Confab, caller: Caller, workspace: str | None) -> WorkspaceId | None:
    """Return the workspace whose webhooks a caller may manage; None: those of the deployment.

    Raises Forbidden, and NotFound if the caller is not in the workspace.
    """
    return await access_scope(app, caller, workspace, Permission.MANAGE_WEBHOOKS)


async def access_webhook(app: Confab, caller: Caller, id: str) -> Webhook:
    """Return a webhook that a caller may manage.

    Raises Forbidden for members of its workspace without the right, and NotFound for all others.
    """
    parsed = parse_webhook_id(id)
    webhook = await app.store.webhooks.find(parsed) if parsed is not None else None
    if webhook is None:
        raise no_webhook()
    if webhook.workspace is None:
        if caller.role is not CallerRole.ADMIN:
            raise no_webhook()
        return webhook
    try:
        await check_may_manage(app, caller, webhook.workspace)
    except NotFound as error:
        raise no_webhook() from error
    return webhook


async def find_webhook(app: Confab, caller: Caller, id: str) -> Webhook | None:
    """Return a webhook that a caller may manage, or None."""
    try:
        return await access_webhook(app, caller, id)
    except (NotFound, Forbidden):
        return None


def no_webhook() -> NotFound:
    """Return the error for a webhook that does not exist, or that the caller does not see."""
    return NotFound("there is no such webhook", field="webhookId")

"""Mutations of threads."""

from __future__ import annotations

import strawberry

from resolvers.threads import thread_changes
from schema.base.context import Info
from schema.threads.thread_types import ThreadType, thread_from


@strawberry.type
class ThreadMutations:
    @strawberry.mutation(
        description='A followed thread is a session in subBiz "@threads": unread counts, messageEvents and '
        "syncSessions include it from now on. Whoever starts a thread, replies in it or is mentioned in it follows it "
        "automatically, unless they have unfollowed it; then a mention only counts. At most 1,000 followers "
        "(LIMIT_REACHED; nobody follows automatically beyond that)."
    )
    async def follow_thread(self, info: Info, thread_id: strawberry.ID, follow: bool = True) -> ThreadType:
        context = info.context
        access = await thread_changes.follow_thread(context.app, context.viewer, thread_id, follow=follow)
        return thread_from(access)

    @strawberry.mutation(
        description="MANAGE_THREADS (groups: OWNER and ADMIN), or the parent's sender. In a locked thread only they "
        "write (FORBIDDEN)."
    )
    async def lock_thread(self, info: Info, thread_id: strawberry.ID, locked: bool = True) -> ThreadType:
        context = info.context
        access = await thread_changes.lock_thread(context.app, context.viewer, thread_id, locked=locked)
        return thread_from(access)
